"""Collects the output of all processes. One thread reads it, so that no process blocks on a full pipe.

The size of a log is limited. A long log keeps its beginning and its end.
"""

from __future__ import annotations

import os
import selectors
import threading
from collections import deque

FIRST, LAST = 200_000, 400_000
"""The number of bytes that are kept from the beginning and from the end of a log."""
_PIECE, _PIPE = 65_536, 1 << 20
"""The number of bytes to read at a time, and the capacity of a pipe."""


class _Log:
    def __init__(self) -> None:
        self.first = bytearray()
        self.last: deque[bytes] = deque()
        self.size = self.cut = 0

    def add(self, data: bytes) -> None:
        room = FIRST - len(self.first)
        if room > 0:
            self.first += data[:room]
            data = data[room:]
        if data:
            self.last.append(data)
            self.size += len(data)
        while self.size > LAST:
            gone = self.last.popleft()
            self.size -= len(gone)
            self.cut += len(gone)

    def text(self) -> str:
        middle = f"\n[... {self.cut:,} bytes left out ...]\n".encode() if self.cut else b""
        return (bytes(self.first) + middle + b"".join(self.last)).decode(errors="replace")


class Logs:
    """Reads the output of all processes in one thread."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._open = True
        self._thread = threading.Thread(target=self._pump, daemon=True, name="grader logs")
        self._thread.start()

    def pipe(self, name: str) -> int:
        """Return a descriptor for the output of a process. Close it after the process has inherited it."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        with self._lock:
            self._logs.setdefault(name, _Log())
            self._selector.register(read, selectors.EVENT_READ, name)
        os.write(self._wake_write, b".")
        return write

    def note(self, name: str, text: str) -> None:
        """Add a line from the grader to a log."""
        with self._lock:
            self._logs.setdefault(name, _Log()).add(f"-- {text} (the grader)\n".encode())

    def texts(self) -> dict[str, str]:
        """Return all logs by name. They contain everything that was printed before this call."""
        with self._lock:
            for key in self._selector.get_map().values() if self._open else ():
                if key.data is not None:
                    self._rest(key.fd, self._logs[key.data])
            return {name: log.text() for name, log in sorted(self._logs.items())}

    def tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of a log."""
        return "\n".join(self.texts().get(name, "").splitlines()[-lines:])

    def _pump(self) -> None:
        while self._open:
            for key, _ in self._selector.select():
                with self._lock:  # texts() reads the same pipes
                    try:
                        data = os.read(key.fd, _PIECE)
                    except BlockingIOError:
                        continue
                    if key.data is None:
                        continue
                    if data:
                        self._logs[key.data].add(data)
                    else:
                        self._selector.unregister(key.fd)
                        os.close(key.fd)

    def _rest(self, pipe: int, log: _Log) -> None:
        """Read what is in a pipe now. Later output is not read, because the writer may never stop."""
        for _ in range(_PIPE // _PIECE):
            try:
                data = os.read(pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            log.add(data)

    def close(self) -> None:
        """Stop reading, even if a process keeps its end of a pipe open. The logs remain readable. Idempotent."""
        if not self._open:
            return
        self._open = False
        os.write(self._wake_write, b".")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._rest(key.fd, self._logs[key.data])
            os.close(key.fd)
        self._selector.close()
        os.close(self._wake_write)
