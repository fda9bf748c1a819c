"""Generated programs: the plain carrier and the blocks do what the undecorated classes do."""

from __future__ import annotations

from random import Random
from typing import Any

from carriers import Split, cell
from generated import World, source
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.entities import PlainStore, Program, Reference
from sharedstate_lite.entities.declare import text_of

ANN = Reference("Account", "ann")


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal; exceptions by class, and by text if the program raised them."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        raised = type(one).__name__ in ("Refused", "ValueError")
        return type(one) is type(other) and (not raised or text_of(one) == text_of(other))
    return type(one) is type(other) and bool(one == other)


def differences(rng: Random, calls: int) -> list[str]:
    """Run one program's calls three ways, and return what differs."""
    text = source(rng)
    scope = cell(text)
    program = Program(scope["Account"], scope["Item"])
    world, plain, split = World(text), PlainStore(program), Split(program)
    for cls, args in (
        ("Item", ("i0", rng.randrange(6))),
        ("Item", ("i1", rng.randrange(6))),
        ("Account", ("ann", rng.randrange(4), Reference("Item", "i0"))),
    ):
        who = Reference(cls, args[0])
        world.request(who, "__init__", *args)
        plain.create(cls, *args)
        split.request(who, "__init__", *args)
    wrong = []
    for _ in range(calls):
        items = [Reference("Item", f"i{rng.choice('00112')}") for _ in range(3)]
        given = items[0], items[1:], rng.randrange(-1, 4)
        expected = world.request(ANN, "run", *given)
        expected = Reference(expected.cls, expected.key) if hasattr(expected, "key") else expected
        reply = plain.call(ANN, "run", *given)
        answers = {"plain": reply.error or reply.value, "split": split.request(ANN, "run", *given)}
        states = {"split": split.state, "plain": {n: plain.state(Reference(*n)) for n in split.state}}
        for name, answer in answers.items():
            if not same(answer, expected):
                wrong.append(f"{name} answers {answer!r}, not {expected!r}, to run{given}\n{text}")
            if states[name] != world.state():
                wrong.append(f"{name} has {states[name]}, not {world.state()}, after run{given}\n{text}")
    return wrong


@given(st.integers(0, 2**32))
def test_generated_programs(seed: int) -> None:
    """Answers and states of generated calls are equal: as plain Python, on the plain carrier, and in blocks."""
    assert differences(Random(seed), 6) == []
