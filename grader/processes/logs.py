"""What processes print: read by one thread, kept with a cap, so that nobody can fill the disk or block on a pipe.

Of a long log the first part and the last part are kept.
"""

from __future__ import annotations

import os
import selectors
import threading
from collections import deque

FIRST, LAST = 200_000, 400_000
"""Bytes kept of the beginning and of the end."""
_PIECE, _PIPE = 65_536, 1 << 20
"""Bytes read at once, and the most that a pipe holds."""


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
    """One thread that reads every process's output."""

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
        """A descriptor that a process may write to; close it once the process has it."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        with self._lock:
            self._logs.setdefault(name, _Log())
            self._selector.register(read, selectors.EVENT_READ, name)
        os.write(self._wake_write, b".")
        return write

    def note(self, name: str, text: str) -> None:
        """A line of the grader's own."""
        with self._lock:
            self._logs.setdefault(name, _Log()).add(f"-- {text} (the grader)\n".encode())

    def texts(self) -> dict[str, str]:
        """Each log: whatever was printed before this call is in it."""
        with self._lock:
            for key in self._selector.get_map().values() if self._open else ():
                if key.data is not None:
                    self._rest(key.fd, self._logs[key.data])
            return {name: log.text() for name, log in sorted(self._logs.items())}

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines of one."""
        return "\n".join(self.texts().get(name, "").splitlines()[-lines:])

    def _pump(self) -> None:
        while self._open:
            for key, _ in self._selector.select():
                with self._lock:  # a reading by texts() is before this one or after it
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
        """What is in a pipe by now, and no more: its writer may go on for ever."""
        for _ in range(_PIPE // _PIECE):
            try:
                data = os.read(pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            log.add(data)

    def close(self) -> None:
        """Stop reading, also from who never closes its end. What was read stays; a second time nothing happens."""
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
