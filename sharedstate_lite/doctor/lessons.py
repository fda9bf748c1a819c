"""The command ``sharedstate lessons DIR``: copies of the lessons in any folder, without a checkout of the kit."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sharedstate_lite.doctor import lab
from sharedstate_lite.doctor.copies import copy_lessons
from sharedstate_lite.errors import Error


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, ``sharedstate lessons``. Returns the exit status: 0, or 1 after an error."""
    parser = argparse.ArgumentParser(
        prog="sharedstate lessons",
        description="Copy the notebooks and labs to a folder. What is there and was changed stays as it is.",
    )
    parser.add_argument("folder", type=Path, help="the folder to copy to; it is made if it does not exist")
    parser.add_argument("--open", action="store_true", help="then start JupyterLab in it")
    options = parser.parse_args(arguments)
    if options.open:
        os.environ[lab.WORK] = str(options.folder.absolute())
        return lab.main([])  # which copies the lessons itself
    try:
        copy_lessons(options.folder)
    except (Error, OSError) as error:
        print(f"sharedstate lessons: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder.absolute()}: open notebooks/00-start-here.ipynb in JupyterLab")
    return 0


if __name__ == "__main__":
    sys.exit(main())
