"""Generated programs by HTTP and on Spark: the answers of the undecorated classes."""

from __future__ import annotations

import builtins
import tempfile
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import served
from carriers import Front, cell
from generated import World, source, transactions
from test_generated import ANN, same
from test_serve_on_spark import on_a_machine, start, state

from sharedstate_lite.entities import Program, Reference, Refused
from sharedstate_lite.entities.serve import EntityService

ITEM = Reference("Item", "i0")
ROUTES = """
program = Program(Account, Item, routes={
    "POST /items/{k:int}/{n:int}": many("k", Item, lambda i, n: (f"i{i}", n)),
    "POST /accounts/{k:int}/{n:int}": many("k", Account, lambda i, n: (["ann", "bob"][i], n, Item["i0"])),
    "POST /Account/go/{account}/{x}/{y}/{e:int}": Account.go,
    "POST /Account/bump/{account}/{e:int}": Account.bump,
    "POST /Item/twin/{item}/{e:int}": Item.twin,
})
"""


class Http:
    """The service, without sockets. ``again`` starts it on its log."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.service = EntityService(program, folder)
        served.ask(self.service, "POST /items/2/3", "POST /accounts/2/3")

    @property
    def state(self) -> Any:
        """All states."""
        return {(cls, key): vars(me) for cls, table in self.service.store.tables.items() for key, me in table.items()}

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Send a request: its result, or the exception that the status and the text stand for."""
        words = [who.cls, method, who.key, *(arg.key if isinstance(arg, Reference) else str(arg) for arg in args)]
        ((status, value),) = served.ask(self.service, "POST /" + "/".join(words))
        if status == 200:
            return Reference("Item", value) if method == "twin" else value
        kind, _, text = ("Refused: " * (status == 400) + value["error"]).partition(": ")
        return {"Refused": Refused, **vars(builtins)}[kind](text)

    def again(self) -> None:
        """Stop the service, and start it on its log."""
        self.service.close()
        self.service = EntityService(self.program, self.folder)


def differences(seed: int, folder: Path) -> list[str]:
    """Send five requests to each carrier, one after the other. Return what differs from the undecorated classes.

    Epochs and locks are given several at once in test_transactions.py.
    """
    rng, wrong = Random(seed), list[str]()
    text = transactions(source(rng))
    program: Program = cell(text + ROUTES)["program"]
    world, http = World(text, {"transactional": lambda method: method}), Http(program, folder / "http")
    carriers: dict[str, Any] = {"http": http}
    with pytest.MonkeyPatch.context() as patch:
        machine = on_a_machine(rng, patch)
        with start(folder / "spark", rng.choice([1, 3]), program) as spark:
            carriers["Spark"] = Front(SimpleNamespace(run=spark.run, state=lambda: state(machine)))
            made: list[tuple[Any, ...]] = [(Reference("Item", f"i{n}"), f"i{n}", 3) for n in range(2)]
            made += [(Reference("Account", name), name, 3, ITEM) for name in ("ann", "bob")]
            for carrier in (world, carriers["Spark"]):
                for who, *args in made:
                    carrier.request(who, "__init__", *args)
            for _ in range(5):
                x, y = (Reference("Item", f"i{rng.choice('0012')}") for _ in range(2))
                e = rng.randrange(4)
                request = rng.choice([(ANN, "go", x, y, e)] * 4 + [(ANN, "bump", e), (x, "twin", e)])
                expected = world.request(*request)
                for name, carrier in carriers.items():
                    answer = carrier.request(*request)
                    if not same(answer, expected):
                        wrong.append(f"{seed}: {name} answers {answer!r}, not {expected!r}, to {request}\n{text}")
                    if carrier.state != world.state:
                        wrong.append(f"{seed}: {name} has {carrier.state}, not {world.state}, after {request}\n{text}")
    http.again()
    return wrong if http.state == world.state else [*wrong, f"{seed}: another state after a start\n{text}"]


def test_every_carrier_answers_as_plain_python() -> None:
    """By HTTP, also after a start on the log, and on Spark."""
    for seed in range(12):
        with tempfile.TemporaryDirectory() as folder:
            assert differences(seed, Path(folder)) == []
