"""What a file held at its last sync, where that differs from what is in it now: enough to go back to it.

Data alone is undone. A length that was set (truncate, fallocate) is durable at once, as creating, renaming and removing
a file are; a length that came of a write goes with that write, as on ext4 and XFS, which make a file longer once
the data is there. An O_DSYNC write makes durable what it wrote and nothing else.
"""

from __future__ import annotations

import os

BLOCK = 4096
"""Bytes that are remembered together."""


class Undo:
    """Of one file, from its first unsynced write to its next sync."""

    def __init__(self, file: int) -> None:
        """``file`` is a descriptor for reading and writing; it is copied."""
        self._file = os.dup(file)
        self._size = os.fstat(file).st_size
        """The length that the file would have after a cut."""
        self._blocks: dict[int, bytes] = {}
        """By number, what a block that was written to would hold; the bytes that are missing at its end are zero."""

    def before(self, offset: int, length: int) -> None:
        """So many bytes are about to be written there, and not synced."""
        for number in range(offset // BLOCK, -(-(offset + length) // BLOCK)):
            if number not in self._blocks:
                # Beyond the length that the file would have, nothing needs to be read: it would be zero.
                kept = min(BLOCK, max(0, self._size - number * BLOCK))
                self._blocks[number] = os.pread(self._file, kept, number * BLOCK) if kept else b""

    def through(self, offset: int, data: bytes) -> None:
        """This was written there and is durable, whatever is around it."""
        for number in range(offset // BLOCK, -(-(offset + len(data)) // BLOCK)):
            if number in self._blocks:
                begin = max(offset, number * BLOCK)
                end = min(offset + len(data), (number + 1) * BLOCK)
                block = bytearray(self._blocks[number].ljust(end - number * BLOCK, b"\0"))
                block[begin - number * BLOCK : end - number * BLOCK] = data[begin - offset : end - offset]
                self._blocks[number] = bytes(block)
        self.longer(offset + len(data))

    def longer(self, size: int) -> None:
        """The file is at least so long, durably."""
        self._size = max(self._size, size)

    def cut_to(self, size: int) -> None:
        """The file's length was set, durably; what was beyond it is gone."""
        self._size = size
        for number in [n for n in self._blocks if n * BLOCK >= size]:
            del self._blocks[number]
        if (last := size // BLOCK) in self._blocks:
            self._blocks[last] = self._blocks[last][: size - last * BLOCK]

    def undo(self) -> int:
        """Make the file what it was; how many blocks that took."""
        for number, block in self._blocks.items():
            length = min(BLOCK, self._size - number * BLOCK)
            if length > 0:
                os.pwrite(self._file, block.ljust(length, b"\0"), number * BLOCK)
        os.ftruncate(self._file, self._size)
        return len(self._blocks)

    def close(self) -> None:
        """Everything is synced, or the file is no more."""
        os.close(self._file)
