"""``python -m grader``, from any folder. Modules of the current folder are not imported.

A user may call the grader inside a submission, which may hold its own json.py.
"""

import sys

_HERE = __file__.rpartition("/")[0].rpartition("/")[0]
if not sys.flags.safe_path and sys.path and sys.path[0] != _HERE:
    del sys.path[0]

from .cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
