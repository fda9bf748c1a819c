"""The error message for a server that did not start: the reason, a remedy, and the last lines of the log."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_LINES = 8

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"Address already in use|could not bind",
        "The port is in use. Omit port to use a free one, or stop the program that listens on this port.",
    ),
    (
        r"lock file .* already exists|is in use by another",
        "Another server that uses this folder is running. Close it, or use another folder.",
    ),
    (
        r"initialized by PostgreSQL version|incompatible with server",
        "A different version of PostgreSQL has written the data. Use another folder, or that version.",
    ),
    (r"No space left on device|Disk quota", "Free some space, or set TMPDIR to a folder on another disk."),
    (
        r"Permission denied|Operation not permitted|Read-only file system|Not a directory|File exists",
        "Use a folder that the server's user can write to. Without a folder, a server uses TMPDIR.",
    ),
    (
        r"could not create shared memory|could not create semaphores",
        "The system has run out of shared memory. Stop other servers, or raise the limits that the log mentions.",
    ),
    (
        r"could not look up effective user ID",
        "The user id has no entry in /etc/passwd. python -m sharedstate_lite.doctor prints the line to add.",
    ),
    (r"contains other files", "Use an empty folder, or the folder of an earlier server."),
    (r"password file is missing", "Use an empty folder, or restore the file."),
)


def start_error(reason: str, log: Path) -> str:
    """Return the error message for a server that did not start because of ``reason``.

    ``log`` is the file with the server's output. If it is empty, it is deleted.
    """
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    text = "\n".join([reason, *lines[-40:]])
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), None)
    message = f"PostgreSQL did not start: {reason}. {remedy or 'Run python -m sharedstate_lite.doctor.'}"
    if not lines:
        log.unlink()
        return message
    tail = "\n".join(f"    {line[:200]}" for line in lines[-SHOWN_LINES:])
    return f"{message} The last lines of its log are\n{tail}\nlog: {log}"
