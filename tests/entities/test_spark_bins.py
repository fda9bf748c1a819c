"""A bin of entities as Spark's workers run it, without Spark: any order of messages, lost memory, repeated batches."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from random import Random
from typing import Any

from carriers import cell
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.entities import AskMessage, EntityBin, Program, Reference, rounds
from sharedstate_lite.entities.bins import FRONT, AnswerMessage, EntityMessage, Waiting, bin_of, outcome
from sharedstate_lite.entities.errors import MOST_DEPTH
from sharedstate_lite.entities.on_spark import EntityRecipe, entities_in, pack, unpack
from sharedstate_lite.spark.rounds import worker
from sharedstate_lite.spark.rounds.local import LocalStore
from sharedstate_lite.spark.rounds.message import BinMessage

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


class Sorted(EntityBin):
    """The oracle: a bin in memory that handles the messages of a round in the order of their requests."""

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of a round."""
        return super().handle(sorted(messages, key=lambda message: message.request))


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


def comparable(answer: Any) -> Any:
    """An answer, or an exception as its class and text."""
    return (type(answer), str(answer)) if isinstance(answer, Exception) else answer


@given(st.integers(0, 2**32))
def test_what_spark_may_do_changes_nothing(seed: int) -> None:
    """Answers and states are those of bins in memory that handle messages by request, whatever order they come in,
    though workers forget bins, and though a batch runs a second time on the store that it found."""
    rng = Random(seed)
    count = rng.choice([1, 2, 5])
    scope = cell(SHOP)
    program = Program(scope["Item"], scope["Basket"])
    oracle = [Sorted(program, number, count) for number in range(count)]
    recipe, stores = EntityRecipe(f"test {seed}", count, program), [LocalStore() for _ in range(count)]
    worker._cached.clear()

    def attempt(number: int, messages: list[EntityMessage], store: LocalStore) -> list[BinMessage]:
        """Run one bin in a worker that may not have it."""
        given = list(messages)
        rng.shuffle(given)
        cut = rng.randrange(len(given) + 1)
        blobs = [BinMessage(1, number, 1, "", pack(part)) for part in (given[:cut], given[cut:])]
        if rng.random() < 0.3:
            worker._cached.clear()
        return worker.run_bin(recipe, 1, number, blobs, store)

    made = [AskMessage(n, who, "__init__", (who.key, 8), None) for n, who in enumerate(ITEMS)]
    for asked in (made, requests(rng, 10, 8), requests(rng, 20, 8)):
        answers: dict[int, Any] = {}
        turns, sent = 0, [(bin_of(each.who, count), each) for each in asked]
        waiting: list[tuple[int, EntityMessage]] = list(sent)
        while waiting:
            turns, inbox, waiting = turns + 1, waiting, []
            for number in range(count):
                mine = [message for to, message in inbox if to == number]
                if mine:
                    again = copy.deepcopy(stores[number])
                    out = attempt(number, mine, stores[number])
                    if rng.random() < 0.3:
                        stores[number] = again
                        out = attempt(number, mine, again)
                    waiting += [(int(each.what), message) for each in out for message in unpack(each.blob)]
            ended = [message for to, message in waiting if to == FRONT]
            answers |= {each.request: outcome(program, each) for each in ended if isinstance(each, AnswerMessage)}
            waiting = [each for each in waiting if each[0] != FRONT]
        expected, hops = rounds(oracle, asked)
        assert {n: comparable(a) for n, a in answers.items()} == {n: comparable(a) for n, a in expected.items()}
        assert turns == hops
        for bin, store in zip(oracle, stores, strict=True):
            blobs = {name: blob for (_, name), blob in store.runs.items()}
            assert entities_in(blobs) == bin.state
            assert sorted(blobs) == (json.loads(store.text)["runs"] if store.text else [])
            assert len(blobs) <= 4  # log2 of seven entities, and one


def test_as_many_waiting_methods_as_there_can_be() -> None:
    """A message carries them all: it is encoded and decoded without recursion."""
    back = None
    for depth in range(1, MOST_DEPTH + 1):
        back = Waiting(Reference("Basket", "b"), "fill", 0, 1, "left", {"n": depth}, back, depth)
    ask, answer = AskMessage(1, ITEMS[0], "stock", None, back), AnswerMessage(2, [ITEMS[1]], None, back)
    assert unpack(pack([ask, answer])) == [ask, answer]
