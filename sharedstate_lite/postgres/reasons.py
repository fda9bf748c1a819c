"""Why a server did not start, in one message: the reason, the way out, and the log's last lines."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_LINES = 8

_MENDS: tuple[tuple[str, str], ...] = (
    (
        r"Address already in use|could not bind",
        "the port is taken: leave port out and a free one is found, or end what listens there",
    ),
    (
        r"lock file .* already exists|is held by another",
        "the folder's server is running already: close it, or name another folder",
    ),
    (
        r"initialized by PostgreSQL version|incompatible with server",
        "the data are of another version of PostgreSQL: name another folder, or read them with that version",
    ),
    (r"No space left on device|Disk quota", "make room, or set TMPDIR to a folder on another disk"),
    (
        r"Permission denied|Operation not permitted|Read-only file system|Not a directory|File exists",
        "name a folder that may be written and entered by whom the server runs as, or for a server without one set "
        "TMPDIR to such a folder",
    ),
    (
        r"could not create shared memory|could not create semaphores",
        "the system gives it no shared memory: end other servers, or raise the limits that the log names",
    ),
    (r"holds other things", "name an empty folder, or one that a server has had"),
    (r"password of its own is missing", "name an empty folder, or put the file back"),
)


def why(said: str, log: Path) -> str:
    """One message for a start that failed with ``said``; what the server wrote is in ``log``."""
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    everything = "\n".join([said, *lines[-40:]])
    mend = next((mend for pattern, mend in _MENDS if re.search(pattern, everything)), None)
    parts = [f"PostgreSQL did not start: {said}", mend or "python -m sharedstate_lite.doctor looks for the cause"]
    if not lines:
        log.unlink()
        return "; ".join(parts)
    tail = "\n".join(f"    {line[:200]}" for line in lines[-SHOWN_LINES:])
    return "; ".join([*parts, f"its log ends with\n{tail}\nlog: {log}"])
