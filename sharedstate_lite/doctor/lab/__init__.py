"""``make lab`` once the environment stands: doctor, the example in the terminal, JupyterLab.

    python -m sharedstate_lite.doctor.lab [--no-browser] [--watch-parent]

    launch.py    the order of things, and what is printed
    server.py    JupyterLab as a child: started, waited for, ended with all that it started
    serve.py     what runs in that child: JupyterLab, and a watch on the launcher
    kin.py       which processes belong to a lab
    watch.py     the reasons to end: a signal, the end of the process that called us

The address is the last line printed. Ctrl-C, SIGTERM or SIGHUP ends JupyterLab, its
kernels and whatever they started; so does the end of the launcher itself, however it
comes. JupyterLab's settings, its log and its list of servers are kept in the caches
folder: a person's own Jupyter set-up is neither read nor changed.
"""
