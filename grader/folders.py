"""Walk, measure, copy and remove folders that a submission has filled.

A submission may nest folders to any depth, give them any name and any mode, and change them at the same time. So
nothing here is recursive, no link is followed, and each folder is opened from the one that contains it. This also works
for paths that are too long for the kernel, which accepts 4,096 bytes.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

_AT_ONCE = 100
"""The number of folders that a walk keeps open. A process can often open only 1,024 files."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LIST, _CHANGE = 0o500, 0o700
"""The owner's permissions that are needed to list a folder and to change it."""
_LONGEST = 200
Failed = Callable[[OSError], object]
"""Is called with the error for a folder that cannot be listed. The error has its path."""


@dataclass(slots=True)
class Level:
    """One folder of a walk. It is valid until the walk goes on."""

    fd: int
    folders: list[os.DirEntry[str]]
    """The folders in it, in the order in which they are walked next. The caller may change this list."""
    others: list[os.DirEntry[str]]
    """Everything else in it: files, links, sockets, pipes and devices."""
    _names: list[str]

    def path(self, name: str = "") -> str:
        """Return the path of this folder, or of a name in it, below the folder where the walk began."""
        return "/".join((*self._names[1:], name)).rstrip("/")


@dataclass(slots=True)
class _Entered:
    """A folder that contains the current one, or the current one. It is closed (-1) if too many others are open."""

    fd: int
    inside: list[str] = field(default_factory=list)
    """The names of the folders that are still to be walked, the next one last."""
    identity: tuple[int, int] = (0, 0)
    """The device and the inode, once the folder is closed."""


def shown(path: str) -> str:
    """Return a path for a message: only its beginning if it is long, and always text.

    >>> shown("a/" * 1500)[195:]
    '/a/a/...'
    """
    text = os.fsencode(path).decode(errors="replace")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def ignore(error: OSError) -> None:
    """Leave out a folder that cannot be listed, unless the reason is that this process has too many files open."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _raised(error: OSError) -> NoReturn:
    raise error


def walk(top: Path | str, failed: Failed = _raised, rights: int = 0) -> Iterator[Level]:
    """Yield a folder and then all folders below it, each before those that it contains.

    ``rights``: permissions of the owner, which a folder without them is given. What is moved during the walk may be
    left out.
    """
    return _walk(os.path.join(top, ""), None, failed, rights)  # with the slash, the top itself may be a link


def _walk(
    top: str, at: int | None, failed: Failed, rights: int, leave: Callable[[str, int | None], None] | None = None
) -> Iterator[Level]:
    """Walk the folder ``top`` in the folder ``at``. ``leave``: is called with each folder after all that it contains,
    by its name and the folder that it is in.
    """
    entered: list[_Entered] = []
    names = [top]
    try:
        while True:
            try:
                level = _listed(names, entered[-1].fd if entered else at, rights)
            except OSError as error:
                failed(_named(error, names))
                names.pop()
            else:
                entered.append(_Entered(level.fd))
                yield level
                entered[-1].inside = [entry.name for entry in reversed(level.folders)]
                if len(entered) > _AT_ONCE + 1 and (above := entered[-_AT_ONCE - 1]).fd >= 0:
                    above.identity = _identity(above.fd)
                    os.close(above.fd)
                    above.fd = -1
            while entered and not entered[-1].inside:
                left, name = entered.pop(), names.pop()
                try:
                    found = not entered or entered[-1].fd >= 0 or _returned(left.fd, entered, names)
                finally:
                    os.close(left.fd)
                if leave is not None and found:
                    try:
                        leave(name, entered[-1].fd if entered else at)
                    except OSError as error:
                        failed(_named(error, [*names, name]))
            if not entered:
                return
            names.append(entered[-1].inside.pop())
    finally:
        for one in entered:
            if one.fd >= 0:
                os.close(one.fd)


def _listed(names: list[str], at: int | None, rights: int) -> Level:
    """Open and list a folder."""
    try:
        fd = os.open(names[-1], _FOLDER, dir_fd=at)
    except PermissionError:
        if not rights:
            raise
        _permit(names[-1], at, rights)
        fd = os.open(names[-1], _FOLDER, dir_fd=at)
    try:
        if rights and rights & ~(mode := os.fstat(fd).st_mode):
            os.fchmod(fd, stat.S_IMODE(mode) | rights)
        level = Level(fd, [], [], names)
        with os.scandir(fd) as entries:
            for entry in entries:
                (level.folders if entry.is_dir(follow_symlinks=False) else level.others).append(entry)
    except BaseException:
        os.close(fd)
        raise
    return level


def _permit(name: str, at: int | None, rights: int) -> None:
    """Give the owner permissions for a folder that cannot be opened to read."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | rights)
    finally:
        os.close(fd)


def _returned(below: int, entered: list[_Entered], names: list[str]) -> bool:
    """Open the last folder again, which contained ``below``.

    Returns False if one of them has been moved. Then the last folder is the lowest one that is where it was.
    """
    try:
        entered[-1].fd = _same("..", below, entered[-1])
        return True
    except OSError:
        at = entered[0].fd  # which is never closed
    for depth in range(1, len(entered)):
        try:
            fd = _same(names[depth], at, entered[depth])
        except OSError:
            del entered[depth:], names[depth:]
            break
        if depth > 1:
            os.close(at)
        at = fd
    entered[-1].fd = at
    return False


def _same(name: str, at: int, before: _Entered) -> int:
    """Open a folder again. Raises OSError if it is another one."""
    fd = os.open(name, _FOLDER, dir_fd=at)
    if _identity(fd) != before.identity:
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "moved", name)
    return fd


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _named(error: OSError, names: list[str]) -> OSError:
    """Return the error with the whole path."""
    return OSError(error.errno, error.strerror, os.path.join(*names).rstrip("/"))


def paths(top: Path | str, skip: Collection[str] = (), failed: Failed = _raised) -> Iterator[str]:
    """Yield the paths below a folder of everything but folders: first what is in the folder itself, sorted by name.

    ``skip``: names of folders to leave out.
    """
    for level in walk(top, failed):
        level.folders = sorted((one for one in level.folders if one.name not in skip), key=lambda one: one.name)
        yield from (level.path(name) for name in sorted(one.name for one in level.others))


def measure(folder: Path) -> tuple[int, int]:
    """Return the bytes on disk of what is in a folder, as `du` counts them, and the number of files and folders."""
    blocks = files = 0
    linked = set()
    for number, level in enumerate(walk(folder, ignore, _LIST)):
        blocks += os.fstat(level.fd).st_blocks if number else 0
        files += len(level.folders) + len(level.others)
        for entry in level.others:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it has been removed
            if found.st_nlink > 1:
                if (found.st_dev, found.st_ino) in linked:
                    continue
                linked.add((found.st_dev, found.st_ino))
            blocks += found.st_blocks
    return blocks * 512, files


def copy(source: Path, target: Path, skip: Collection[str] = ()) -> None:
    """Copy a folder to ``target``, a new folder. Links are copied as links, and files with their modes and times.

    ``skip``: names to leave out. Raises OSError for anything else than files, folders and links, and for a path that
    is too long.
    """
    for level in walk(source):
        level.folders = [one for one in level.folders if one.name not in skip]
        os.mkdir(target / level.path())
        for entry in level.others:
            place = target / level.path(entry.name)
            if entry.name in skip:
                continue
            if entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=level.fd), place)
                continue
            opened = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=level.fd)
            with os.fdopen(opened, "rb") as file:
                about = os.fstat(opened)
                if not stat.S_ISREG(about.st_mode):
                    raise OSError(errno.EINVAL, "is neither a file nor a folder", level.path(entry.name))
                with open(place, "xb") as made:
                    shutil.copyfileobj(file, made)
                    os.fchmod(made.fileno(), about.st_mode & 0o777)
                    made.flush()
                    os.utime(made.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))


def remove(path: Path | str, at: int | None = None) -> None:
    """Remove a file, a link, or a folder with everything in it. It may be missing. ``at``: the folder that it is in.

    Raises OSError with the path of the first thing that stays behind, after everything else has been removed.
    """
    try:
        found = os.stat(path, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(path, dir_fd=at)
        return
    left: list[OSError] = []
    for level in _walk(os.fspath(path), at, left.append, _CHANGE, lambda name, at: os.rmdir(name, dir_fd=at)):
        for entry in level.others:
            try:
                os.unlink(entry.name, dir_fd=level.fd)
            except OSError as error:
                left.append(OSError(error.errno, error.strerror, os.path.join(path, level.path(entry.name))))
    for one in left:
        if one.errno != errno.ENOENT:
            raise OSError(one.errno, f"{one.strerror}, so it stays behind", shown(one.filename))


def discard(path: Path | str) -> None:
    """Remove a file or folder. If something stays behind, print its path instead of raising an error."""
    try:
        remove(path)
    except OSError as error:
        print(f"note: {error.filename} cannot be removed ({error.strerror}); remove it yourself", file=sys.stderr)


@contextmanager
def temporary(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder, in ``parent`` or the system's folder for temporary files, and remove it after the block."""
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield made
    finally:
        discard(made)
