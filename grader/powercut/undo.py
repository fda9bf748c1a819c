"""Stores the content of a file at its last sync, where it differs from the current content.

Only data is undone. Setting the length of a file (truncate, fallocate) is durable immediately, and so is creating,
renaming or removing a file. If a write that extended a file is undone, the file becomes shorter again, as on ext4 and
XFS. An O_DSYNC write makes only its own data durable.
"""

from __future__ import annotations

import os

BLOCK = 4096
"""Old content is stored in blocks of this many bytes."""


class Undo:
    """Undoes the writes to one file since its last sync."""

    def __init__(self, file: int) -> None:
        """``file``: a descriptor that is open for reading and writing. It is duplicated."""
        self._file = os.dup(file)
        self._size = os.fstat(file).st_size
        """The length that the file will have after a cut."""
        self._blocks: dict[int, bytes] = {}
        """The content that each block will have after a cut, by block number. Missing bytes at its end are zero."""

    def before(self, offset: int, length: int) -> None:
        """Store the blocks that an unsynced write is about to change."""
        for number in range(offset // BLOCK, -(-(offset + length) // BLOCK)):
            if number not in self._blocks:
                # Nothing is stored beyond the length that the file will have after a cut.
                kept = min(BLOCK, max(0, self._size - number * BLOCK))
                self._blocks[number] = os.pread(self._file, kept, number * BLOCK) if kept else b""

    def through(self, offset: int, data: bytes) -> None:
        """Record a durable write. Other data in the same blocks may remain unsynced."""
        for number in range(offset // BLOCK, -(-(offset + len(data)) // BLOCK)):
            if number in self._blocks:
                begin = max(offset, number * BLOCK)
                end = min(offset + len(data), (number + 1) * BLOCK)
                block = bytearray(self._blocks[number].ljust(end - number * BLOCK, b"\0"))
                block[begin - number * BLOCK : end - number * BLOCK] = data[begin - offset : end - offset]
                self._blocks[number] = bytes(block)
        self.longer(offset + len(data))

    def longer(self, size: int) -> None:
        """Record that the file will have at least this length after a cut."""
        self._size = max(self._size, size)

    def cut_to(self, size: int) -> None:
        """Record that the file was durably truncated to this length."""
        self._size = size
        for number in [n for n in self._blocks if n * BLOCK >= size]:
            del self._blocks[number]
        if (last := size // BLOCK) in self._blocks:
            self._blocks[last] = self._blocks[last][: size - last * BLOCK]

    def undo(self) -> int:
        """Restore the content of the last sync. Returns the number of restored blocks."""
        for number, block in self._blocks.items():
            length = min(BLOCK, self._size - number * BLOCK)
            if length > 0:
                os.pwrite(self._file, block.ljust(length, b"\0"), number * BLOCK)
        os.ftruncate(self._file, self._size)
        return len(self._blocks)

    def close(self) -> None:
        """Close the descriptor, after a sync or when the file is removed."""
        os.close(self._file)
