"""Runs the command line ``python -m grader``, without importing modules from the current folder.

The current folder could be a submission that contains, for example, its own json.py. Each command imports only what it
needs: `check` and `break` run on systems and Pythons that lack what the others need.
"""

import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__" and not sys.flags.safe_path and sys.path and sys.path[0] != _HERE:
    del sys.path[0]

import importlib  # noqa: E402

_COMMANDS = {
    "check": "student.command",
    "break": "student.breaks",
    "lab": "lab.command",
    "class": "classroom.command",
    "one": "classroom.single",
    "grades": "classroom.command",
    "similar": "classroom.similar",
    "explore": "explore.command",
}
"""The module of each command that `cli` does not have, which has ``main(args) -> int``."""


def main(words: list[str]) -> int:
    """Run the command line ``words`` (without the program name) and return the exit status."""
    name = _COMMANDS.get(words[0], "cli") if words else "cli"
    try:
        module = importlib.import_module(f"grader.{name}")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("grader."):
            raise
        print("python -m grader: this copy of the grader has two commands: check and break", file=sys.stderr)
        return 64
    with_name = name == "cli" or name.startswith("classroom.")
    status: int = module.main(words if with_name else words[1:])
    return status


def command() -> int:
    """Run the program's own command line: the script ``grader`` calls this."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
