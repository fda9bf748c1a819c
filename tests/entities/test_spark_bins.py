"""A bin of entities as Spark's workers run it, without Spark: any order of messages, lost memory, repeated batches."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random

import pytest
from carriers import cell
from hypothesis import given
from hypothesis import strategies as st
from sorted_bins import Sorted
from support import examples
from test_serve_on_spark import comparable, on_a_machine, start, state

from sharedstate_lite.entities import AskMessage, Program, Reference, rounds
from sharedstate_lite.entities.bins import AnswerMessage, Waiting
from sharedstate_lite.entities.errors import MOST_DEPTH
from sharedstate_lite.entities.on_spark import entities_in, pack, unpack

SHOP = """
@entity
class Item:
    def __init__(self, name: str, stock: int):
        self.name, self.stock = name, stock
    def __key__(self):
        return self.name
    def take(self, n: int) -> int:
        if self.stock < n:
            raise Refused("out of stock")
        self.stock -= n
        return self.stock
@entity
class Basket:
    def __init__(self, name: str, n: int):
        if n == 3:
            raise Refused("no such basket")
        self.name, self.log = name, [n]
    def __key__(self):
        return self.name
    def fill(self, items: list[Item], n: int) -> int:
        for item in items:
            left = item.take(n)
            self.log.append(left)
        return len(self.log)
"""
ITEMS = [Reference("Item", f"i{n}") for n in range(3)]


def requests(rng: Random, first: int, count: int) -> list[AskMessage]:
    """Draw requests: some create a basket that may be there, or that is refused; others fill one that may not be."""
    out = []
    for number in range(first, first + count):
        who, n = Reference("Basket", f"b{rng.randrange(4)}"), rng.randrange(1, 4)
        some = (rng.choices(ITEMS, k=rng.randrange(4)), n)
        if rng.random() < 0.4:
            out.append(AskMessage(number, who, "__init__", (who.key, n), None))
        else:
            out.append(AskMessage(number, who, "fill", some, None))
    return out


@examples(12)
@given(st.integers(0, 2**32))
def test_what_spark_may_do_changes_nothing(seed: int) -> None:
    """Answers, states and rounds are those of bins in memory that handle messages by request, whatever order messages
    come in, though workers forget bins, and though tasks run a second time on the store that they found."""
    rng = Random(seed)
    count = rng.choice([1, 2, 5])
    scope = cell(SHOP)
    program = Program(scope["Item"], scope["Basket"])
    oracle = [Sorted(program, number, count) for number in range(count)]
    made = [AskMessage(n, who, "__init__", (who.key, 8), None) for n, who in enumerate(ITEMS)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        machine = on_a_machine(rng, patch)
        with start(Path(folder), count, program) as front:
            for asked in (made, requests(rng, 10, 8), requests(rng, 20, 8)):
                before, (expected, hops) = front.rounds, rounds(oracle, asked)
                answers = front.run(asked)
                assert {n: comparable(a) for n, a in answers.items()} == {n: comparable(a) for n, a in expected.items()}
                assert front.rounds - before == hops
                for (_, number), store in machine.states[max(machine.states)].items():
                    blobs = {name: blob for (_, name), blob in store.runs.items()}
                    assert entities_in(blobs) == oracle[number].state
                    assert sorted(blobs) == (json.loads(store.text)["runs"] if store.text else [])
                    assert len(blobs) <= 4  # log2 of seven entities, and one
                assert state(machine) == {name: each for bin in oracle for name, each in bin.state.items()}


def test_as_many_waiting_methods_as_there_can_be() -> None:
    """A message carries them all: it is encoded and decoded without recursion."""
    back = None
    for depth in range(1, MOST_DEPTH + 1):
        back = Waiting(Reference("Basket", "b"), "fill", 0, 1, "left", {"n": depth}, back, depth)
    ask, answer = AskMessage(1, ITEMS[0], "stock", None, back), AnswerMessage(2, [ITEMS[1]], None, back)
    assert unpack(pack([ask, answer])) == [ask, answer]
