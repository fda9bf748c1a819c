"""Tries one checkout again and again, each time with another message lost, another process killed, or another order.

`cutter` finds the messages in the bytes of a connection, `connection` passes them on or holds them, `proxy` is the
process with all connections, and `proxies` sends it commands and returns what has happened. `through` puts it between
the processes of a run. `quiet` says when they have nothing more to do, and `schedule` delivers one message after the
other. `cases` lists what can be tried, `world` sets it up, `play` is one run, and `system` has the processes and judges
it. `writes` stops a service before a write, so that it is killed there. `steps`, `shown` and `drawn` are what a run
looked like, `looks` reads the values after each of its steps, and `legal` says whether it could have happened.
`explorer` runs all cases, `command` is the command line, `breaking` runs the cases that students have written for
wrong shops, and `janitor` cleans up if it is killed. docs/assignment.md lists what can happen to a message ("What can
happen between your processes").
"""
