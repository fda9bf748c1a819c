"""Runs the command line ``python -m grader``, without importing modules from the current folder.

The current folder could be a submission that contains, for example, its own json.py.
"""

import sys

_HERE = __file__.rpartition("/")[0].rpartition("/")[0]
if not sys.flags.safe_path and sys.path and sys.path[0] != _HERE:
    del sys.path[0]

from .cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
