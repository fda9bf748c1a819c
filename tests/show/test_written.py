"""The check of an exercise: which call it names, which slip it explains, and that it ends."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import StateError
from sharedstate_lite.show import waiting
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.show.written import WRONG, Written


@pytest.fixture(autouse=True)
def first_attempt() -> None:
    """No test counts the attempts of another one."""
    WRONG.clear()


@show.written_in_order
def check(Max: Any) -> Any:  # noqa: N803
    mine = Max()
    for length, diff, right, hint in ((50, 1, 50, "store it"), (60, 1, 60, "compare"), (60, -1, 50, "what is left?")):
        yield f"{diff:+d} {length}", lambda length=length, diff=diff: mine.add(length, diff), right, hint


class Stub:
    def add(self, length: int, diff: int) -> int | None:
        raise NotImplementedError


class Forgets(Stub):
    def add(self, length: int, diff: int) -> int | None:
        return length if diff > 0 else None


class Solution(Stub):
    def __init__(self) -> None:
        self.values = Counter[int]()

    def add(self, length: int, diff: int) -> int | None:
        self.values[length] += diff
        return max(self.values.elements(), default=None)


class Fails(Stub):
    def add(self, length: int, diff: int) -> int | None:
        raise KeyError(length)


def test_written_code_is_checked_step_by_step() -> None:
    """A stub is not written yet. A wrong solution is shown the first wrong step and its hint; nothing raises."""
    assert (repr(check(Stub)), check(Stub).right) == ("not written yet", None)
    assert repr(check(Solution)) == "✓ 3 steps, all right."
    assert repr(check(Forgets)) == "✗ -1 60 (after +1 50, +1 60): None, should be 50. Hint: what is left?"
    assert repr(check(Fails)) == "✗ +1 50: KeyError: 50. Hint: store it."
    assert check(None).text.startswith("TypeError: 'NoneType' object is not callable.")
    assert "✓" in check(Solution)._repr_html_()


@pytest.mark.parametrize("wrong", [lambda n: nn, lambda n: n.twice, lambda n: None * n])  # type: ignore[name-defined]  # noqa: F821
def test_an_error_of_the_language_has_no_hint(wrong: Any) -> None:
    """A hint is about what the code returns, and does not explain why it does not run."""
    text = fresh()(wrong).text
    assert re.match(r"double\(2\): (Name|Attribute|Type)Error: ", text) and "Hint" not in text


def fresh() -> Callable[[Any], Written]:
    """A check of two calls that need nothing of each other."""

    @show.written
    def check(double: Any) -> Iterator[Any]:
        yield "double(2)", lambda: double(2), 4, "twice"
        yield "double(3)", lambda: double(3), 6, "twice"

    return check


def test_an_error_of_the_kit_has_no_hint() -> None:
    """It says itself what to do."""

    def wrong(n: int) -> int:
        raise StateError(f"{n} is not stored; store it first")

    assert fresh()(wrong).text == "double(2): StateError: 2 is not stored; store it first."


def test_an_independent_call_is_named_alone() -> None:
    """The calls before it are not part of the message."""
    assert fresh()(lambda n: n * n).text == "double(3): 9, should be 6. Hint: twice."


async def coroutine(n: int) -> int:
    return 2 * n


SLIPS = {
    "A function without `return` returns None.": lambda n: None,
    "A function with `yield` returns a generator: write `return`.": lambda n: (2 * each for each in [n]),
    "A function with `async` returns a coroutine: write `def`, or await it.": coroutine,
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_slip_of_the_language_has_a_sentence(slip: str) -> None:
    """It stands between what was returned and the hint."""
    assert fresh()(SLIPS[slip]).text.endswith(f", should be 4. {slip} Hint: twice.")


class Keeps(Stub):
    def __init__(self) -> None:
        self.top: int | None = None

    def add(self, length: int, diff: int) -> int | None:
        if self.top is not None:
            self.top = max(self.top, length)
        return self.top


def test_code_that_returns_is_not_told_to_return() -> None:
    """A function that returns None by its ``return`` has another mistake."""
    assert repr(check(Keeps)) == "✗ +1 50: None, should be 50. Hint: store it."
    kept = {4: 8}
    assert fresh()(lambda n: kept.get(n)).text == "double(2): None, should be 4. Hint: twice."


def test_what_cannot_be_compared_is_wrong() -> None:
    """Pandas' missing value is neither equal nor different, and an exception may have no text."""
    missing = pytest.importorskip("pandas").NA
    assert "double(2): <NA>, should be 4." in fresh()(lambda n: missing).text
    assert fresh()(lambda n: next(iter([]))).text == "double(2): StopIteration. Hint: twice."


def test_the_third_wrong_attempt_is_offered_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the check is defined again. What a check of the text tries is no attempt, and a right one ends it."""
    monkeypatch.setenv(UNATTENDED, "1")
    offer = "A solution is folded below."
    wrong, right = (lambda n: n), (lambda n: 2 * n)
    assert fresh()(right).right
    with show.checks():
        assert [offer in fresh()(wrong).text for _ in range(3)] == [False] * 3
    assert [offer in fresh()(wrong).text for _ in range(4)] == [False, False, True, True]
    assert fresh()(right).right and offer not in fresh()(wrong).text


def test_code_that_never_answers_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait in the call, in the check's own code, in a coroutine, and in one that blocks its loop."""
    monkeypatch.setattr(waiting, "ATTENDED", 0.2)
    never = Event()
    forever = lambda n: never.wait()  # noqa: E731
    said = "no answer within 0.2 seconds; does it wait for something that never comes?"
    assert fresh()(forever).text == f"double(2): {said} Hint: twice."

    @show.written
    def in_constructor(cls: Any) -> Iterator[Any]:
        yield "made", cls().copy, {}, "-"

    assert in_constructor(never.wait).text == said
    for wait in (lambda: asyncio.Event().wait(), lambda: blocks(never)):
        text = fresh()(lambda n, wait=wait: show.awaited(wait())).text
        assert text.startswith(f"double(2): {said} Hint: twice.")
    never.set()
    monkeypatch.undo()
    assert show.awaited(coroutine(2)) == 4
    with pytest.raises(TypeError, match="list is not a coroutine; write `async def`"):
        show.awaited([])  # type: ignore[arg-type]


async def blocks(never: Event) -> None:
    never.wait()
