"""A run that could not have happened without the proxy is void: each forged trace gets the sentence that says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.explore.connection import Event
from grader.explore.cutter import ANSWER, REQUEST
from grader.explore.legal import EXITED, READ, illegal
from grader.explore.steps import KILLED, STARTED, UP

ASK = Event("", "order", "stock", 7, 1, REQUEST, "POST /take/7/2 HTTP/1.1", 60, crc=11)
SAY = Event("", "stock", "order", 7, 2, ANSWER, "HTTP/1.1 200 OK", 40, crc=12)
MORE = ASK._replace(message=3, crc=13)
OPEN = Event("opened", "order", "stock", 7)
Trace = list[Event]


def timed(*events: Event) -> Trace:
    """Give events times, a tenth of a second apart."""
    return [event._replace(at=number / 10) for number, event in enumerate(events)]


def did(event: Event, what: str) -> Event:
    """Something happens to a message or a connection."""
    return event._replace(what=what)


def of(what: str, process: str = "stock") -> Event:
    """A moment of a process."""
    return Event(what, process)


RIGHT: dict[str, Trace] = {
    "a request and its answer": timed(
        OPEN, did(ASK, "arrived"), did(ASK, "delivered"), did(SAY, "arrived"), did(SAY, "overdue"), of(READ, "")
    ),
    "a connection that is older, and messages that pass": timed(did(ASK, "passed"), did(SAY, "passed"), of(READ, "")),
    "a request that is lost": timed(OPEN, did(ASK, "arrived"), did(ASK, "dropped"), did(OPEN, "closed"), of(READ, "")),
    "a request that arrives late": timed(
        OPEN, did(ASK, "arrived"), did(ASK, "kept"), did(ASK, "late"), did(SAY, "arrived"), did(SAY, "dropped"),
        did(OPEN, "closed"), of(READ, ""),
    ),
    "a kill": timed(
        OPEN, did(ASK, "arrived"), did(ASK, "struck"), of(KILLED), did(ASK, "dropped"), did(OPEN, "closed"),
        Event("refused", "order", "stock", 8), Event("closed", "order", "stock", 8), of(STARTED),
        Event("opened", "order", "stock", 9), of(UP), did(MORE, "arrived")._replace(connection=9),
        did(MORE, "delivered")._replace(connection=9), of(READ, ""),
    ),
    "a connection that is refused before all processes have ended": timed(
        of("kill", ""), Event("refused", "order", "stock", 8), of(KILLED), of(STARTED), of(UP), of(READ, "")
    ),
    "a process that exits while its database starts": timed(
        of("kill", ""), of(KILLED), of(STARTED), of(EXITED, "order"), of(UP), of(READ, "")
    ),
    "an answer that its sender has sent before it died": timed(
        OPEN, did(SAY, "arrived"), of(KILLED), did(SAY, "delivered"), did(OPEN, "closed"), of(STARTED), of(UP),
        of(READ, ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("trace", RIGHT.values(), ids=RIGHT.keys())
def test_a_run_that_can_happen_is_legal(trace: Trace) -> None:
    """Losses, late requests, kills, and connections that were there before."""
    assert illegal(trace) == ""


def at(place: int, *events: Event) -> Callable[[Trace], Trace]:
    """Put events at a place of a trace."""
    return lambda trace: timed(*trace[:place], *events, *trace[place:])


def without(place: int) -> Callable[[Trace], Trace]:
    """Leave an event out."""
    return lambda trace: timed(*trace[:place], *trace[place + 1 :])


def other(place: int, **fields: object) -> Callable[[Trace], Trace]:
    """Change an event."""
    return lambda trace: [*trace[:place], trace[place]._replace(**fields), *trace[place + 1 :]]  # type: ignore[arg-type]


PLAIN, OLDER, LOST, DELAYED, KILL, DYING, EXITS, SENT = RIGHT
FORGED = [
    (PLAIN, without(1), "message 1 of order is delivered, and has not arrived"),
    (PLAIN, at(3, did(ASK, "delivered")), "message 1 of order is delivered, and has not arrived"),
    (PLAIN, at(2, did(MORE, "arrived"), did(MORE, "delivered")), "message 3 of order has overtaken message 1"),
    (PLAIN, at(2, did(MORE, "passed")), "message 3 of order has overtaken another one"),
    (PLAIN, at(3, did(ASK, "arrived")), "message 1 of order has arrived twice"),
    (PLAIN, other(2, crc=99), "message 1 of order was changed"),
    (PLAIN, other(2, size=61), "message 1 of order was changed"),
    (PLAIN, lambda t: [*t[:2], *(e._replace(at=e.at + 4) for e in t[2:])], "4.1 s after it has arrived; at most 3 s"),
    (DELAYED, lambda t: [*t[:3], *(e._replace(at=e.at + 11) for e in t[3:])], "at most 10 s can be"),
    (LOST, at(3, did(MORE, "arrived"), did(MORE, "delivered")), "message 3 of order is delivered, and an earlier one"),
    (LOST, at(4, did(MORE, "arrived")), "on a connection that was closed before"),
    (LOST, at(2, Event("refused", "order", "stock", 8)), "stock refuses a connection, and is not down"),
    (DYING, at(4, Event("refused", "order", "payment", 9)), "payment refuses a connection, and is not down"),
    (PLAIN, at(1, OPEN), "connection 7 is opened twice"),
    (KILL, at(4, Event("opened", "order", "stock", 10)), "stock accepts a connection, and was killed before"),
    (SENT, at(3, did(SAY._replace(message=4), "arrived")), "belongs to a process that was killed before"),
    (KILL, at(4, of(KILLED)), "stock is killed, and was not running"),
    (KILL, lambda t: timed(*t[:8], *t[10:]), "stock is up, and was not started"),
    (KILL, without(10), "the values are read while stock is down"),
    (PLAIN, without(4), "the values are read while a message is held"),
    (PLAIN, without(5), "the values were not read"),
    (PLAIN, at(6, did(ASK, "delivered")), "is recorded after the values were read"),
    (PLAIN, at(6, of(EXITED, "payment")), "payment has exited, and the explorer did not cause it"),
    (EXITS, at(5, of(EXITED, "order")), "order has exited, and the explorer did not cause it"),
    (PLAIN, lambda t: [*t[:2], t[2]._replace(at=0.0), *t[3:]], "is earlier than what was recorded before"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "forge", "why"), FORGED, ids=[why for _, _, why in FORGED])
def test_a_forged_trace_is_not_legal(name: str, forge: Callable[[Trace], Trace], why: str) -> None:
    """Each differs in one thing from a run that can happen."""
    assert why in illegal(forge(RIGHT[name]))
