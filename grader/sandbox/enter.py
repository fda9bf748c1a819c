"""A program that becomes one process in the sandbox of tier 1. It is never imported.

    python -I -S enter.py JSON

The JSON object contains: uid (-1: keep the current uid), stage (a folder that every uid can enter, used as a mount
point), binds (a list of [source, destination, writable]), namespaces (files of those to enter), limits,
bwrap (its command line without the binds) and command.

If started as root, it first creates the binds in a private mount namespace, because the uid of the submission cannot
enter folders that only root can enter. Then it changes to that uid, so that the limit on processes counts only the
processes of this run.
"""

import ctypes
import json
import os
import resource
import sys

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, PR_SET_DUMPABLE = 0x20000, 4096, 16384, 1 << 18, 4
NICE = 10
LIBC = ctypes.CDLL(None, use_errno=True)


def check(code: int, what: str) -> None:
    """Raise OSError with the C library's errno unless ``code`` is 0. ``what``: the call that returned it."""
    if code:
        raise OSError(ctypes.get_errno(), what)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call mount(2). Raises OSError if it fails."""
    words = (text.encode() for text in (source, target, kind))
    check(LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"mount {source} on {target}")


def staged(stage: str, binds: list[list[str]]) -> list[tuple[str, str, str]]:
    """Mount all sources below ``stage``, where any uid can access them, in a private mount namespace.

    Returns the binds with the mounts as their sources.
    """
    check(LIBC.unshare(CLONE_NEWNS), "unshare(mount)")
    # Open the sources first, because the mount on the stage may hide them.
    sources = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source, _, _ in binds]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", stage, "tmpfs", 0, "mode=0755,size=1m")
    found = []
    for number, (source, destination, writable) in enumerate(binds):
        place = f"{stage}/{number}"
        if os.path.isdir(source):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        mount(f"/proc/self/fd/{sources[number]}", place, "", MS_BIND | MS_REC)
        found.append((place, destination, writable))
    return found


def main() -> None:
    """Mount the binds, drop privileges, enter the namespaces, set the limits, and become bwrap."""
    asked = json.loads(sys.argv[1])
    binds = asked["binds"]
    namespaces = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in asked["namespaces"]]
    if asked["uid"] >= 0:
        binds = staged(asked["stage"], binds)
        os.chdir("/")
        os.setgroups([])
        os.setresgid(asked["uid"], asked["uid"], asked["uid"])
        os.setresuid(asked["uid"], asked["uid"], asked["uid"])
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.nice(NICE)
    for namespace in namespaces:
        check(LIBC.setns(namespace, 0), "setns")
    words = list(asked["bwrap"])
    for source, destination, writable in binds:
        words += ["--bind" if writable else "--ro-bind", source, destination]
    # Make everything except the binds read-only, because files there would use up memory.
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, (soft, hard) in asked["limits"].items():
        limit = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(limit)[1]
        value = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(limit, (value, value if hard else most))
    os.execve(words[0], [*words, "--", *asked["command"]], {})


main()
