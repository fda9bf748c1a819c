"""``python -m sharedstate_lite.lab``."""

import sys

from sharedstate_lite.lab.launch import main

if __name__ == "__main__":
    sys.exit(main())
