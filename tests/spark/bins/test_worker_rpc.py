"""A bin that another process has in memory: worked on there under the store's token, else read from the store."""

from __future__ import annotations

import json
import socket
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from cases import CASES
from rehearsal import Dict

import sharedstate_lite as ss
from sharedstate_lite.spark.bins import bins
from sharedstate_lite.spark.bins.bins import Message, Plan
from sharedstate_lite.spark.bins.blueprint import Blueprint
from sharedstate_lite.spark.bins.messages import Done, Place
from sharedstate_lite.spark.bins.worker_rpc import Neighbours
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.encoding import Strings

VIEW = CASES["shopping"].declare()[1][-1]
STEPS: list[dict[str, Any]] = [
    {"info": [(("a", "x"), 1), (("b", "x"), 1)], "visit": [(("a", "u", 1), 1), (("b", "u", 5), 1)]},
    {"visit": [(("a", "u", 7), 1), (("b", "u", 5), -1)]},
    {"visit": [(("b", "w", 3), 1)]},
]


class Owner:
    """A process that has bins, with its memory; whoever asks it has another memory."""

    def __init__(self) -> None:
        self.door = Neighbours()
        self.port, self.memory, self.asked = 1, OrderedDict[Any, Any](), 0

    def ask(self, port: int, place: Place, token: str, messages: list[Message]) -> Done | None:
        """Over a real line, to a thread that sees the owner's memory. See :class:`~.messages.Near`."""
        mine, bins._AROUND = bins._AROUND, self.memory
        try:
            done = self.door.ask(port, place, token, messages)
        finally:
            bins._AROUND = mine
        self.asked += done is not None
        return done


def sent(plan: Blueprint, step: dict[str, Any]) -> list[Message]:
    """An epoch as messages to the one bin of the first stage."""
    route, strings, out = plan.routed(), Strings(), []
    for number, channel in enumerate(route.channels, 1):
        relation = route.relation(channel)
        if relation in step:
            rows = [[*row, diff] for row, diff in step[relation]]
            words = [strings.codes(c) if isinstance(c[0], str) else c for c in map(list, zip(*rows, strict=True))]
            blob = wire.encode([np.array(w) for w in words], channel.types, strings)
            out.append(Message(1, 0, number, "", blob))
    return out


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_it_says_what_the_store_would_have_said(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of a neighbour, and what it writes, equal a bin read anew; without its token it does nothing."""
    monkeypatch.setattr(bins, "_AROUND", OrderedDict[Any, Any]())
    blueprint, owner = Blueprint(kind, [VIEW]), Owner()
    plan, store = Plan("near", 1, blueprint.routed), Dict()
    first = sent(blueprint, STEPS[0])
    bins.work(plan, 1, 0, first, store, owner.door)
    owner.memory, bins._AROUND = bins._AROUND, OrderedDict()
    alone = store.copy()
    plain = Plan("alone", 1, blueprint.routed)
    for n, step in enumerate(STEPS[1:], 1):
        messages = sent(blueprint, step)
        assert bins.work(plan, 1, 0, messages, store, owner) == bins.work(plain, 1, 0, messages, alone)
        assert owner.asked == n and store.told != alone.told and not bins._has(("near", 1, 0), token(store))
        assert sorted(store.runs.values()) == sorted(alone.runs.values())
    assert owner.ask(owner.door.port, ("near", 1, 0), "another token", first) is None


def token(store: Dict) -> str:
    """The token in a store's head."""
    assert store.told is not None
    return str(json.loads(store.told)["token"])


def test_refusals_come_back_and_silence_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour's refusal is the kit's error, and it forgets the bin; where nobody listens the store is read."""
    monkeypatch.setattr(bins, "_AROUND", OrderedDict[Any, Any]())
    blueprint, owner = Blueprint("full", [VIEW]), Owner()
    plan, store = Plan("refused", 1, blueprint.routed), Dict()
    bins.work(plan, 1, 0, sent(blueprint, STEPS[0]), store, owner.door)
    owner.memory, bins._AROUND = bins._AROUND, OrderedDict()
    with pytest.raises(ss.Error, match="visit"):
        bins.work(plan, 1, 0, sent(blueprint, {"visit": [(("a", "nobody", 1), -1)]}), store, owner)
    assert not owner.memory
    assert bins.work(plan, 1, 0, sent(blueprint, STEPS[1]), store, owner)
    assert bins._AROUND["refused", 1, 0].found == "missing"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert owner.door.ask(port, ("refused", 1, 0), "any", []) is None
