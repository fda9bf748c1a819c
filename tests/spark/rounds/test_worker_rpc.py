"""A bin in the memory of another worker: it runs there if the store's token matches, else it is read from the store."""

from __future__ import annotations

import json
import socket
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from cases import CASES

import sharedstate_lite as ss
from sharedstate_lite.spark.bins.bin import ViewRecipe
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.rounds import worker
from sharedstate_lite.spark.rounds.local import LocalStore
from sharedstate_lite.spark.rounds.message import BinId, BinMessage, BinResult
from sharedstate_lite.spark.rounds.rpc import SocketRpc
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.encoding import Dictionary

VIEW = CASES["shopping"].declare()[1][-1]
STEPS: list[dict[str, Any]] = [
    {"info": [(("a", "x"), 1), (("b", "x"), 1)], "visit": [(("a", "u", 1), 1), (("b", "u", 5), 1)]},
    {"visit": [(("a", "u", 7), 1), (("b", "u", 5), -1)]},
    {"visit": [(("b", "w", 3), 1)]},
]


class Owner:
    """A worker with its own cache of bins; the caller has another cache."""

    def __init__(self) -> None:
        self.rpc = SocketRpc(worker.run_for_peer)
        self.port, self.memory, self.asked = 1, OrderedDict[Any, Any](), 0

    def call(self, port: int, bin_id: BinId, token: str, messages: list[BinMessage]) -> BinResult | None:
        """Over a real connection, to a thread that sees the owner's cache. See `WorkerRpc.call`."""
        mine, worker._cached = worker._cached, self.memory
        try:
            done = self.rpc.call(port, bin_id, token, messages)
        finally:
            worker._cached = mine
        self.asked += done is not None
        return done


def sent(spec: EngineSpec, step: dict[str, Any]) -> list[BinMessage]:
    """An epoch as messages to the one bin of the first stage."""
    route, strings, out = spec.route(), Dictionary(), []
    for number, channel in enumerate(route.channels, 1):
        relation = route.relation(channel)
        if relation in step:
            rows = [[*row, diff] for row, diff in step[relation]]
            words = [strings.codes(c) if isinstance(c[0], str) else c for c in map(list, zip(*rows, strict=True))]
            blob = wire.encode([np.array(w) for w in words], channel.types, strings)
            out.append(BinMessage(1, 0, number, "", blob))
    return out


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_a_call_gives_what_the_store_would_give(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call's messages and writes equal those of a bin read from the store; with another token it does nothing."""
    monkeypatch.setattr(worker, "_cached", OrderedDict[Any, Any]())
    engine_spec, owner = EngineSpec(kind, [VIEW]), Owner()
    recipe, store = ViewRecipe("near", 1, engine_spec.route), LocalStore()
    first = sent(engine_spec, STEPS[0])
    worker.run_bin(recipe, 1, 0, first, store, owner.rpc)
    owner.memory, worker._cached = worker._cached, OrderedDict()
    alone = store.copy()
    plain = ViewRecipe("alone", 1, engine_spec.route)
    for n, step in enumerate(STEPS[1:], 1):
        messages = sent(engine_spec, step)
        assert worker.run_bin(recipe, 1, 0, messages, store, owner) == worker.run_bin(plain, 1, 0, messages, alone)
        assert owner.asked == n and store.text != alone.text and not worker._has(("near", 1, 0), token(store))
        assert sorted(store.runs.values()) == sorted(alone.runs.values())
    assert owner.call(owner.rpc.port, ("near", 1, 0), "another token", first) is None


def token(store: LocalStore) -> str:
    """The token in a store's head."""
    assert store.text is not None
    return str(json.loads(store.text)["token"])


def test_a_start_does_not_trust_what_an_earlier_one_left_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the batch in progress has other rows: the bin in memory, one batch ahead, has another token."""
    monkeypatch.setattr(worker, "_cached", OrderedDict[Any, Any]())
    engine_spec, store = EngineSpec("full", [VIEW]), LocalStore()
    recipe, again = (ViewRecipe("restarted", 1, engine_spec.route) for _ in range(2))
    worker.run_bin(recipe, 1, 0, sent(engine_spec, STEPS[0]), store)
    lost = store.copy()
    worker.run_bin(recipe, 1, 0, sent(engine_spec, STEPS[1]), lost)
    ahead, worker._cached = worker._cached, OrderedDict()
    worker.run_bin(again, 1, 0, sent(engine_spec, STEPS[2]), store)
    worker._cached = ahead
    bin_id: BinId = ("restarted", 1, 0)
    assert worker._has(bin_id, token(lost)) and not worker._has(bin_id, token(store))


def test_refusals_come_back_and_a_closed_port_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other worker's refusal is raised here, and it drops the bin; with a closed port the store is read."""
    monkeypatch.setattr(worker, "_cached", OrderedDict[Any, Any]())
    engine_spec, owner = EngineSpec("full", [VIEW]), Owner()
    recipe, store = ViewRecipe("refused", 1, engine_spec.route), LocalStore()
    worker.run_bin(recipe, 1, 0, sent(engine_spec, STEPS[0]), store, owner.rpc)
    owner.memory, worker._cached = worker._cached, OrderedDict()
    with pytest.raises(ss.Error, match="visit"):
        worker.run_bin(recipe, 1, 0, sent(engine_spec, {"visit": [(("a", "nobody", 1), -1)]}), store, owner)
    assert not owner.memory
    assert worker.run_bin(recipe, 1, 0, sent(engine_spec, STEPS[1]), store, owner)
    assert worker._cached["refused", 1, 0].found == "missing"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert owner.rpc.call(port, ("refused", 1, 0), "any", []) is None
