"""A submission that comes as one file, .zip, .tar or .tar.gz: unpacked into a folder, and nowhere else.

Plain files and folders are taken; links, devices, pipes, names that lead elsewhere and names that come twice are
refused by name. What it unpacks to is counted while it is unpacked: what a header says is no measure.
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
from .reading import FILE

MOST_BYTES, MOST_FILES = 200_000_000, 20_000
"""Of a submission, packed or not."""
_LITTER = ("__MACOSX", ".DS_Store")
"""What macOS packs beside the folder."""
_PIECE = 1 << 20
_HEADER = 4096
"""Bytes of what a tar says of one member beside its name, as extended attributes."""


class _Room:
    """What is still allowed to come."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self.bytes, self.files = most_bytes, most_files
        self._said = f"more than {most_bytes:,} bytes or {most_files:,} files; data does not belong in it"

    def take(self, size: int, files: int = 0) -> None:
        """Raises SubmissionError when it is too much."""
        self.bytes -= size
        self.files -= files
        if self.bytes < 0 or self.files < 0:
            raise SubmissionError(self._said)


class _Counted:
    """A stream that ends a run before it fills the memory: also headers of a tar are read in one piece."""

    def __init__(self, stream: IO[bytes], room: _Room) -> None:
        self._stream, self._room = stream, room

    def read(self, size: int) -> bytes:
        """As asked, unless that is more than may come."""
        if size > self._room.bytes + _PIECE:
            self._room.take(size)
        data = self._stream.read(size)
        self._room.take(len(data))
        return data


class _Member(tarfile.TarInfo):
    """A member whose extended headers are short: long ones are read into memory, and searched for a long time."""

    def _proc_member(self, packed: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > _HEADER:
            raise SubmissionError(f"a header of {self.size:,} bytes; {_HEADER:,} are the most: pack the folder anew")
        found: tarfile.TarInfo = super()._proc_member(packed)  # type: ignore[misc]
        return found


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> Path:
    """Unpack into an empty folder; where checkout.toml is, there or in the one folder in it. Raises SubmissionError."""
    room = _Room(most_bytes, most_files)
    if path.stat().st_size > most_bytes:
        room.take(path.stat().st_size)
    try:
        if zipfile.is_zipfile(path):
            _zip(path, folder, room)
        else:
            _tar(path, folder, room)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise SubmissionError(f"{path.name} cannot be unpacked: {error}; it is a .zip, a .tar or a .tar.gz") from error
    inside = [path for path in folder.iterdir() if path.name not in _LITTER]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() and not (folder / FILE).exists() else folder


def _place(name: str, folder: Path, room: _Room) -> Path:
    """Where a member goes. Raises SubmissionError unless that is inside."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or ":" in parts[0]:
        raise SubmissionError(f"{name!r}: a name that leads out of the archive; pack the folder itself")
    room.take(0, 1)
    return folder.joinpath(*parts)


def _write(name: str, place: Path, mode: int, read: Callable[[int], bytes], room: _Room | None) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if mode & 0o111 else 0o644)
    except FileExistsError:
        raise SubmissionError(f"{name!r} is in the archive twice; pack it once") from None
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
                place.mkdir(parents=True, exist_ok=True)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise SubmissionError(f"{name!r}: neither a file nor a folder; put the file itself there")
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise SubmissionError(f"{name!r}: encrypted, or packed in an unusual way; pack with plain zip")
            with packed.open(member) as stream:
                _write(name, place, mode, stream.read, room)


def _tar(path: Path, folder: Path, room: _Room) -> None:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: IO[bytes] = gzip.open(file) if zipped else file  # type: ignore[assignment]
        counted = _Counted(stream, room)
        # As a stream: nothing is skipped unread, and nothing is read twice.
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Member) as packed:  # type: ignore[call-overload]
            for member in packed:
                place = _place(member.name, folder, room)
                if member.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                content = packed.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None:
                    raise SubmissionError(f"{member.name!r}: neither a file nor a folder; put the file itself there")
                _write(member.name, place, member.mode, content.read, None)
