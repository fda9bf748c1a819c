"""A program, never imported: sets limits and a lower priority, then becomes the command.

    python -I -S launch.py JSON

The object holds: limits, env (the command's variables), command. Limits are set here and not between fork and exec of
the grader, which has threads. This program starts without variables, as the loader would obey them before any limit.
"""

import ctypes
import json
import os
import resource
import signal
import sys

NICE, PR_SET_PDEATHSIG = 10, 1


def main() -> None:
    """Set the limits and become the command. Exit 127: the program is missing."""
    asked = json.loads(sys.argv[1])
    for name, (soft, hard) in asked["limits"].items():
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (value, value if hard else most))
    # The command ends with the grader, even if that is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(NICE)
    command = asked["command"]
    try:
        os.execvpe(command[0], command, asked["env"])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
