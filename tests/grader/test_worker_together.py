"""Async calls of a student's code on one event loop: the grader decides which wait ends, and when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.student.local import Local
from grader.worker import NoValueError, Student, awaited

SOLUTION = """
import asyncio

async def both(load):
    return await asyncio.gather(load("a"), load("b"))

async def one(load, what):
    return await load(what)

async def polls(load):
    task = asyncio.create_task(load("a"))
    while not task.done():
        await asyncio.sleep(0.01)
    return task.result()

async def spins(load):
    task = asyncio.create_task(load("a"))
    while not task.done():
        await asyncio.sleep(0)
    return task.result()

async def patient(load):
    return await asyncio.wait_for(load("a"), 5)

async def impatient(load):
    try:
        return await asyncio.wait_for(load("a"), 0.5)
    except TimeoutError:
        return "late"

async def sleeps(load):
    await asyncio.sleep(3600)
    return "awake"

async def in_the_background(load):
    asyncio.create_task(load("a"))
    return "done"

async def deaf(load):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def mistaken(load):
    return missing

async def unwritten(load):
    raise NotImplementedError("task 1")

async def collects(load):
    return await asyncio.gather(load("a"), return_exceptions=True)

async def asks_for_a_set(load):
    return await load({"a"})

def pairs(*given):
    return {"found": [dict.fromkeys(given, 1.0).items()]}

def ratio():
    return 1.0, float("nan")

def itself():
    whole = []
    whole.append(whole)
    return whole

class Meeting:
    def __init__(self, load):
        self.load, self.event = load, asyncio.Event()

    async def wait(self):
        await self.event.wait()
        return "met"

    async def come(self):
        self.event.set()
        return await (await self.load("a"))("b")
"""


class Script:
    """The grader's side. ``happens`` lists what happens when the code waits: the name of a wait that ends, and how."""

    def __init__(self, student: Student, happens: Sequence[Any]) -> None:
        self.student, self.happens, self.waits = student, list(happens), dict[int, tuple[Any, ...]]()
        self.numbers, self.log = itertools.count(), list[Any]()

    def asked(self, *args: Any) -> int:
        number = next(self.numbers)
        self.waits[number] = args
        return number

    def next(self) -> Any:
        if not self.happens:
            return None
        kind, name, *value = self.happens.pop(0)
        if kind == "cancel":
            return [kind, name]
        (number,) = [number for number, wait in self.waits.items() if wait == tuple(name)]
        self.log.append(sorted(map(str, self.waits.values())))
        del self.waits[number]
        return [kind, number, *value]

    def cancelled(self, number: int) -> None:
        self.log.append(["cancelled", *self.waits.pop(number)])

    def run(self, *calls: Sequence[Any], cls: str = "") -> Any:
        args = [awaited("load")]
        calls = calls if cls else tuple((name, *args, *more) for name, *more in calls)
        asks: dict[str, Callable[..., Any]] = {"load": self.asked, "begin": lambda n: self.asked("begin", n)}
        return self.student.together(cls, args if cls else [], calls, next=self.next, cancelled=self.cancelled, **asks)


def begin(number: int = 0) -> tuple[str, tuple[str, int], None]:
    return "end", ("begin", number), None


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Student]:
    """The module, in a process of its own."""
    folder: Path = tmp_path_factory.mktemp("together")
    (folder / "solution.py").write_text(SOLUTION)
    with Local(folder, "solution") as local:
        local.limit(20)
        yield Student(local)


def test_the_grader_chooses_what_ends(student: Student) -> None:
    """The second wait ends first, and both were open before. A tuple among the values stays one."""
    script = Script(student, [begin(), ("end", "b", 2), ("end", "a", ["x"])])
    assert script.run(("both",)) == [["value", [["x"], 2]]]
    assert script.log == [["('begin', 0)"], ["('a',)", "('b',)"], ["('a',)"]]


def test_outcomes(student: Student) -> None:
    """A value, a ConnectionError, a cancelled call, and one that waits for ever."""
    happens = [begin(0), begin(1), begin(2), begin(3), ("fail", "b", "broken"), ("cancel", 2), ("end", "a", 1)]
    script = Script(student, happens)
    calls = [("one", what) for what in "abcd"]
    assert script.run(*calls) == [["value", 1], ["error", "broken"], ["cancelled"], ["waits"]]
    assert script.log[-2:] == [["('a',)", "('d',)"], ["cancelled", "d"]]
    assert ["cancelled", "c"] in script.log


@pytest.mark.parametrize("name", ["polls", "spins", "patient"])
def test_time_is_simulated(student: Student, name: str) -> None:
    """Code can poll, or limit the time of a wait, until the grader ends the wait."""
    assert Script(student, [begin(), ("end", "a", 1)]).run((name,)) == [["value", 1]]


def test_time_passes_if_nothing_ends(student: Student) -> None:
    """A time limit is over, and an hour, without waiting for it. Code that polls for ever waits for ever."""
    assert Script(student, [begin()]).run(("impatient",)) == [["value", "late"]]
    assert Script(student, [begin()]).run(("sleeps",)) == [["value", "awake"]]
    assert Script(student, [begin()]).run(("polls",)) == [["waits"]]
    assert Script(student, [begin()]).run(("spins",)) == [["waits"]]


def test_an_object_and_its_calls(student: Student) -> None:
    """Calls of one object run on one loop. An async function that was passed in has its first arguments."""
    script = Script(student, [begin(0), begin(1), ("end", "a", awaited("load", "x")), ("end", "xb", 9)])
    assert script.run(("wait",), ("come",), cls="Meeting") == [["value", "met"], ["value", 9]]


def test_what_is_left_is_cancelled(student: Student) -> None:
    """A task that the code has left behind ends with the question. The next question is answered."""
    script = Script(student, [begin()])
    assert script.run(("in_the_background",)) == [["value", "done"]]
    assert script.waits == {}
    assert Script(student, [begin(), ("end", "a", 1)]).run(("one", "a")) == [["value", 1]]


@pytest.mark.parametrize(("name", "error"), [("mistaken", "NameError"), ("unwritten", "NotImplementedError: task 1")])
def test_a_mistake_is_an_error(student: Student, name: str, error: str) -> None:
    """Any other exception is the code's own. The message has its line."""
    with pytest.raises(NoValueError, match=rf"^{error}.*\(line \d+\)$"):
        Script(student, [begin()]).run((name,))


def test_code_that_cannot_be_cancelled(student: Student) -> None:
    """Code that ignores that it is cancelled is an error, and does not stop the grader."""
    with pytest.raises(NoValueError, match="goes on waiting after it was cancelled"):
        Script(student, [begin()]).run(("deaf",))
    assert Script(student, [begin(), ("end", "a", 1)]).run(("one", "a")) == [["value", 1]]


NO_VALUE = {
    "pairs": r"pairs has returned {'found': [dict_items([('a', 1.0)])]}, and dict_items is no JSON value",
    "ratio": "ratio has returned (1.0, nan), and nan is no JSON value",
    "itself": "itself has returned [[...]], and list is no JSON value",
    "collects": "collects has returned [ConnectionError('broken')], and ConnectionError is no JSON value",
    "asks_for_a_set": "load was called with {'a'}, and set is no JSON value",
}


@pytest.mark.parametrize("name", NO_VALUE)
def test_what_is_no_json_value(student: Student, name: str) -> None:
    """The message says which function has returned what, or was called with what, and what may be used instead."""
    with pytest.raises(NoValueError) as raised:
        if name in ("collects", "asks_for_a_set"):
            Script(student, [begin(), ("fail", "a", "broken")]).run((name,))
        else:
            student.call(name, *["a"] * (name == "pairs"))
    may = "numbers, texts, booleans, None, lists, tuples, or dicts with text keys"
    line = SOLUTION.splitlines().index('    return await load({"a"})') + 1
    where = f" (line {line})" if name == "asks_for_a_set" else ""
    assert str(raised.value) == f"TypeError: {NO_VALUE[name]}; use {may}{where}"
