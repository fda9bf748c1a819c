"""A program that gives up its rights and becomes a command of a submission, in every tier. It is never imported.

    python -I -S enter.py JSON

The JSON object has uid (-1: keep the current one), limits, env (the command's environment variables), command, and

    bwrap       tier 1: the command line of bubblewrap without the binds
    binds       tier 1: [source, destination, writable] of what the command sees
    stage       tier 1: a folder that every uid can enter, used as a mount point
    namespaces  tier 1: the files of those to enter
    landlock    tier 2: {abi, readable and writable (files and folders), ports (to connect to; null: all)}

In tier 1, root first creates the binds in a private mount namespace, because the uid of the submission cannot enter
folders that only root can enter. In tiers 2 and 3, a process that changes its uid gives up all capabilities, unless a
path is inside such a folder. Then it keeps the capability to enter such folders, and Landlock decides what can be
accessed inside them. The restrictions cannot be lifted again, and child processes inherit them. The limits are set
last, so that the limit on processes counts only those of the new uid.

This program starts without environment variables, because the dynamic loader would otherwise obey a submission's
LD_PRELOAD before the restrictions apply. The limits are not set between fork and exec in the grader, because the grader
has threads. The numeric constants are from the kernel's documentation.
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
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, PATH_BENEATH, NET_PORT = 444, 445, 446, 1, 2
CONNECT_TCP, SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 2, 1, 2
# Access rights as bits: execute, write, read and list. The bits for truncate (ABI 3) and ioctl (ABI 5) apply to files.
READ, FILE = 0b1101, 0b0111 | 1 << 14 | 1 << 15
EVERY = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 1, 4, 8, 38
PR_CAP_AMBIENT, AMBIENT_RAISE = 47, 2
CAPABILITIES_3, DAC_OVERRIDE, DAC_READ_SEARCH = 0x20080522, 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def check(code: int, what: str) -> int:
    """Return ``code``, or raise OSError with the C library's errno if it is negative."""
    if code < 0:
        raise OSError(ctypes.get_errno(), what)
    return code


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2). Raises OSError if it fails."""
    words = (text.encode() for text in (source, target, kind))
    check(LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"mount {source} on {target}")


def staged(stage: str, binds: list[list[str]]) -> list[list[str]]:
    """Mount all sources below ``stage``, where any uid can access them, in a private mount namespace.

    Returns the binds with the mounts as their sources.
    """
    check(LIBC.unshare(CLONE_NEWNS), "unshare(mount)")
    # Open the sources first, because the mount on the stage may hide them.
    sources = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source, _, _ in binds]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", stage, "tmpfs", 0, "mode=0755,size=1m")
    mounts = []
    for number, (source, destination, writable) in enumerate(binds):
        place = f"{stage}/{number}"
        if os.path.isdir(source):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        mount(f"/proc/self/fd/{sources[number]}", place, "", MS_BIND | MS_REC)
        mounts.append([place, destination, writable])
    return mounts


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


def limit(limits: dict[str, list[int]]) -> None:
    """Set the resource limits {name: [value, whether it is also the hard limit]}, none above the present hard limit."""
    for name, (soft, hard) in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(number)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(number, (value, value if hard else most))


def into_walls(asked: dict[str, Any]) -> list[str]:
    """Mount the binds, drop root, enter the namespaces, and return the command line of bubblewrap."""
    binds = asked["binds"]
    namespaces = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in asked["namespaces"]]
    if asked["uid"] >= 0:
        binds = staged(asked["stage"], binds)
        os.chdir("/")
        become(asked["uid"], [])
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise, this process's files in /proc belong to root
    for namespace in namespaces:
        check(LIBC.setns(namespace, 0), "setns")
    words: list[str] = asked["bwrap"]
    for source, destination, writable in binds:
        words += ["--bind" if writable else "--ro-bind", source, destination]
    # Make everything except the binds read-only, because files there would use up memory.
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--", *asked["command"]]


def locked(asked: dict[str, Any]) -> list[str]:
    """Drop root, apply the rules of Landlock, and return the command."""
    rules = asked.get("landlock")
    allowed = -1 if rules is None else ruleset(rules)
    if asked["uid"] >= 0:
        become(asked["uid"], [] if rules is None else rules["readable"] + rules["writable"])
    # The kernel kills the command when the grader exits. A change of uid resets this, so it must follow `become`.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(no_new_privs)")
    if rules is not None:
        check(LIBC.syscall(RESTRICT_SELF, allowed, 0), "landlock_restrict_self")
        os.close(allowed)
    words: list[str] = asked["command"]
    return words


def main() -> None:
    """Give up rights, set the limits, and become the command. Exits with 127 if the program is missing."""
    asked = json.loads(sys.argv[1])
    words = into_walls(asked) if "bwrap" in asked else locked(asked)
    os.nice(NICE)
    limit(asked["limits"])
    try:
        os.execvpe(words[0], words, asked["env"])
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


main()
