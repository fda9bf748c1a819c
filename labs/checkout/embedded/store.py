"""The state of a service: a dict in memory, and a log of its changes on disk.

A key is the kind of a row and its id, such as "item 7". A value is data that JSON has. The log has a line of JSON for
each transaction: the rows that it has changed. A start reads all lines, in order, into an empty dict.

The variable LOG names the file. A line has been handed to the kernel before anybody sees its rows, so it survives the
death of the process. Like a transaction of `saga`, it is not synced, so it does not survive a power cut.
"""

import fcntl
import json
import os
import threading
import traceback
from collections import ChainMap
from contextlib import contextmanager

ROWS = {}
"""All rows. Only a transaction changes them, and it replaces values, so a value that was read never changes."""
_lock = threading.Lock()


@contextmanager
def transaction():
    """Changes all rows of the block, or none if it raises. Other writers wait.

    The block gets a mapping of its own: a lookup finds what the block has written, otherwise what is in `ROWS`.
    """
    with _lock:
        rows = ChainMap({}, ROWS)
        yield rows
        if changed := rows.maps[0]:
            line = json.dumps(changed)
            append(line)
            ROWS.update(json.loads(line))  # the line, so that memory has exactly what a restart reads


def append(line):
    """Write a line to the log. If that fails, the process ends, because log and memory may differ."""
    try:
        _log.write(line.encode() + b"\n")
        _log.flush()
    except OSError:
        traceback.print_exc()
        os._exit(70)


def replay(path):
    """Read the log into `ROWS`, and open it for more lines.

    A kill can tear the last line. No client has seen its rows, so it is removed. Raises SystemExit if another line
    is damaged, or if another process uses the log.
    """
    log = open(path, "ab+")
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"{path} is in use by another process; stop it, or choose another file") from None
    log.seek(0)
    end = 0
    for line in log:
        if not line.endswith(b"\n"):
            log.truncate(end)
            break
        try:
            ROWS.update(json.loads(line))
        except ValueError:
            raise SystemExit(f"{path}: the line at byte {end} is damaged; put back a copy of the file") from None
        end += len(line)
    return log


_log = replay(os.environ["LOG"])
