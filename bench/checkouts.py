"""Checkout systems beside each other: labs/checkout/fast, the system that it replaced, and the exported entities.

Rows:
    cpu      microseconds of CPU for a checkout, of all processes of a system together, with 256 clients that each send
             the next checkout when the last one is answered
    rate     checkouts a second when 40,000 a second are offered for as long as it takes to send them
    steady   the 99th percentile at 10,000 a second, from the time at which a checkout was due; beside it how late the
             generator sends to a server that answers at once. Where that is more than 25 ms, the row has no ratio

The systems take turns, every other round in reverse order. A value is the median over the rounds. Each round starts the
processes of a system on empty folders, without a sandbox, on this machine and over loopback; there is no replica.
The grader's generator sends the checkouts. An order has one line. Answers are equal if every checkout of every round
was answered 200, and the credit and the stock that are read back afterwards have paid for exactly these.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402

from bench import child, load, measure  # noqa: E402
from grader.orders import BLOCK  # noqa: E402
from grader.submission import read_submission  # noqa: E402
from grader.submission.places import Places  # noqa: E402
from grader.wire.client import Generator  # noqa: E402
from grader.wire.jobs import Job, Result, Shape, Target  # noqa: E402
from sharedstate_lite.entities.export import export  # noqa: E402

ROWS = ["cpu", "rate", "steady"]
PACKAGES = ["numpy"]
ROOT = Path(__file__).resolve().parents[1]
NEW, OLD, ENTITIES = "labs/checkout/fast", "bench/fast_before", "entities"
CLIENTS, OVERLOAD, STEADY = 256, 40_000, 10_000
CPU_RATIO, RATE_RATIO, P99_MS, LATE_MS = 1 / 0.85, 1.3, 50.0, 25.0
"""What is asked of NEW against OLD, and at STEADY."""
USERS, ITEMS, PRICE, ENOUGH = 997, 499, 3, 10**9
READY = 30.0
"""Seconds for a process to accept connections."""


@dataclass(frozen=True)
class System:
    """A running system."""

    urls: dict[str, str]
    pids: list[int]

    def cpu(self) -> float:
        """Seconds of CPU that its processes have taken so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def ask(self, service: str, path: str, method: str = "GET") -> dict[str, int]:
        """Send one request. Raises OSError if it is not answered 200."""
        request = urllib.request.Request(self.urls[service] + path, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, int] = json.loads(answer.read())
        return found

    def send(self, generator: Generator, count: int, rate: float = 0.0) -> Result:
        """Check out the orders 0 to count - 1: at a rate, in bursts of a block, or by CLIENTS in closed loops."""
        parts = urlsplit(self.urls["order"])
        host, port = str(parts.hostname), int(parts.port or 80)
        end = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n".encode()
        shape = Shape(0, f"POST {parts.path}/checkout/".encode(), end)
        number = np.arange(count, dtype=np.int64)
        due = (number // BLOCK * (BLOCK * 1e9 / rate)).astype(np.int64) if rate else number * 0
        start, connections = time.monotonic_ns() + 300_000_000, 1024 if rate else CLIENTS
        middles = [b"%d" % each for each in number]
        limit = 120_000_000_000  # an overloaded system answers late, and a checkout that is not sent is not counted
        job = Job(
            [Target(host, port)], [shape], number * 0, middles, due, start, connections, timeout=limit, patience=limit
        )
        result = generator.run(job)
        result.due = due + start
        return result

    def balanced(self, checkouts: int) -> bool:
        """Whether all stock and all credit together have paid for exactly so many checkouts of one unit each."""
        for service, path, field, most, each in (
            ("payment", "/find_user/", "credit", USERS, PRICE),
            ("stock", "/find/", "stock", ITEMS, 1),
        ):
            spent = sum(ENOUGH - self.ask(service, f"{path}{name}")[field] for name in range(most))
            if spent != checkouts * each:
                return False
        return True


@contextlib.contextmanager
def running(folder: Path, orders: int) -> Iterator[System]:
    """Start a submission, and create users, items and orders; in the end, kill its processes."""
    submission = read_submission(folder)
    with contextlib.ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="checkouts-")))
        held = [ends.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in submission.processes]
        ports = {each.name: one.getsockname()[1] for each, one in zip(submission.processes, held, strict=True)}
        for one in held:
            one.close()
        places = Places(ports, lambda name: str(scratch / name), str(folder))
        pids = []
        for each in submission.processes:
            (scratch / each.name).mkdir()
            words = [sys.executable if word == "python3" else places.fill(word, each.name) for word in each.command]
            env = {**os.environ, **{name: places.fill(text, each.name) for name, text in each.env.items()}}
            process = subprocess.Popen(
                words, cwd=folder / each.cwd, env=env, stdout=subprocess.DEVNULL, start_new_session=True
            )
            ends.callback(child.end, process)
            pids.append(process.pid)
            until = time.monotonic() + READY
            while True:
                try:
                    socket.create_connection(("127.0.0.1", ports[each.name])).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        raise child.Failed(f"{folder}: {each.name} does not accept connections") from None
                    time.sleep(0.02)
        system = System({service: places.fill(url) for service, url in submission.urls.items()}, pids)
        system.ask("payment", f"/batch_init/{USERS}/{ENOUGH}", "POST")
        system.ask("stock", f"/batch_init/{ITEMS}/{ENOUGH}/{PRICE}", "POST")
        system.ask("order", f"/batch_init/{orders}/{ITEMS}/{USERS}/{PRICE}", "POST")
        yield system


class Bench:
    """The systems, and each row's measurement."""

    def __init__(self, quick: bool, entities: Path) -> None:
        self.rounds, self.count = (2, 6_000) if quick else (5, 30_000)
        self.folders = {NEW: ROOT / NEW, OLD: ROOT / OLD, ENTITIES: entities}

    def rounds_of(
        self, count: int, rate: float, figure: Callable[[Result, float], float]
    ) -> tuple[dict[str, list[float]], bool]:
        """For each system, ``figure(result, seconds of CPU)`` of each round; and whether all answers were right."""
        figures: dict[str, list[float]] = {name: [] for name in self.folders}
        right, generator = True, Generator()
        try:
            for number in range(self.rounds):
                for name in list(self.folders)[:: -1 if number % 2 else 1]:
                    with running(self.folders[name], count) as system:
                        before = system.cpu()
                        result = system.send(generator, count, rate)
                        figures[name].append(figure(result, system.cpu() - before))
                        right &= bool((result.status == 200).all()) and system.balanced(count)
        finally:
            generator.close()
        return figures, right

    def row(self, what: str, unit: str, figures: dict[str, list[float]], good: bool, less: bool) -> measure.Row:
        """NEW beside its peers."""
        found = {name: measure.median(values) for name, values in figures.items()}
        value, target = found.pop(NEW), CPU_RATIO if less else RATE_RATIO
        return measure.compared(what, value, unit, found, against=OLD, target=target, less=less, equal=good)

    def cpu(self) -> list[measure.Row]:
        """CPU a checkout, in a closed loop."""
        figures, good = self.rounds_of(self.count, 0.0, lambda result, cpu: 1e6 * cpu / len(result.status))
        return [self.row(f"CPU a checkout, {CLIENTS} clients", "us", figures, good, less=True)]

    def rate(self) -> list[measure.Row]:
        """Checkouts a second, from the first due time to the last answer."""

        def figure(result: Result, cpu: float) -> float:
            return len(result.status) / (int(result.done.max() - result.due[0]) / 1e9)

        figures, good = self.rounds_of(self.count, OVERLOAD, figure)
        return [self.row(f"rate, {OVERLOAD:,}/s offered", "checkouts/s", figures, good, less=False)]

    def steady(self) -> list[measure.Row]:
        """The 99th percentile at STEADY."""
        with load.Server() as server:
            generator = Generator()
            try:
                empty = System({"order": f"http://127.0.0.1:{server.port}"}, [])
                sent = empty.send(generator, self.count, STEADY)
            finally:
                generator.close()
        late = float(np.percentile((sent.sent - sent.due) / 1e6, 99))
        figures, good = self.rounds_of(
            self.count, STEADY, lambda result, cpu: float(np.percentile((result.done - result.due) / 1e6, 99))
        )
        found: dict[str, float | None] = {name: measure.median(values) for name, values in figures.items()}
        value, goal = found.pop(NEW), "the goal" if late <= LATE_MS else None
        peers = {**found, "the goal": P99_MS, "lateness of the generator": late}
        return [
            measure.compared(
                f"p99 at {STEADY:,}/s", value, "ms", peers, against=goal, target=1.0, less=True, equal=good
            )
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is wanted. Returns the exit status."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    if sys.platform != "linux":
        print(
            "bench/checkouts.py: the systems and the grader's generator run on Linux; they need epoll", file=sys.stderr
        )
        return 1
    wanted = [row for row in ROWS if row in (chosen.only or ROWS)]
    progress = measure.Progress([(row, 1.0) for row in wanted])
    rows: list[measure.Row] = []
    with tempfile.TemporaryDirectory(prefix="checkouts-") as scratch:
        entities = Path(scratch, "entities")
        export(ROOT / "labs" / "checkout" / "entities" / "shop.py", entities)
        bench = Bench(chosen.quick, entities)
        for number, row in enumerate(wanted):
            progress.at(number, 0.0)
            rows += getattr(bench, row)()
    progress.clear()
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
