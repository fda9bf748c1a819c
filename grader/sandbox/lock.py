"""A program that restricts itself, in tier 2 also with Landlock, then becomes the command. It is never imported.

    python -I -S lock.py JSON

The JSON object contains: abi (0: no Landlock), readable and writable (files and folders), ports (to which TCP can
connect; null: all), uid (-1: keep the current uid), limits, env (the command's environment variables) and command. The
numeric constants are from the kernel's documentation of Landlock. This program starts without environment variables,
because the dynamic loader would otherwise obey a submission's LD_PRELOAD before the restrictions apply. The limits are
not set between fork and exec in the grader, because the grader has threads.

If it changes its uid, it gives up all capabilities, unless a path is inside a folder that only root can enter. Then it
keeps the capability to enter such folders, and Landlock decides what can be accessed inside them. The restrictions
cannot be lifted again, and child processes inherit them.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import sys
import warnings  # noqa: F401, os.execvpe imports it, when another uid may be unable to read it
from typing import Any

NICE = 10
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, PATH_BENEATH, NET_PORT = 444, 445, 446, 1, 2
CONNECT_TCP, SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 2, 1, 2
# Access rights as bits: execute, write, read and list. The bits for truncate (ABI 3) and ioctl (ABI 5) apply to files.
READ, FILE = 0b1101, 0b0111 | 1 << 14 | 1 << 15
EVERY = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, AMBIENT_RAISE = 1, 8, 38, 47, 2
CAPABILITIES_3, DAC_OVERRIDE, DAC_READ_SEARCH = 0x20080522, 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def check(code: int, what: str) -> int:
    """Return ``code``, or raise OSError with the C library's errno if it is negative."""
    if code < 0:
        raise OSError(ctypes.get_errno(), what)
    return code


def ruleset(asked: dict[str, Any]) -> int:
    """Return a descriptor for the Landlock rules. Everything that the rules do not allow is denied."""
    abi = asked["abi"]
    every = EVERY[min(abi, 5)]
    words = [every]
    ports = asked["ports"]
    if abi >= 4:
        words.append(CONNECT_TCP if ports is not None else 0)
    if abi >= 6:
        words.append(SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS)
    attributes = struct.pack(f"{len(words)}Q", *words)
    rules = check(LIBC.syscall(CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")
    paths = [(path, READ) for path in asked["readable"]] + [(path, every) for path in asked["writable"]]
    for path, access in paths + [(path, 0b0110) for path in DEVICES]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # some machines do not have this path
        kept = access & every if os.path.isdir(path) else access & every & FILE
        check(LIBC.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", kept, place), 0), f"landlock: {path}")
        os.close(place)
    for port in ports or () if abi >= 4 else ():
        check(LIBC.syscall(ADD_RULE, rules, NET_PORT, struct.pack("QQ", CONNECT_TCP, port), 0), f"landlock: {port}")
    return rules


def held() -> int:
    """Return the permitted capabilities of this process as bits."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1], 16) for line in lines if line.startswith("CapPrm:"))


def become(uid: int, needed: list[str]) -> None:
    """Change to another uid. Keep the capability to enter closed folders only if a ``needed`` path is in one."""
    right = next((bit for bit in (DAC_READ_SEARCH, DAC_OVERRIDE) if held() >> bit & 1), None)
    there = [path for path in needed if os.path.exists(path)]
    LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)  # no capability is in effect now
    if all(os.access(path, os.R_OK) for path in there):
        right = None
    bits = 0 if right is None else 1 << right
    header = struct.pack("Ii", CAPABILITIES_3, 0)
    check(LIBC.capset(header, struct.pack("6I", bits, bits, bits, 0, 0, 0)), "capset")
    if right is not None:
        check(LIBC.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, right, 0, 0), "prctl(ambient)")


def main() -> None:
    """Set the limits and the rules, and become the command. Exits with 127 if the program is missing."""
    asked = json.loads(sys.argv[1])
    os.nice(NICE)
    rules = ruleset(asked) if asked["abi"] else -1
    for name, (soft, hard) in asked["limits"].items():
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (value, value if hard else most))
    if asked["uid"] >= 0:
        become(asked["uid"], (asked["readable"] + asked["writable"]) if asked["abi"] else [])
    # The kernel kills the command when the grader exits. A change of uid resets this, so it must follow `become`.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(no_new_privs)")
    if asked["abi"]:
        check(LIBC.syscall(RESTRICT_SELF, rules, 0), "landlock_restrict_self")
        os.close(rules)
    command = asked["command"]
    try:
        os.execvpe(command[0], command, asked["env"])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
