"""A program behind HTTP: what is answered when, what a start finds again, and requests that are sent twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import COUNTERS, Client, ask, counters

from sharedstate_lite.entities import Reference, log, serve
from sharedstate_lite.entities.log import ServeError
from sharedstate_lite.entities.serve import EntityService


@pytest.fixture
def service(tmp_path: Path) -> Any:
    """Counters a and b."""
    made = EntityService(counters(), tmp_path)
    assert ask(made, "POST /many/2/5") == [(200, {"msg": "2 of Counter"})]
    yield made
    made.close()


def again(service: EntityService, source: str = COUNTERS, **how: Any) -> EntityService:
    """End a service without a word, and start another from its folder."""
    service.close()
    return EntityService(counters(source), service.folder, **how)


def state(service: EntityService) -> list[Any]:
    """Everything that a service knows."""
    return list(service.rows())


def test_statuses(service: EntityService) -> None:
    """200 with the value, 400 for what is refused, 500 for an exception: both are undone."""
    assert ask(service, "POST /add/1/95", "POST /add/1/1", "POST /move/0/1/1", "GET /find/0", "POST /add/x/1") == [
        (200, 100),
        (400, {"error": "too many"}),
        (400, {"error": "too many"}),
        (200, {"n": 5, "words": ["a", 1]}),
        (400, {"error": "Counter x is unknown"}),
    ]


def test_an_exception_is_told_with_its_line(service: EntityService, capsys: pytest.CaptureFixture[str]) -> None:
    """500; stderr has the route, the method, and the line of the program."""
    assert ask(service, "POST /many/3/0", "POST /move/1/2/0", "GET /find/1")[1:] == [
        (500, {"error": "ZeroDivisionError: integer division or modulo by zero"}),
        (200, {"n": 0, "words": ["a", 1]}),
    ]
    where = COUNTERS.splitlines().index("        self.n = self.n // (self.n // self.n)") + 1
    err = capsys.readouterr().err
    assert err.startswith("POST /move/{counter}/{other}/{n:int} ['1', '2', 0]: move, ") and f".py:{where}: Zero" in err


def test_a_read_changes_nothing(service: EntityService) -> None:
    """A GET that would change something is answered 500, and it has not."""
    before = (service.folder / "log.1").read_bytes()
    assert ask(service, "GET /peek/0", "GET /find/0") == [
        (500, {"error": "TypeError: a read changed Counter 0; use a POST route"}),
        (200, {"n": 5, "words": ["a", 1]}),
    ]
    assert (service.folder / "log.1").read_bytes() == before


def test_one_line_and_one_sync_an_epoch(service: EntityService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one turn share both; refused ones and reads are not logged."""
    syncs: list[int] = []
    monkeypatch.setattr(log, "_sync", syncs.append)
    ask(service, *["POST /add/0/1"] * 40, "POST /add/0/999", "GET /find/0")
    lines = (service.folder / "log.1").read_bytes().splitlines()
    assert (len(syncs), len(lines)) == (1, 3) and lines[-1].count(b"POST /add") == 40


def order_of_events(kind: type[EntityService]) -> list[Any]:
    """A write, a read that sees it, a refused write and an earlier read, in one turn: what happens in which order."""
    events: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        service = kind(counters(), Path(folder))
        ask(service, "POST /many/1/5")
        patch.setattr(log, "_sync", lambda file: events.append("sync"))
        client: Any = Client(events)

        async def turn() -> None:
            service.request(client, b"GET", b"/find/0", "")
            events.append("write")
            service.request(client, b"POST", b"/add/0/90", "")
            service.request(client, b"GET", b"/find/0", "")
            service.request(client, b"POST", b"/add/0/90", "")
            await asyncio.sleep(0)

        asyncio.run(turn())
        service.close()
    return [event if isinstance(event, str) else event[0] for event in events]


def test_answers_wait_for_the_epoch_that_they_saw() -> None:
    """The first read saw nothing that is not synced. Then come the sync, the write, the read, and the refusal."""
    assert order_of_events(EntityService) == [200, "write", "sync", 200, 200, 400]


class AnswersBeforeTheSync(EntityService):
    """A mutant."""

    def flush(self) -> None:
        """Answers, then logs."""
        waiting, self.waiting = self.waiting, []
        for connection, raw in waiting:
            connection.answer(raw)
        super().flush()


class ReadsDoNotWait(EntityService):
    """A mutant."""

    def request(self, connection: Any, method: bytes, path: bytes, key: str) -> None:
        """Answers a read at once."""
        super().request(connection, method, path, key)
        if method == b"GET" and self.waiting:
            connection.answer(self.waiting.pop()[1])


@pytest.mark.parametrize("mutant", [AnswersBeforeTheSync, ReadsDoNotWait])
def test_a_mutant_is_caught(mutant: type[EntityService]) -> None:
    """The order of events shows each of them."""
    assert order_of_events(mutant) != order_of_events(EntityService)


requests = st.one_of(
    st.builds("POST /add/{}/{}".format, st.integers(0, 3), st.integers(0, 60)),
    st.builds("POST /move/{}/{}/{}".format, st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)),
    st.builds("POST /many/{}/{}".format, st.integers(0, 3), st.integers(0, 60)),
    st.builds("POST /new/{}".format, st.integers(0, 60)),
    st.builds("POST /add/{}/{} key-{}".format, st.integers(0, 3), st.integers(0, 60), st.integers(0, 3)),
    st.builds("GET /find/{}".format, st.integers(0, 3)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(requests, max_size=4), max_size=5))
def test_a_start_finds_what_was(turns: list[list[str]]) -> None:
    """State and recorded answers are those of before: from the log, and from a snapshot and the log after it."""
    with tempfile.TemporaryDirectory() as folder:
        service = EntityService(counters(), Path(folder))
        for number, turn in enumerate(turns):
            ask(service, *turn)
            if number == 2:
                service.log.save(service.log.rotate(), state(service))
        before = state(service)
        service = again(service)
        assert state(service) == before
        service.close()


def test_an_epoch_without_its_line_has_not_been(service: EntityService) -> None:
    """A torn line: what it held was not answered, and is gone. The next epoch stands in its place."""
    before = state(service)
    ask(service, "POST /add/0/7")
    path = service.folder / "log.1"
    path.write_bytes(path.read_bytes()[:-4])
    service = again(service)
    assert state(service) == before
    ask(service, "POST /add/0/8")
    service = again(service)
    assert ask(service, "GET /find/0")[0][1]["n"] == 13
    service.close()


def test_a_repeated_key_has_one_effect(service: EntityService) -> None:
    """At once, later, and after a start; the same key with another request is 422. A read has no key."""
    first = ask(service, "POST /add/0/7 k", "POST /add/0/7 k", "POST /new/1 n", "POST /new/1 n", "POST /add/0/999 r")
    assert first[:2] == [(200, 12)] * 2 and first[2] == first[3] and first[4] == (400, {"error": "too many"})
    for _ in range(2):
        later = ask(service, "POST /add/0/7 k", "POST /new/1 n", "POST /add/0/999 r")
        assert later == [first[1], first[3], first[4]]
        said = ask(service, "POST /add/0/8 k", "POST /add/1/7 k", "GET /find/0 k")
        assert [status for status, _ in said] == [422, 422, 200] and said[2][1]["n"] == 12
        assert said[0][1]["error"].endswith("was used for POST /add/{counter}/{n:int} ['0', 7]; use a new one")
        service = again(service)
    service.close()


def test_old_keys_are_forgotten(service: EntityService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last so many are kept, the same ones after a start."""
    monkeypatch.setattr(serve, "MOST_KEYS", 2)
    ask(service, "POST /add/0/1 a", "POST /add/0/1 b", "POST /add/0/1 c")
    assert list(service.keys) == ["b", "c"]
    service = again(service)
    assert list(service.keys) == ["b", "c"]
    assert ask(service, "POST /add/0/1 a") == [(200, 9)]
    service.close()


def test_too_many_wait(service: EntityService, monkeypatch: pytest.MonkeyPatch) -> None:
    """429, before anything is run or drawn; also for reads. A key that is too long is 400."""
    monkeypatch.setattr(serve, "MOST_WAITING", 2)
    said = ask(service, "POST /add/0/1", "POST /add/0/1", "POST /add/0/1", "GET /find/0")
    assert [status for status, _ in said] == [429, 429, 200, 200]
    assert ask(service, "GET /find/0")[0][1]["n"] == 7
    assert ask(service, "POST /add/0/1 " + "k" * 257)[0][0] == 400


def test_keys_are_drawn_once(service: EntityService) -> None:
    """Each creation has another key, and a start finds the same ones."""
    drawn = [value["id"] for _, value in ask(service, *["POST /new/3"] * 50)]
    assert max(Counter(drawn).values()) == 1
    service = again(service)
    assert {Reference("Counter", key) for key in drawn} <= {Reference(*row[:2]) for row in state(service)}
    service.close()


def test_another_program_on_the_same_folder(service: EntityService) -> None:
    """Refused, or run again with what it answers now; then that is the state."""
    source = COUNTERS.replace("self.n += n", "self.n += n + 1")
    ask(service, "POST /add/0/1")
    with pytest.raises(ServeError, match="has requests of another program"):
        again(service, source)
    changed = again(service, source, migrate=True)
    assert ask(changed, "GET /find/0")[0][1]["n"] == 7
    changed = again(changed, source)
    assert ask(changed, "GET /find/0")[0][1]["n"] == 7
    changed.close()
    fewer = source.replace('"POST /add/{counter}/{n:int}": Counter.add,', "")
    ask(other := EntityService(counters(), service.folder / "other"), "POST /many/1/1", "POST /add/0/1")
    with pytest.raises(ServeError, match=r"the log uses the route POST /add/\{counter\}/\{n:int\}; add it"):
        again(other, fewer, migrate=True)


def test_an_error_between_memory_and_log_ends_the_process(
    service: EntityService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full, or memory that ends: exit 70, and nobody was answered."""

    class Ended(BaseException):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    def empty(*args: Any) -> None:
        raise MemoryError

    events: list[Any] = []
    client: Any = Client(events)
    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr(log, "_sync", full)
    service.epoch, service.waiting = [["POST /add/{counter}/{n:int}", ["0", 1], ""]], [(client, b"")]
    with pytest.raises(Ended, match="70"):
        service.flush()
    monkeypatch.setattr(service.store, "call", empty)
    with pytest.raises(Ended, match="70"):
        service.request(client, b"POST", b"/add/0/1", "")
    assert events == []
