"""Run by path, not imported: sets limits and lowers the priority, then becomes the command.

    python -I -S launch.py NAME=SOFT... -- COMMAND...

Limits are set here and not between fork and exec of the grader, which has threads.
"""

import ctypes
import os
import resource
import signal
import sys

NICE, PR_SET_PDEATHSIG = 10, 1


def main() -> None:
    """Give up what the arguments say, then be the command. Exit 127: there is no such program."""
    cut = sys.argv.index("--")
    for setting in sys.argv[1:cut]:
        name, _, soft = setting.partition("=")
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = int(soft) if most == resource.RLIM_INFINITY else min(int(soft), most)
        resource.setrlimit(limit, (value, value))
    # What the grader started ends with it, even if the grader is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(NICE)
    command = sys.argv[cut + 1 :]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
