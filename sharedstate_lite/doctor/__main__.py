"""Runs the checks for ``python -m sharedstate_lite.doctor``."""

import sys

from sharedstate_lite.doctor.report import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
