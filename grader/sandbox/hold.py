"""A program that owns the user and network namespaces of one run until its input is closed. It is never imported.

    python -I -S hold.py UID        UID -1: keep the current uid

It prints "ready" once the loopback interface is up. The namespace has no other interface. Linux only.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, SIGKILL = 0x10000000, 0x40000000, 4, 1, 9
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def main() -> None:
    """Create the namespaces, map the user, bring up loopback, and wait until the input is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid = int(sys.argv[1])
    if uid >= 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise, /proc/self/uid_map belongs to root
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare(user, net)")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    with socket.socket() as sock:
        asked = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(sock, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))
    print("ready", flush=True)
    sys.stdin.buffer.read()


main()
