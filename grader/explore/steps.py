"""The words of a run: its messages with the names of users, items and orders, and its numbered steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from .connection import Event
from .cutter import ANSWER, REQUEST

KILLED, STARTED, UP = "killed", "started", "up"
"""What `Proxies.note` says of a process; it is up when it is ready."""
LONG = 8
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
    for made in sorted((made for made in ids if len(made) >= LONG), key=len, reverse=True):
        path = path.replace(made, ids[made])
    path = re.sub(r"[^/?&=]+", lambda part: ids.get(part[0], part[0]), path)
    return f"{method} {_OTHER.sub('#', path)}"


def message(event: Event, names: Mapping[str, str]) -> str:
    """Return a message with its sender and its receiver."""
    return f"{event.sender}->{event.receiver} {word(event, names)}"


def together(names: Sequence[str]) -> str:
    """Return names in words.

    >>> together(["order", "stock", "payment"])
    'order, stock and payment'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def steps(events: Sequence[Event], names: Mapping[str, str]) -> list[str]:
    """Return the steps of a run, one line each: what was delivered, where a connection broke, and what was killed."""
    return [line for _, line in told(events, names)]


def told(events: Sequence[Event], names: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the steps of a run, each with the place of its event: of the first one, if there are several."""
    places = list[int]()
    lines, times = list[str](), 0
    kept: dict[int, int] = {}
    alone, silent, killed = set[int](), set[int](), list[str]()
    asked: dict[tuple[str, str], dict[int, int]] = {}  # for a caller and a service: the steps of open requests
    for at, event in enumerate(events):
        said, way = word(event, names), f"{event.sender} -> {event.receiver}"
        if event.what == "dropped":
            asked.get((event.receiver, event.sender), {}).pop(event.connection, None)
        if killed and event.what == "passed" and event.kind not in (REQUEST, ANSWER):
            continue  # what a start sends to its database, such as the beginnings of a pool of connections
        if event.what in ("delivered", "passed", "overdue"):
            line = f"{way}   {said}" + " (held for too long)" * (event.what == "overdue")
            if event.kind == REQUEST:
                asked.setdefault((event.sender, event.receiver), {})[event.connection] = len(lines) + 1
            elif event.kind == ANSWER:
                both = asked.get((event.receiver, event.sender), {})
                step = both.pop(event.connection, 0)
                line += f" (answers step {step})" * (step > 0 and len(both) > 0)
            times = times + 1 if said == "..." and lines and lines[-1].startswith(line) else 1
            lines[len(lines) - (times > 1) :] = [line if times == 1 else f"{line} ({times} times)"]
        elif event.what == "kept" or (event.what == "dropped" and event.kind != ANSWER):
            lines.append(
                f"nothing more passes {way}: {said} has not arrived"
                if event.connection in silent
                else f"the connection {way} breaks: {said} has not arrived"
            )
            kept[event.message] = len(lines)
        elif event.what == "late":
            lines.append(f"the request of step {kept[event.message]} arrives, late")
            alone.add(event.connection)
        elif event.what == "dropped" and event.connection in alone:
            lines.append(f"{event.sender} answers {said}, but its caller is gone")
        elif event.what == "dropped" and event.connection in silent:
            lines.append(f"nothing more passes {way}: the answer {said} is lost")
        elif event.what == "dropped":
            lines.append(f"the connection {event.receiver} -> {event.sender} breaks: the answer {said} is lost")
        elif event.what == "silent":
            silent.add(event.connection)
        elif event.what == "gone":
            lines.append(f"{event.sender} has given up waiting for {event.receiver}")
        elif event.what in ("struck", "kill") and not killed:
            started = next((n for n, each in enumerate(events[at:], at) if each.what == STARTED), len(events))
            killed = [each.sender for each in events[at:started] if each.what == KILLED]
            why = f", which has sent {said}" if event.what == "struck" else event.sender and f" {event.sender}"
            lines.append(f"kill {together(killed)}{why}")
        elif event.what == UP and killed and event.sender == killed[-1]:
            lines.append(f"{together(killed)} {'are' if len(killed) > 1 else 'is'} started again")
            killed = []
        places += [at] * (len(lines) - len(places))
    return list(zip(places, lines, strict=True))


__all__ = ["message", "steps", "together", "told", "word"]
