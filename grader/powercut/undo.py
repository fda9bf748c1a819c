"""The content of a file at its last sync, where it differs from the current content.

Only data is undone. Setting a length (truncate, fallocate) is durable at once, as is creating, renaming or removing a
file. A write that extends a file loses that length when it is undone, as on ext4 and XFS. An O_DSYNC write makes only
its own data durable.
"""

from __future__ import annotations

import os

BLOCK = 4096
"""Bytes that are stored together."""


class Undo:
    """Undoes the writes to one file since its last sync."""

    def __init__(self, file: int) -> None:
        """``file``: a descriptor for reading and writing, which is duplicated."""
        self._file = os.dup(file)
        self._size = os.fstat(file).st_size
        """The length of the file after a cut."""
        self._blocks: dict[int, bytes] = {}
        """By block number, the content after a cut. Missing bytes at the end are zero."""

    def before(self, offset: int, length: int) -> None:
        """Store the blocks that an unsynced write is about to change."""
        for number in range(offset // BLOCK, -(-(offset + length) // BLOCK)):
            if number not in self._blocks:
                # Beyond the length after a cut there is nothing to store.
                kept = min(BLOCK, max(0, self._size - number * BLOCK))
                self._blocks[number] = os.pread(self._file, kept, number * BLOCK) if kept else b""

    def through(self, offset: int, data: bytes) -> None:
        """Record a durable write. The data around it may stay unsynced."""
        for number in range(offset // BLOCK, -(-(offset + len(data)) // BLOCK)):
            if number in self._blocks:
                begin = max(offset, number * BLOCK)
                end = min(offset + len(data), (number + 1) * BLOCK)
                block = bytearray(self._blocks[number].ljust(end - number * BLOCK, b"\0"))
                block[begin - number * BLOCK : end - number * BLOCK] = data[begin - offset : end - offset]
                self._blocks[number] = bytes(block)
        self.longer(offset + len(data))

    def longer(self, size: int) -> None:
        """Record that the file durably has at least this length."""
        self._size = max(self._size, size)

    def cut_to(self, size: int) -> None:
        """Record that the file was durably cut to a length."""
        self._size = size
        for number in [n for n in self._blocks if n * BLOCK >= size]:
            del self._blocks[number]
        if (last := size // BLOCK) in self._blocks:
            self._blocks[last] = self._blocks[last][: size - last * BLOCK]

    def undo(self) -> int:
        """Restore the content of the last sync. Returns how many blocks that changed."""
        for number, block in self._blocks.items():
            length = min(BLOCK, self._size - number * BLOCK)
            if length > 0:
                os.pwrite(self._file, block.ljust(length, b"\0"), number * BLOCK)
        os.ftruncate(self._file, self._size)
        return len(self._blocks)

    def close(self) -> None:
        """Forget the stored blocks, after a sync or when the file is removed."""
        os.close(self._file)
