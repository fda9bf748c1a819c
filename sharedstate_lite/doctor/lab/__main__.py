"""``python -m sharedstate_lite.doctor.lab``."""

import sys

from sharedstate_lite.doctor.lab.launch import main

if __name__ == "__main__":
    sys.exit(main())
