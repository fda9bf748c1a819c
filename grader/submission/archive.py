"""Unpack a submission from a .zip, .tar or .tar.gz, without writing outside the target folder.

Only regular files and folders are accepted. Links, devices, pipes, duplicate names and names that lead out of the
folder are rejected. Sizes are counted while unpacking, because a header may be wrong.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import SubmissionError
from ..folders import shown
from .reading import FILE

MOST_BYTES, MOST_FILES = 200_000_000, 20_000
"""The maximum size of a submission, both packed and unpacked, and the maximum number of files, and of folders."""
MOST_PARTS, LONGEST, LONGEST_NAME = 100, 3_000, 255
"""The maximum number of parts of a path in a submission, its maximum length, and that of a part, in bytes."""
_LITTER = ("__MACOSX", ".DS_Store")
"""Entries that macOS adds to archives."""
_CACHES = ("__MACOSX", "__pycache__")
ENVIRONMENT = "pyvenv.cfg"
"""The file that Python writes into the folder of a virtual environment."""
_OTHERS = {"RAR": b"Rar!\x1a\x07", "7z": b"7z\xbc\xaf\x27\x1c"}
"""The first bytes of archives that are not unpacked."""
_SPECIAL = "is neither a file nor a folder", "pack the file itself"
_UNUSUAL = "is encrypted or has an unusual compression", "create an ordinary zip"
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
"""What zipfile raises for a damaged archive, or one that it cannot read."""
_PIECE = 1 << 20
_HEADER = 4096
"""The maximum number of bytes in a tar member's extended header."""


class Room:
    """Counts down the bytes and files that an archive may still contain."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self.bytes, self.files, self._most_folders = most_bytes, most_files, most_files
        self._folders: set[Path] = set()
        self._full = f"the archive has more than {most_bytes:,} bytes or {most_files:,} files or folders"

    def full(self) -> SubmissionError:
        """Return the error for an archive that contains too much."""
        return SubmissionError(self._full, "leave out data files")

    def take(self, size: int, files: int = 0) -> None:
        """Count bytes and files. Raises SubmissionError if there are too many."""
        self.bytes -= size
        self.files -= files
        if self.bytes < 0 or self.files < 0:
            raise self.full()

    def folder(self, place: Path, name: str) -> None:
        """Make a folder unless it has been made. Raises SubmissionError if there are too many, or a file is there.

        ``name``: the member of the archive that needs it.
        """
        if place not in self._folders:
            self._folders.add(place)
            if len(self._folders) > self._most_folders:
                raise self.full()
            try:
                place.mkdir(exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise _twice(name) from None


@dataclass
class _Member:
    """A file or folder in an archive."""

    name: str
    folder: bool
    wrong: tuple[str, str] | None
    """Why it is not accepted as a file, and what to do; None: it is."""
    mode: int
    open: Callable[[], Any]
    size: int
    """The number of bytes, as the archive says."""


class _Counted:
    """A stream that limits the bytes read from it, because a large tar header would otherwise fill the memory."""

    def __init__(self, stream: IO[bytes], room: Room) -> None:
        self._stream, self._room = stream, room

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes. Raises SubmissionError if there are too many."""
        if size > self._room.bytes + _PIECE:
            self._room.take(size)
        data = self._stream.read(size)
        self._room.take(len(data))
        return data


class _Header(tarfile.TarInfo):
    """A tar member that rejects long extended headers, which tarfile reads into memory and parses slowly."""

    def _proc_member(self, packed: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > _HEADER:
            raise SubmissionError(
                f"a header has {self.size:,} bytes; the limit is {_HEADER:,}", "pack the folder again"
            )
        found: tarfile.TarInfo = super()._proc_member(packed)  # type: ignore[misc]
        return found


def unpack(
    path: Path,
    folder: Path,
    most_bytes: int = MOST_BYTES,
    most_files: int = MOST_FILES,
    tidy: bool = False,
    room: Room | None = None,
) -> Path:
    """Unpack an archive into an empty folder. Returns this folder or, if it contains only one folder, that folder.

    ``tidy``: leave out what `counts` rejects; ``room``: what several archives may contain together, in place of the
    limits. Raises SubmissionError if the archive is damaged, too large or has members that are not allowed.
    """
    room = room or Room(most_bytes, most_files)
    if path.stat().st_size > max(most_bytes, MOST_BYTES):
        raise room.full()
    try:
        around: set[tuple[str, ...]] = set()
        if tidy:
            names = [parts_of(member.name) for member in islice(_members(path), MOST_FILES + 1)]
            if len(names) > MOST_FILES:
                raise SubmissionError(f"the archive has more than {MOST_FILES:,} names", "leave out data files")
            around = {parts[:-1] for parts in names if parts[-1:] == (ENVIRONMENT,)}
        for member in _members(path):
            _put(member, folder, room, around if tidy else None)
    except (*_DAMAGED, tarfile.TarError, OSError) as error:
        kinds = ".zip, .tar or .tar.gz"
        raise SubmissionError(f"the archive cannot be unpacked: {error}", f"pack it again, as a {kinds}") from error
    inside = [path for path in folder.iterdir() if path.name not in _LITTER]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() and not (folder / FILE).exists() else folder


def names_in(path: Path) -> list[tuple[str, ...]]:
    """Return the parts of each name in a zip that does not lead out of it. Raises SubmissionError if it is damaged."""
    try:
        return [parts_of(member.name) for member in _zip(path) if not leads_out(member.name)]
    except _DAMAGED as error:
        raise SubmissionError(f"the archive cannot be unpacked: {error}", "download it again") from error


def unpack_groups(
    path: Path, folder: Path, depth: int, most_bytes: int, most_files: int
) -> list[tuple[str, SubmissionError]]:
    """Unpack a zip of many submissions: what has the same part number ``depth`` in its name is one of them.

    Returns the names that are refused, each with the error. After the first one, nothing else of its submission is
    unpacked. Each submission has the limits of `unpack`. Raises SubmissionError for the limits of the whole.
    """
    rooms: dict[str, Room] = {}
    refused: dict[str, tuple[str, SubmissionError]] = {}
    whole = Room(most_bytes, most_files)
    for member in _zip(path):
        parts = parts_of(member.name)
        if set(parts) & set(_LITTER):
            continue
        group = parts[depth] if len(parts) > depth else ""
        if group in refused:
            continue
        try:
            _put(member, folder, rooms.setdefault(group, Room(MOST_BYTES, MOST_FILES)))
        except (SubmissionError, *_DAMAGED) as error:
            if not isinstance(error, SubmissionError):
                error = SubmissionError(f"{shown(member.name)!r}: {error}", "pack it again")
            refused[member.name if leads_out(member.name) else group] = member.name, error
        else:
            whole.take(member.size, 1)
    return list(refused.values())


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name in an archive. Some programs on Windows separate them with backslashes.

    >>> parts_of("lab\\\\solution.py")
    ('lab', 'solution.py')
    """
    return PurePosixPath(name.replace("\\", "/")).parts


def counts(name: str) -> bool:
    """Return whether a file or folder can belong to a submission. Hidden ones and those of a cache do not."""
    return name not in _CACHES and not name.startswith(".")


def leads_out(name: str) -> bool:
    """Return whether a name in an archive leads out of the folder it is unpacked to."""
    parts = parts_of(name)
    drive = re.fullmatch("[A-Za-z]:", parts[0]) if parts else None
    return not parts or parts[0] == "/" or ".." in parts or "\0" in name or drive is not None


def _put(member: _Member, folder: Path, room: Room, around: Collection[tuple[str, ...]] | None = None) -> None:
    """Write a member of an archive. ``around``: folders with a virtual environment; None: nothing is left out."""
    name, parts = member.name, parts_of(member.name)
    if leads_out(name):
        raise SubmissionError(f"{shown(name)!r} leads out of the archive", "pack the folder itself")
    if around is not None and (
        not all(map(counts, parts)) or any(parts[:end] in around for end in range(len(parts) - 1))
    ):
        return
    if why := too_long("/".join(parts)):
        raise SubmissionError(why, "pack the folder without it")
    room.take(0, 1)
    place = folder
    for part in parts[:-1]:
        place /= part
        room.folder(place, name)
    place /= parts[-1]
    if member.folder:
        room.folder(place, name)
        return
    if member.wrong:
        reason, mend = member.wrong
        raise SubmissionError(f"{name!r} {reason}", mend)
    try:
        handle = os.open(
            place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if member.mode & 0o111 else 0o644
        )
    except FileExistsError:
        raise _twice(name) from None
    with os.fdopen(handle, "wb") as file, member.open() as stream:
        while data := stream.read(_PIECE):
            room.take(len(data))
            file.write(data)


def _twice(name: str) -> SubmissionError:
    return SubmissionError(f"{shown(name)!r} is in the archive twice", "pack the folder again")


def too_long(path: str) -> str:
    """Return what is too long in a path of a submission, or ""."""
    parts = os.fsencode(path).split(b"/")
    for found, most, what in (
        (len(parts), MOST_PARTS, "parts"),
        (len(os.fsencode(path)), LONGEST, "bytes"),
        (max(map(len, parts)), LONGEST_NAME, "bytes in one name"),
    ):
        if found > most:
            return f"the path {shown(path)!r} has {found:,} {what}; the limit is {most:,}"
    return ""


def _members(path: Path) -> Iterator[_Member]:
    with open(path, "rb") as file:
        first = file.read(8)
    for kind, mark in _OTHERS.items():
        if first.startswith(mark):
            raise SubmissionError(f"this is a {kind} archive", "hand in the file itself")
    yield from _zip(path) if zipfile.is_zipfile(path) else _tar(path)


def _zip(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as packed:
        for one in packed.infolist():
            mode, wrong = one.external_attr >> 16, None
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                wrong = _SPECIAL
            elif one.flag_bits & 1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                wrong = _UNUSUAL
            folder = one.filename.endswith(("/", "\\"))
            yield _Member(one.filename, folder, wrong, mode, partial(packed.open, one), one.file_size)


def _tar(path: Path) -> Iterator[_Member]:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: IO[bytes] = gzip.open(file) if zipped else file  # type: ignore[assignment]
        counted = _Counted(stream, Room(MOST_BYTES, MOST_FILES))
        # Read the file as a stream, so that every byte is read and counted once.
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Header) as packed:  # type: ignore[call-overload]
            for one in packed:
                wrong = None if one.isreg() and not one.issparse() else _SPECIAL
                yield _Member(one.name, one.isdir(), wrong, one.mode, partial(packed.extractfile, one), one.size)
