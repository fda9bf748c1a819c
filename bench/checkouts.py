"""Checkout systems beside each other: labs/checkout/fast, and the exported program of labs/checkout/entities.

Rows:
    cpu      microseconds of CPU for a checkout, of all processes of a system together, with 256 clients that each send
             the next checkout when the last one is answered
    rate     checkouts a second when 40,000 a second are offered for as long as it takes to send them
    steady   the 99th percentile at 10,000 a second, and of `fast` at 40,000 too, from the time at which a checkout was
             due; beside it how late the generator sends to a server that answers at once. Where that is more than
             25 ms, the row has no ratio

The systems take turns, every other round in reverse order. A value is the median over the rounds. Each round starts the
processes of a system on empty folders, without a sandbox, on this machine and over loopback; there is no replica.
The grader's generator sends the checkouts. An order has one line. Answers are equal if every checkout of every round
was answered 200, and the credit and the stock that are read back afterwards have paid for exactly these.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import statistics
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
from grader.sandbox.programs import search_path  # noqa: E402
from grader.submission import read_submission  # noqa: E402
from grader.submission.places import Places  # noqa: E402
from grader.wire.client import Generator  # noqa: E402
from grader.wire.jobs import Job, Result, Shape, Target  # noqa: E402
from sharedstate_lite.entities.export import export  # noqa: E402

ROWS = ["cpu", "rate", "steady"]
PACKAGES = ["numpy"]
ROOT = Path(__file__).resolve().parents[1]
FAST, ENTITIES = "fast", "entities"
CLIENTS, OVERLOAD = 256, 40_000
STEADY = [(10_000, [FAST, ENTITIES]), (40_000, [FAST])]
"""Rates, and the systems that are asked to keep them."""
P99_MS, LATE_MS = 50.0, 25.0
"""What is asked of them, and of the generator."""
USERS, ITEMS, PRICE, ENOUGH = 997, 499, 3, 10**9
READY = 30.0
"""Seconds for a process to accept connections."""


@dataclass(frozen=True)
class System:
    """A running system."""

    urls: dict[str, str]
    pids: list[int]
    data: Path = Path()
    """A folder with the data of each process."""

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

    def send(
        self,
        generator: Generator,
        count: int,
        rate: float = 0.0,
        first: int = 0,
        path: tuple[str, str] = ("/checkout/", ""),
    ) -> Result:
        """Check out ``count`` orders: at a rate, in bursts of a block, or by CLIENTS in closed loops.

        ``first`` is the number of the first order. ``path`` is what stands before and after the number in the path.
        """
        parts = urlsplit(self.urls["order"])
        host, port = str(parts.hostname), int(parts.port or 80)
        end = f"{path[1]} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n".encode()
        shape = Shape(0, f"POST {parts.path}{path[0]}".encode(), end)
        number = np.arange(count, dtype=np.int64)
        due = (number // BLOCK * (BLOCK * 1e9 / rate)).astype(np.int64) if rate else number * 0
        start, connections = time.monotonic_ns() + 300_000_000, 1024 if rate else CLIENTS
        middles = [b"%d" % each for each in number + first]
        limit = 120_000_000_000  # an overloaded system answers late, and a checkout that is not sent is not counted
        job = Job(
            [Target(host, port)], [shape], number * 0, middles, due, start, connections, timeout=limit, patience=limit
        )
        result = generator.run(job)
        result.due = due + start
        return result

    def create(self, orders: int) -> None:
        """Create users, items and orders."""
        self.ask("payment", f"/batch_init/{USERS}/{ENOUGH}", "POST")
        self.ask("stock", f"/batch_init/{ITEMS}/{ENOUGH}/{PRICE}", "POST")
        self.ask("order", f"/batch_init/{orders}/{ITEMS}/{USERS}/{PRICE}", "POST")

    def balanced(self, units: int) -> bool:
        """Whether all stock and all credit together have paid for exactly so many units."""
        for service, path, field, most, each in (
            ("payment", "/find_user/", "credit", USERS, PRICE),
            ("stock", "/find/", "stock", ITEMS, 1),
        ):
            spent = sum(ENOUGH - self.ask(service, f"{path}{name}")[field] for name in range(most))
            if spent != units * each:
                return False
        return True


@contextlib.contextmanager
def started(
    folder: Path, wrapped: Callable[[str, list[str]], list[str]] = lambda _, words: words
) -> Iterator[tuple[System, dict[str, int]]]:
    """Start a submission's processes on empty folders. Yields it, and the ports by process; in the end, kill them.

    ``wrapped`` gets the name and the words of each process, and returns the words to start.
    """
    submission = read_submission(folder)
    with contextlib.ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="checkouts-")))
        scratch.chmod(0o755)
        held = [ends.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in submission.processes]
        ports = {each.name: one.getsockname()[1] for each, one in zip(submission.processes, held, strict=True)}
        for one in held:
            one.close()
        places = Places(ports, lambda name: str(scratch / name), str(folder))
        pids = []
        for each in submission.processes:
            (scratch / each.name).mkdir()
            env = {**os.environ, **{name: places.fill(text, each.name) for name, text in each.env.items()}}
            user = "nobody" if "database.sh" in each.command and os.geteuid() == 0 else None  # as PostgreSQL demands
            if user:
                shutil.chown(scratch / each.name, user)
            process = subprocess.Popen(
                wrapped(each.name, [places.fill(word, each.name) for word in each.command]),
                cwd=folder / each.cwd,
                env={**env, "PATH": search_path(), "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                user=user,
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
                    time.sleep(0.02)  # the condition is an open port, which only a new attempt can see
        yield System({service: places.fill(url) for service, url in submission.urls.items()}, pids, scratch), ports


@contextlib.contextmanager
def running(folder: Path, orders: int) -> Iterator[System]:
    """Start a submission, and create users, items and orders."""
    with started(folder) as (system, _):
        system.create(orders)
        yield system


class Bench:
    """The systems, and each row's measurement."""

    def __init__(self, quick: bool, entities: Path) -> None:
        self.rounds, self.count, self.seconds = (2, 6_000, 0.6) if quick else (5, 30_000, 3.0)
        self.folders = {FAST: ROOT / "labs" / "checkout" / "fast", ENTITIES: entities}

    def rounds_of(
        self, names: Sequence[str], count: int, rate: float, figure: Callable[[Result, float], float]
    ) -> tuple[dict[str, float], bool]:
        """For each system, the median of ``figure(result, seconds of CPU)``; and whether all answers were right."""
        figures: dict[str, list[float]] = {name: [] for name in names}
        right, generator = True, Generator()
        try:
            for number in range(self.rounds):
                for name in list(names)[:: -1 if number % 2 else 1]:
                    with running(self.folders[name], count) as system:
                        before = system.cpu()
                        result = system.send(generator, count, rate)
                        figures[name].append(figure(result, system.cpu() - before))
                        right &= bool((result.status == 200).all()) and system.balanced(count)
        finally:
            generator.close()
        return {name: statistics.median(values) for name, values in figures.items()}, right

    def cpu(self) -> list[measure.Row]:
        """CPU a checkout, in a closed loop."""
        found, good = self.rounds_of([*self.folders], self.count, 0.0, cpu_us)
        what, value = f"fast: CPU a checkout, {CLIENTS} clients", found.pop(FAST)
        return [measure.compared(what, value, "us", found, against=ENTITIES, less=True, equal=good)]

    def rate(self) -> list[measure.Row]:
        """Checkouts a second, from the first due time to the last answer."""
        found, good = self.rounds_of([*self.folders], self.count, OVERLOAD, per_second)
        what, value = f"fast: rate, {OVERLOAD:,}/s offered", found.pop(FAST)
        return [measure.compared(what, value, "checkouts/s", found, against=ENTITIES, equal=good)]

    def steady(self) -> list[measure.Row]:
        """The 99th percentile at each rate of STEADY."""
        rows = []
        for rate, names in STEADY:
            count = int(self.seconds * rate)
            late = statistics.median(lateness(count, rate) for _ in range(self.rounds))
            found, good = self.rounds_of(names, count, rate, p99_ms)
            goal = "the goal" if late <= LATE_MS else None
            peers = {"the goal": P99_MS, "lateness of the generator": late}
            for name, value in found.items():
                what = f"{name}: p99 at {rate:,}/s"
                rows.append(measure.compared(what, value, "ms", peers, against=goal, target=1.0, less=True, equal=good))
        return rows


def cpu_us(result: Result, cpu: float) -> float:
    """Microseconds of CPU a request."""
    return 1e6 * cpu / len(result.status)


def per_second(result: Result, cpu: float) -> float:
    """Requests a second, from the first due time to the last answer."""
    return len(result.status) / (int(result.done.max() - result.due[0]) / 1e9)


def p99_ms(result: Result, cpu: float) -> float:
    """The 99th percentile of the milliseconds from when a request was due to its answer."""
    return float(np.percentile((result.done - result.due) / 1e6, 99))


def lateness(count: int, rate: float) -> float:
    """How many milliseconds late the generator sends to a server that answers at once, as the 99th percentile."""
    with load.Server() as server:
        generator = Generator()
        try:
            sent = System({"order": f"http://127.0.0.1:{server.port}"}, []).send(generator, count, rate)
        finally:
            generator.close()
    return float(np.percentile((sent.sent - sent.due) / 1e6, 99))


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
