"""Entities: what a method costs that is cut into blocks, and what each protocol of transactions costs in rounds.

Rows:
    split       microseconds of processor time for a call that asks another entity three times, in blocks; beside the
                class as plain Python, beside the same method as a generator, which cannot be sent or stored, and
                beside blocks over a bin, which copies what is asked and answered, can undo each block, and checks
                that state is data
    protocols   rounds of messages between 8 bins: deterministic epochs with gathering, beside a saga, locks with
                wait-die, and epochs that retry what is in conflict (Aria without its fallback); for the 36 checkouts
                that the grader sends at once, and for orders of scarce goods; how many are sold, and the share of
                transactions at the busiest place

Rounds and sales are counted and do not depend on the machine.
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure  # noqa: E402
from sharedstate_lite import entities as e  # noqa: E402
from sharedstate_lite.lessons.checkouts import Orders, block, protocols, scarce  # noqa: E402

ROWS = ["split", "protocols"]
GENERATOR, PLAIN, BIN = "the method as a generator", "the class as plain Python", "blocks over one bin"


@e.entity
class Stock:
    """Goods; asked three times by a purchase."""

    def __init__(self, name: str, price: int, n: int):
        self.name, self.price, self.n = name, price, n

    def __key__(self):  # type: ignore[no-untyped-def]
        return self.name

    def take(self, n: int) -> bool:
        """Take n."""
        self.n -= n
        return self.n >= 0


@e.entity
class Purse:
    """Who buys."""

    def __init__(self, name: str, balance: int):
        self.name, self.balance = name, balance

    def __key__(self):  # type: ignore[no-untyped-def]
        return self.name

    def buy(self, n: int, stock: Stock) -> bool:
        """Buy n."""
        total = n * stock.price
        if self.balance < total:
            return False
        if not stock.take(n):
            stock.take(-n)
            return False
        stock.take(0)
        self.balance -= total
        return True


def as_generator(me: Purse, n: int, stock: Stock) -> Generator[tuple[Any, ...], Any, bool]:
    """`Purse.buy`, written by hand: each question is a yield."""
    total = n * (yield stock, "price", None)
    if me.balance < total:
        return False
    if not (yield stock, "take", (n,)):
        yield stock, "take", (-n,)
        return False
    yield stock, "take", (0,)
    me.balance -= total
    return True


def driven(asking: Generator[tuple[Any, ...], Any, bool]) -> bool:
    """Answer the questions of a generator until it ends."""
    answer = None
    while True:
        try:
            who, what, args = asking.send(answer)
        except StopIteration as end:
            return bool(end.value)
        answer = getattr(who, what) if args is None else getattr(who, what)(*args)


def in_blocks(program: e.Program, entities: dict[e.Reference, Any], who: e.Reference, what: str, args: Any) -> Any:
    """Run a method in blocks: a question is a call of this function, or of a method that asks nothing."""
    machine, me = program.machine(what, who.cls), entities[who]
    at, frame = 0, machine.frame(args)
    while True:
        step = machine.blocks[at].run(me, frame)
        if isinstance(step, e.Return):
            return step.value
        if isinstance(step, tuple):
            at, frame = step
            continue
        at, frame = step.then, step.frame
        if step.args is None:
            frame[step.name] = getattr(entities[step.who], step.what)
        elif step.what in program.cut[step.who.cls]:
            frame[step.name] = in_blocks(program, entities, step.who, step.what, step.args)
        else:
            frame[step.name] = getattr(entities[step.who], step.what)(*step.args)


def split(quick: bool) -> list[measure.Row]:
    """Time the three forms of one call, in turn, and compare their answers."""
    rich = 10**12
    program = e.Program(Stock, Purse)
    bin = e.EntityBin(program, 0, 1)
    purse, stock = e.Reference("Purse", "p"), e.Reference("Stock", "s")
    made = [
        e.AskMessage(0, purse, "__init__", ("p", rich), None),
        e.AskMessage(1, stock, "__init__", ("s", 2, rich), None),
    ]
    e.rounds([bin], made)
    me, goods = Purse("p", rich), Stock("s", 2, rich)
    asked = e.AskMessage(2, purse, "buy", (1, stock), None)
    forms: dict[str, Callable[[], Any]] = {
        "blocks": lambda: in_blocks(program, {purse: me, stock: goods}, purse, "buy", (1, stock)),
        GENERATOR: lambda: driven(as_generator(me, 1, goods)),
        PLAIN: lambda: me.buy(1, goods),
        BIN: lambda: e.rounds([bin], [asked])[0][2],
    }
    equal = [form() for form in forms.values()] == [True] * 4
    calls, runs = (2_000, 5) if quick else (20_000, 9)
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(runs):
        for name, form in forms.items():
            seconds[name].append(timeit.timeit(form, timer=time.process_time, number=calls) / calls * 1e6)
    value, *peers = (measure.median(times) for times in seconds.values())
    named = dict(zip([GENERATOR, PLAIN, BIN], peers, strict=True))
    what = "a call with three questions"
    return [
        measure.compared(what, value, "us", named, against=against, target=target, less=True, equal=equal)
        for against, target in ((GENERATOR, 1 / 3), (PLAIN, 1 / 15))
    ]


def rounds_of(name: str, orders: Orders) -> list[measure.Row]:
    """Count the rounds of each protocol, and what it sells."""
    table = {row.protocol: row for row in protocols(orders)}
    gathering, serial = table["gathering"], table["serial"]
    shown = {
        f"{row.protocol}: {row.sold} of {serial.sold} sold, {row.again} again, {row.busiest:.0%} at one place": row
        for row in table.values()
        if row.rounds is not None and row is not gathering
    }
    value = f"{name}; gathering: {gathering.sold} of {serial.sold} sold, {gathering.busiest:.0%} at one place"
    peers = {label: float(row.rounds or 0) for label, row in shown.items()}
    retried = next(label for label in peers if label.startswith("epochs, retried"))
    equal = all(row.reported is not False for row in table.values()) and gathering.equal
    return [
        measure.compared(
            value, float(gathering.rounds or 0), "rounds", peers, against=retried, target=10, less=True, equal=equal
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    wanted = chosen.only or ROWS
    progress = measure.Progress([(name, 1 if name == "split" else 3) for name in wanted])
    out: list[measure.Row] = []
    for at, name in enumerate(wanted):
        progress.at(at, 0.1)
        if name == "split":
            out += split(chosen.quick)
        else:
            out += rounds_of("36 checkouts of the grader", block())
            count = 120 if chosen.quick else 2_000
            out += rounds_of(f"{count} orders of scarce goods", scarce(count, 12 if chosen.quick else 100))
    progress.clear()
    return measure.finish(out, chosen.json)


if __name__ == "__main__":
    measure.command(main)
