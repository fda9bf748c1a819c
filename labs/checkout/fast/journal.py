"""A log file with group commit: all records of one turn of the loop are written together and synced once.

A record is a line of JSON. It describes a change, and the state of a service is the result of all changes in the order
of the log. A service applies a record with the same function when it happens and when it replays the log.

A client may not see a change before its record is on the disk, because a crash would take it back. So an answer that
depends on a change waits for the sync at the end of the turn (`then`). If the log cannot be written, the process ends,
and the next one starts from what the log contains.

Source: group commit as in DeWitt et al., Implementation techniques for main memory database systems, SIGMOD 1984.
"""

import fcntl
import json
import os
from pathlib import Path

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Journal:
    def __init__(self, loop, folder, apply):
        """Replay the log in the folder, calling ``apply(*record)``, and open it for more records.

        A crash may tear the last line. No client has seen its change, so it is removed. Raises SystemExit if another
        line is damaged, or if another process uses the log.
        """
        path = Path(folder, "log")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{path} is in use by another process; stop it, or choose another folder") from None
        at = 0
        with path.open("rb") as lines:
            for line in lines:
                try:
                    record = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    record = None
                if record is None:
                    if lines.read(1):
                        raise SystemExit(f"{path}: the line at byte {at} is damaged; put back a copy of the file")
                    os.truncate(path, at)
                    break
                apply(*record)
                at += len(line)
        # The previous process may have ended between a write and its sync. What has been read counts, so sync it now.
        os.fsync(self._file)
        parent = os.open(folder, os.O_RDONLY)
        os.fsync(parent)  # the folder contains the name of the file
        os.close(parent)
        self._lines, self._waiting = [], []
        loop.ends.append(self.flush)

    def write(self, record, then=None):
        """Add a record, and call ``then()`` once it is on the disk."""
        self.write_line(_encode(record).encode() + b"\n", then)

    def write_line(self, line, then=None):
        """Like `write`, for a record that is encoded already."""
        self._lines.append(line)
        self.then(then)

    def then(self, call):
        """Call ``call()`` once every record so far is on the disk. An answer to a read uses it too."""
        if not self._lines:
            call()
        elif call:
            self._waiting.append(call)

    def flush(self):
        """Write and sync the records of this turn, then call those who wait for them."""
        while self._lines:
            left = memoryview(b"".join(self._lines))
            while left:
                left = left[os.write(self._file, left) :]
            os.fdatasync(self._file)
            waiting, self._lines, self._waiting = self._waiting, [], []
            for call in waiting:
                call()
