"""What each kernel of ``make lab`` runs when it starts.

A NameError in a kernel that has run nothing yet, for example after a restart, then says to run the cells above first.
The kit is imported only when that happens, so that a kernel starts as fast as without it.
"""

from __future__ import annotations

from pathlib import Path

CODE = """\
get_ipython().set_custom_exc(
    (NameError,),
    lambda *error, **options: __import__("sharedstate_lite.show.tracebacks", fromlist=["show"]).show(*error, **options),
)
"""


def write_startup(ipython: Path) -> None:
    """Write the code to IPython's folder, the value of IPYTHONDIR, where kernels look for it."""
    folder = ipython / "profile_default" / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sharedstate_lite.py").write_text(CODE)
