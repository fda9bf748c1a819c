"""A process that serves a FUSE file system over a folder, until its power is cut.

    python -P -m grader.powercut.serve MOUNT FOLDER

The process prints "ready" once the file system is mounted. When it reads the line "cut" from its input, it undoes all
unsynced writes and prints "cut BLOCKS FILES". After that, every request fails. The process unmounts and exits when its
input is closed, which also happens if the grader is killed.

An msync arrives as an fsync of its file. The kernel caches reads, but it passes on every write immediately, except
writes through a memory mapping. Those arrive when they are synced, or earlier.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import signal
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from mfusepy import FUSE, Operations, fuse_file_info, fuse_get_context

from .undo import Undo

_HIDDEN = ".fuse_hidden"
"""When an open file is removed, libfuse renames it to a name with this prefix. After a cut, it must no longer exist."""
_WANTED = os.O_NOFOLLOW | os.O_CLOEXEC
_TIMES = ("st_atime", "st_mtime", "st_ctime")
_FIELDS = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_blksize", "st_rdev")
_SPACE = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail", "f_namemax")

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _powered(method: Callable[Concatenate[Folder, str, _P], _R]) -> Callable[Concatenate[Folder, str, _P], _R]:
    """Wrap a request handler: run one request at a time, pass its full path, and raise EIO after a cut."""

    @functools.wraps(method)
    def guarded(self: Folder, path: str, /, *rest: _P.args, **named: _P.kwargs) -> _R:
        with self._turn:
            if self.off:
                raise OSError(errno.EIO, "the power is cut")
            return method(self, self.root + path, *rest, **named)

    return guarded


class Folder(Operations):  # type: ignore[misc]  # the library is untyped
    """Passes the kernel's requests on to a folder. File handles are descriptors of files in the folder."""

    use_ns = True

    def __init__(self, root: str) -> None:
        self.root, self._turn, self.off = root, threading.Lock(), False
        self._undo: dict[int, Undo] = {}
        """The old content of each file with unsynced writes, by inode."""
        self._hidden: set[str] = set()
        self._owned = os.geteuid() == 0
        self.ended = False
        """Whether the input has been closed."""

    def cut(self) -> tuple[int, int]:
        """Undo all unsynced writes and make later requests fail. Returns how many blocks and files were undone."""
        with self._turn:
            self.off = True
            blocks = sum(undo.undo() for undo in self._undo.values())
            for path in self._hidden:
                os.unlink(path)
            return blocks, len(self._undo)

    def init(self, path: str) -> None:
        """Print that the file system is mounted."""
        print("ready", flush=True)

    def _forget(self, path: str) -> None:
        """Discard the undo data of a file if its last name is about to be removed."""
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)
            if found.st_nlink == 1 and (undo := self._undo.pop(found.st_ino, None)):
                undo.close()

    def _own(self, path: str) -> None:
        """Make the caller the owner of a new file, if this process runs as root."""
        if self._owned:
            uid, gid, _ = fuse_get_context()
            os.chown(path, uid, gid, follow_symlinks=False)

    # Data.

    @_powered
    def create(self, path: str, mode: int, info: fuse_file_info) -> int:
        info.fh = os.open(path, os.O_RDWR | os.O_CREAT | _WANTED | info.flags & os.O_EXCL, mode)
        self._own(path)
        if info.flags & os.O_TRUNC:
            self._resize(info.fh, 0)
        return 0

    @_powered
    def open(self, path: str, info: fuse_file_info) -> int:
        # Open for reading too, because a write must first store the old content.
        reads = info.flags & os.O_ACCMODE == os.O_RDONLY
        info.fh = os.open(path, (os.O_RDONLY if reads else os.O_RDWR) | _WANTED)
        if info.flags & os.O_TRUNC:
            self._resize(info.fh, 0)
        return 0

    @_powered
    def read(self, path: str, size: int, offset: int, info: fuse_file_info) -> bytes:
        return os.pread(info.fh, size, offset)

    @_powered
    def write(self, path: str, data: bytes, offset: int, info: fuse_file_info) -> int:
        inode = os.fstat(info.fh).st_ino
        if info.flags & os.O_DSYNC and not info.writepage:
            written = os.pwrite(info.fh, data, offset)
            if undo := self._undo.get(inode):
                undo.through(offset, data[:written])
            return written
        if inode not in self._undo:
            self._undo[inode] = Undo(info.fh)
        self._undo[inode].before(offset, len(data))
        return os.pwrite(info.fh, data, offset)

    @_powered
    def fsync(self, path: str, datasync: int, info: fuse_file_info) -> int:
        if undo := self._undo.pop(os.fstat(info.fh).st_ino, None):
            undo.close()
        return 0

    @_powered
    def truncate(self, path: str, length: int, info: fuse_file_info | None = None) -> int:
        file = os.open(path, os.O_RDWR | _WANTED)
        try:
            self._resize(file, length)
        finally:
            os.close(file)
        return 0

    def _resize(self, file: int, length: int) -> None:
        os.ftruncate(file, length)
        if undo := self._undo.get(os.fstat(file).st_ino):
            undo.cut_to(length)

    @_powered
    def fallocate(self, path: str, mode: int, offset: int, size: int, info: fuse_file_info) -> int:
        if mode:
            raise OSError(errno.EOPNOTSUPP, "fallocate can only extend a file")
        os.posix_fallocate(info.fh, offset, size)
        if undo := self._undo.get(os.fstat(info.fh).st_ino):
            undo.longer(offset + size)
        return 0

    def release(self, path: str, info: fuse_file_info) -> int:
        os.close(info.fh)
        return 0

    # Everything else is durable immediately.

    @_powered
    def getattr(self, path: str, info: fuse_file_info | None = None) -> dict[str, int]:
        found = os.lstat(path) if info is None else os.fstat(info.fh)
        return {name: getattr(found, name) for name in _FIELDS} | {t: getattr(found, f"{t}_ns") for t in _TIMES}

    @_powered
    def readdir(self, path: str, handle: int) -> list[tuple[str, dict[str, int], int]]:
        # The C library hides entries without an inode number.
        with os.scandir(path) as found:
            names = [(one.name, {"st_ino": one.inode(), "st_mode": _kind(one)}, 0) for one in found]
        itself = {"st_ino": os.lstat(path).st_ino, "st_mode": stat.S_IFDIR}
        return [(".", itself, 0), ("..", itself, 0), *names]

    @_powered
    def readlink(self, path: str) -> str:
        return os.readlink(path)

    @_powered
    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(path, mode)
        self._own(path)
        return 0

    @_powered
    def mknod(self, path: str, mode: int, device: int) -> int:
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            raise OSError(errno.EPERM, "a submission must not create devices")
        os.mknod(path, mode)
        self._own(path)
        return 0

    @_powered
    def symlink(self, path: str, source: str) -> int:
        os.symlink(source, path)
        self._own(path)
        return 0

    @_powered
    def link(self, path: str, source: str) -> int:
        os.link(self.root + source, path, follow_symlinks=False)
        return 0

    @_powered
    def rename(self, path: str, new: str) -> int:
        self._forget(self.root + new)
        os.rename(path, self.root + new)
        self._hidden.discard(path)
        if os.path.basename(new).startswith(_HIDDEN):
            self._hidden.add(self.root + new)
        return 0

    @_powered
    def unlink(self, path: str) -> int:
        self._forget(path)
        os.unlink(path)
        self._hidden.discard(path)
        return 0

    @_powered
    def rmdir(self, path: str) -> int:
        os.rmdir(path)
        return 0

    @_powered
    def chmod(self, path: str, mode: int) -> int:
        os.chmod(path, mode)
        return 0

    @_powered
    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(path, uid, gid, follow_symlinks=False)
        return 0

    @_powered
    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(path, ns=times, follow_symlinks=False) if times else os.utime(path, follow_symlinks=False)
        return 0

    @_powered
    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(path)
        return {name: getattr(found, name) for name in _SPACE}


def _kind(entry: os.DirEntry[str]) -> int:
    """Return the file type of a directory entry as mode bits; 0 if it is unknown."""
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFDIR if entry.is_dir() else stat.S_IFREG if entry.is_file() else 0


def _obey(folder: Folder) -> None:
    """Execute the commands from standard input, and terminate the process when it is closed."""
    for line in sys.stdin:
        if line == "cut\n":
            print("cut", *folder.cut(), flush=True)
    folder.ended = True
    os.kill(os.getpid(), signal.SIGTERM)  # libfuse reacts by unmounting


def main(mount: str, folder: str) -> None:
    """Serve ``folder`` at ``mount`` until the input is closed."""
    os.umask(0)  # the kernel has already applied the caller's umask
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each unsynced file keeps a descriptor open
    served = Folder(folder)
    threading.Thread(target=_obey, args=(served,), daemon=True, name="power").start()
    # default_permissions: the kernel checks modes and owners.
    options: dict[str, Any] = {"default_permissions": True, "auto_unmount": True, "use_ino": True, "nosuid": True}
    if os.geteuid() == 0:
        options["allow_other"] = True  # services run as another user
    try:
        FUSE(served, mount, raw_fi=True, foreground=True, nothreads=True, fsname="powercut", **options)
    except RuntimeError:
        sys.exit(not served.ended)  # libfuse printed the reason; it also reports an error after SIGTERM


if __name__ == "__main__":
    main(*sys.argv[1:])
