"""``python -m sharedstate_lite.doctor``."""

import os
import sys

from sharedstate_lite.doctor.report import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader has seen enough; and flushing at exit must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
