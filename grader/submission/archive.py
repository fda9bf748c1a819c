"""Unpack a submission from a .zip, .tar or .tar.gz, without writing outside the target folder.

Only regular files and folders are accepted. Links, devices, pipes, duplicate names and names that lead out of the
folder are rejected. Sizes are counted while unpacking, because a header may be wrong.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from ..errors import SubmissionError
from ..folders import shown
from .reading import FILE

MOST_BYTES, MOST_FILES = 200_000_000, 20_000
"""The maximum size of a submission, both packed and unpacked, and the maximum number of files, and of folders."""
MOST_PARTS, LONGEST, LONGEST_NAME = 100, 3_000, 255
"""The maximum number of parts of a path in a submission, its maximum length, and that of a part, in bytes."""
_LITTER = ("__MACOSX", ".DS_Store")
"""Entries that macOS adds to archives."""
_PIECE = 1 << 20
_HEADER = 4096
"""The maximum number of bytes in a tar member's extended header."""


class _Room:
    """Counts down the bytes and files that an archive may still contain."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self.bytes, self.files, self._most_folders = most_bytes, most_files, most_files
        self._folders: set[Path] = set()
        said = f"the archive has more than {most_bytes:,} bytes or {most_files:,} files or folders"
        self._said = f"{said}; leave out data files"

    def take(self, size: int, files: int = 0) -> None:
        """Count bytes and files. Raises SubmissionError if there are too many."""
        self.bytes -= size
        self.files -= files
        if self.bytes < 0 or self.files < 0:
            raise SubmissionError(self._said)

    def folder(self, place: Path) -> None:
        """Make a folder unless it has been made. Raises SubmissionError if there are too many."""
        if place not in self._folders:
            self._folders.add(place)
            if len(self._folders) > self._most_folders:
                raise SubmissionError(self._said)
            place.mkdir()


class _Counted:
    """A stream that limits the bytes read from it, because a large tar header would otherwise fill the memory."""

    def __init__(self, stream: IO[bytes], room: _Room) -> None:
        self._stream, self._room = stream, room

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes. Raises SubmissionError if there are too many."""
        if size > self._room.bytes + _PIECE:
            self._room.take(size)
        data = self._stream.read(size)
        self._room.take(len(data))
        return data


class _Member(tarfile.TarInfo):
    """A tar member that rejects long extended headers, which tarfile reads into memory and parses slowly."""

    def _proc_member(self, packed: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > _HEADER:
            raise SubmissionError(f"a header has {self.size:,} bytes; the limit is {_HEADER:,}; pack the folder again")
        found: tarfile.TarInfo = super()._proc_member(packed)  # type: ignore[misc]
        return found


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> Path:
    """Unpack an archive into an empty folder. Returns this folder or, if it contains only one folder, that folder.

    Raises SubmissionError if the archive is damaged, too large or has members that are not allowed.
    """
    room = _Room(most_bytes, most_files)
    if path.stat().st_size > most_bytes:
        room.take(path.stat().st_size)
    try:
        if zipfile.is_zipfile(path):
            _zip(path, folder, room)
        else:
            _tar(path, folder, room)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise SubmissionError(f"the archive cannot be unpacked: {error}; use a .zip, .tar or .tar.gz") from error
    inside = [path for path in folder.iterdir() if path.name not in _LITTER]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() and not (folder / FILE).exists() else folder


def _place(name: str, folder: Path, room: _Room) -> Path:
    """Return the path of a member in the folder, and make the folders above it. Raises SubmissionError if the path is
    outside the folder or too long.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or ":" in parts[0]:
        raise SubmissionError(f"{shown(name)!r} leads out of the archive; pack the folder itself")
    if why := too_long("/".join(parts)):
        raise SubmissionError(f"{why}; pack the folder without it")
    room.take(0, 1)
    place = folder
    for part in parts[:-1]:
        place /= part
        room.folder(place)
    return folder.joinpath(*parts)


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


def _write(name: str, place: Path, mode: int, read: Callable[[int], bytes], room: _Room | None) -> None:
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if mode & 0o111 else 0o644)
    except FileExistsError:
        raise SubmissionError(f"{name!r} is in the archive twice; pack the folder again") from None
    with os.fdopen(handle, "wb") as file:
        while data := read(_PIECE):
            if room is not None:
                room.take(len(data))
            file.write(data)


def _zip(path: Path, folder: Path, room: _Room) -> None:
    with zipfile.ZipFile(path) as packed:
        for member in packed.infolist():
            name, mode = member.filename, member.external_attr >> 16
            place = _place(name, folder, room)
            if member.is_dir():
                room.folder(place)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise SubmissionError(f"{name!r} is neither a file nor a folder; pack the file itself")
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise SubmissionError(f"{name!r} is encrypted or has an unusual compression; create an ordinary zip")
            with packed.open(member) as stream:
                _write(name, place, mode, stream.read, room)


def _tar(path: Path, folder: Path, room: _Room) -> None:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: IO[bytes] = gzip.open(file) if zipped else file  # type: ignore[assignment]
        counted = _Counted(stream, room)
        # Read the file as a stream, so that every byte is read and counted once.
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Member) as packed:  # type: ignore[call-overload]
            for member in packed:
                place = _place(member.name, folder, room)
                if member.isdir():
                    room.folder(place)
                    continue
                content = packed.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None:
                    raise SubmissionError(f"{member.name!r} is neither a file nor a folder; pack the file itself")
                _write(member.name, place, member.mode, content.read, None)
