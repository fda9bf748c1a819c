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
    spark       checkouts a second by HTTP: on Spark with one bin, beside eight bins with and without transactions, and
                beside the server without Spark; 1,024 clients each send the next checkout when the last is answered

Rounds and sales are counted and do not depend on the machine.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import timeit
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import child, measure  # noqa: E402
from sharedstate_lite import entities as e  # noqa: E402
from sharedstate_lite.lessons.checkouts import Orders, block, protocols, scarce  # noqa: E402

ROWS = ["split", "protocols", "spark"]
SHOP = child.ROOT / "labs" / "checkout" / "entities" / "shop.py"
CLIENTS, USERS, ITEMS, PRICE, ENOUGH = 1_024, 40, 20, 3, 10**9
ONE, EIGHT, SERVER = "Spark, one bin", "Spark, eight bins", "the server without Spark"
BLOCKS = "Spark, eight bins, without transactions"
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


@contextlib.contextmanager
def served(shop: Path, words: Sequence[str]) -> Iterator[str]:
    """Serve a program on an empty folder, and yield its address; in the end, kill its processes."""
    with tempfile.TemporaryDirectory(prefix="entities-") as data:
        command = [sys.executable, "-m", "sharedstate_lite.entities", "serve", str(shop), "--port", "0"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*command, "--data", data, *words], cwd=child.ROOT, stdout=pipe, start_new_session=True
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            if not address:
                raise child.Failed(f"serve {' '.join(words)} has ended with status {process.wait()}")
            yield address
        finally:
            child.end(process)


def ask(address: str, path: str, method: str = "GET") -> dict[str, int]:
    """Send one request. Raises OSError if it is not answered 200."""
    with urllib.request.urlopen(urllib.request.Request(address + path, method=method), timeout=120) as answer:
        found: dict[str, int] = json.loads(answer.read())
    return found


def rate(address: str, count: int) -> tuple[float, bool]:
    """Check out ``count`` orders after as many others, which are not timed. Return how many a second, and whether all
    were answered 200 and have been paid for."""
    import numpy as np

    from grader.wire.client import Generator as Clients
    from grader.wire.jobs import Job, Shape, Target

    for path in (
        f"/payment/batch_init/{USERS}/{ENOUGH}",
        f"/stock/batch_init/{ITEMS}/{ENOUGH}/{PRICE}",
        f"/orders/batch_init/{2 * count}/{ITEMS}/{USERS}/{PRICE}",
    ):
        ask(address, path, "POST")
    parts, right, seconds = urlsplit(address), True, 0.0
    end = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n".encode()
    clients, zeros = Clients(), np.zeros(count, dtype=np.int64)
    try:
        for first in (0, count):
            job = Job(
                [Target(str(parts.hostname), int(parts.port or 80))],
                [Shape(0, b"POST /orders/checkout/", end)],
                zeros,
                [b"%d" % number for number in range(first, first + count)],
                zeros,
                time.monotonic_ns() + 300_000_000,
                CLIENTS,
                timeout=300_000_000_000,
                patience=300_000_000_000,
            )
            result = clients.run(job)
            right &= bool((result.status == 200).all())
            seconds = int(result.done.max() - result.sent.min()) / 1e9
    finally:
        clients.close()
    with ThreadPoolExecutor(USERS + ITEMS) as pool:
        paths = [f"/payment/find_user/{n}" for n in range(USERS)] + [f"/stock/find/{n}" for n in range(ITEMS)]
        found = list(pool.map(partial(ask, address), paths))
    paid = sum(ENOUGH - each["credit"] for each in found if "credit" in each)
    sold = sum(ENOUGH - each["stock"] for each in found if "stock" in each)
    return count / seconds, right and (paid, sold) == (2 * count * PRICE, 2 * count)


def spark(quick: bool) -> list[measure.Row]:
    """Checkouts a second of each server, in turn. Everything is in stock, so it does not matter what is undone."""
    systems = {ONE: ["--spark"], EIGHT: ["--spark", "--bins", "8"], BLOCKS: ["--spark", "--bins", "8"], SERVER: []}
    rates: dict[str, list[float]] = {name: [] for name in systems}
    equal = True
    with tempfile.TemporaryDirectory(prefix="entities-") as folder:
        blocks = Path(folder) / "shop.py"
        blocks.write_text(SHOP.read_text().replace("    @transactional\n", ""))
        for number in range(1 if quick else 2):
            for name, words in list(systems.items())[:: -1 if number % 2 else 1]:
                with served(blocks if name == BLOCKS else SHOP, words) as address:
                    found, good = rate(address, 1_000 if quick else 6_000)
                rates[name].append(found)
                equal &= good
    value, *peers = (measure.median(each) for each in rates.values())
    named = dict(zip([EIGHT, BLOCKS, SERVER, "the goal"], [*peers, 1_000.0], strict=True))
    what = f"{ONE}: rate, {CLIENTS:,} clients"
    return [measure.compared(what, value, "checkouts/s", named, against="the goal", target=1.0, equal=equal)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    wanted = chosen.only or ROWS
    progress = measure.Progress([(name, {"split": 1, "protocols": 3, "spark": 60}[name]) for name in wanted])
    out: list[measure.Row] = []
    for at, name in enumerate(wanted):
        progress.at(at, 0.1)
        if name == "split":
            out += split(chosen.quick)
        elif name == "spark":
            out += spark(chosen.quick)
        else:
            out += rounds_of("36 checkouts of the grader", block())
            count = 120 if chosen.quick else 2_000
            out += rounds_of(f"{count} orders of scarce goods", scarce(count, 12 if chosen.quick else 100))
    progress.clear()
    return measure.finish(out, chosen.json)


if __name__ == "__main__":
    measure.command(main)
