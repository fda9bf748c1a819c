"""A program that sets limits and a lower priority, then becomes the command. It is never imported.

    python -I -S launch.py JSON

The JSON object contains: uid (-1: keep the current uid), limits, env (the command's environment variables) and command.
The limits are not set between fork and exec in the grader, because the grader has threads. This program starts without
environment variables, because the dynamic loader would obey them before any limit is set.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import warnings  # noqa: F401, os.execvpe imports it, when another uid may be unable to read it

NICE, PR_SET_PDEATHSIG = 10, 1


def main() -> None:
    """Set the limits and become the command. Exits with 127 if the program is missing."""
    asked = json.loads(sys.argv[1])
    os.nice(NICE)
    for name, (soft, hard) in asked["limits"].items():
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (value, value if hard else most))
    if asked["uid"] >= 0:
        os.setgroups([])
        os.setresgid(asked["uid"], asked["uid"], asked["uid"])
        os.setresuid(asked["uid"], asked["uid"], asked["uid"])
    # A change of uid resets this. The kernel kills the command when the grader exits, even if the grader is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    command = asked["command"]
    try:
        os.execvpe(command[0], command, asked["env"])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
