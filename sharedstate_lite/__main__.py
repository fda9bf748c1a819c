"""The command ``sharedstate``, also ``python -m sharedstate_lite``: a name for each of the kit's commands.

    sharedstate lessons DIR [--open]     copy the notebooks and labs to a folder; with --open, start JupyterLab in it
    sharedstate doctor [--spark]         check that this machine is ready
    sharedstate example                  the example of the assignment under the three strategies, in a terminal
    sharedstate stepper [FILE] [--open]  the stepper as a web page that needs no network
    sharedstate data make|check ...      generate a shop of any size with Spark, and check its files
    sharedstate why VIEW.sql FILE...     which rows of your files give a row of your view, or where it ended
    sharedstate price VIEW.sql FILE...   what your views cost under each strategy, predicted and then measured

A command's own options are shown by ``sharedstate COMMAND --help``.
"""

from __future__ import annotations

import runpy
import sys

COMMANDS = {
    "lessons": "sharedstate_lite.doctor.lessons",
    "doctor": "sharedstate_lite.doctor",
    "example": "sharedstate_lite.lessons.demo",
    "stepper": "sharedstate_lite.show.stepper",
    "data": "sharedstate_lite.data",
    "why": "sharedstate_lite.own.why",
    "price": "sharedstate_lite.own.price",
}


def main() -> int:
    """Run the command that the first argument names. Returns 2 if there is no such command."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name not in COMMANDS:
        asked = name in ("-h", "--help")
        print(__doc__ if asked else f"sharedstate: there is no command {name}: {', '.join(COMMANDS)}", file=sys.stderr)
        return 0 if asked and len(sys.argv) > 1 else 2
    sys.argv = [f"sharedstate {name}", *sys.argv[2:]]
    runpy.run_module(COMMANDS[name], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
