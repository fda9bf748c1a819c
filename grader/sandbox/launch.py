"""Run by path, not imported: sets limits and lowers the priority, then becomes the command.

    python -I -S launch.py JSON

The object says: limits, env (the command's variables), command. Limits are set here and not between fork and exec
of the grader, which has threads. The variables are the command's alone: this program starts without any, or the
loader would do what they say before there is a limit.
"""

import ctypes
import json
import os
import resource
import signal
import sys

NICE, PR_SET_PDEATHSIG = 10, 1


def main() -> None:
    """Give up what the object says, then be the command. Exit 127: there is no such program."""
    asked = json.loads(sys.argv[1])
    for name, (soft, hard) in asked["limits"].items():
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (value, value if hard else most))
    # What the grader started ends with it, even if the grader is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(NICE)
    command = asked["command"]
    try:
        os.execvpe(command[0], command, asked["env"])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
