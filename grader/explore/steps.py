"""The words of a run: its messages with the names of users, items and orders, and its numbered steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from .connection import Event
from .cutter import ANSWER, REQUEST

_LONG = 8
"""An id of so many characters is found inside of a longer word, too."""
_OTHER = re.compile(r"[0-9a-f-]{8,}|[0-9]{4,}")
"""What a system has made up, such as the id of a transaction: it is another one in each run."""


def word(event: Event, names: Mapping[str, str]) -> str:
    """Return a message in a few words. ``names``: those of the system's ids.

    >>> word(Event("arrived", kind="request", first="POST /take/7/2 HTTP/1.1"), {"7": "X"})
    'POST /take/X/2'
    >>> word(Event("arrived", kind="answer", first="HTTP/1.1 200 OK"), {})
    '200'
    """
    if event.kind == ANSWER:
        return event.first.split()[1]
    if event.kind != REQUEST:
        return "..."
    method, path, *_ = event.first.split()
    ids = {found: name for made, name in names.items() for found in (made, quote(made, safe=""))}
    for made in sorted((made for made in ids if len(made) >= _LONG), key=len, reverse=True):
        path = path.replace(made, ids[made])
    path = re.sub(r"[^/?&=]+", lambda part: ids.get(part[0], part[0]), path)
    return f"{method} {_OTHER.sub('#', path)}"


def message(event: Event, names: Mapping[str, str]) -> str:
    """Return a message with its sender and its receiver."""
    return f"{event.sender}->{event.receiver} {word(event, names)}"


def steps(events: Iterable[Event], names: Mapping[str, str]) -> list[str]:
    """Return the steps of a run, one line each: what was delivered, and where a connection broke."""
    lines: list[str] = []
    kept: dict[int, int] = {}
    alone: set[int] = set()
    for event in events:
        said, way = word(event, names), f"{event.sender} -> {event.receiver}"
        if event.what in ("delivered", "passed", "overdue"):
            late = " (held for too long)" if event.what == "overdue" else ""
            lines.append(f"{way}   {said}{late}")
        elif event.what == "kept" or (event.what == "dropped" and event.kind == REQUEST):
            lines.append(f"the connection {way} breaks: {said} has not arrived")
            kept[event.message] = len(lines)
        elif event.what == "late":
            lines.append(f"the request of step {kept[event.message]} arrives, late")
            alone.add(event.connection)
        elif event.what == "dropped" and event.connection in alone:
            lines.append(f"{event.sender} answers {said}, but its caller is gone")
        elif event.what == "dropped":
            lines.append(f"the connection {event.receiver} -> {event.sender} breaks: the answer {said} is lost")
    return lines


__all__ = ["message", "steps", "word"]
