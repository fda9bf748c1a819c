"""Generated programs: every carrier does what the undecorated classes do."""

from __future__ import annotations

from random import Random
from typing import Any

from carriers import Bins, Plain, Split, cell
from generated import World, source
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.entities import Program, Reference
from sharedstate_lite.entities.declare import text_of

ANN = Reference("Account", "ann")


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal; exceptions by class, and by text if the program raised them."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        raised = type(one).__name__ in ("Refused", "ValueError")
        return type(one) is type(other) and (not raised or text_of(one) == text_of(other))
    return type(one) is type(other) and bool(one == other)


def differences(rng: Random, calls: int) -> list[str]:
    """Run one program's calls on each carrier, and return what differs from the undecorated classes."""
    text = source(rng)
    scope = cell(text)
    program = Program(scope["Account"], scope["Item"])
    world = World(text)
    carriers = {kind.__name__: kind(program) for kind in (Plain, Split, Bins)}
    item = Reference("Item", "i0")
    for cls, args in (
        ("Item", ("i0", rng.randrange(6))),
        ("Item", ("i1", rng.randrange(6))),
        ("Account", ("ann", rng.randrange(4), item)),
        ("Account", ("bob", rng.randrange(4), item)),
    ):
        for carrier in (world, *carriers.values()):
            carrier.request(Reference(cls, args[0]), "__init__", *args)
    wrong = []
    for _ in range(calls):
        items = [Reference("Item", f"i{rng.choice('00112')}") for _ in range(3)]
        given = items[0], items[1:], rng.randrange(-1, 4)
        expected = world.request(ANN, "run", *given)
        for name, carrier in carriers.items():
            answer = carrier.request(ANN, "run", *given)
            if not same(answer, expected):
                wrong.append(f"{name} answers {answer!r}, not {expected!r}, to run{given}\n{text}")
            if carrier.state != world.state:
                wrong.append(f"{name} has {carrier.state}, not {world.state}, after run{given}\n{text}")
    return wrong


@given(st.integers(0, 2**32))
def test_generated_programs(seed: int) -> None:
    """Answers and states are those of plain Python, whether a program asks other classes or its own."""
    assert differences(Random(seed), 6) == []
