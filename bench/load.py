"""The grader's load generator beside Locust's FastHttpUser, hey and wrk; and its audit of a million checkouts.

Rows:
    rate     requests a second that one core of generator reaches, and CPU a request
    freeze   the 99th percentile that each tells when the server is frozen for a while
    steady   10,000 requests a second: CPU, and how late they are sent
    top      40,000 a second offered
    audit    a million checkouts: seconds and memory

bench/README.md says how each is run, and what the ratios are of.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import child, measure  # noqa: E402
from bench.generators import ours, tools  # noqa: E402
from bench.generators.env import LOCUST  # noqa: E402
from grader.wire.client import Generator  # noqa: E402
from sharedstate_lite.errors import Error  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402

ROWS = ["rate", "freeze", "steady", "top", "audit"]
PACKAGES = ["numpy"]
FOLDER = Path(__file__).with_name("generators")
FROZEN, FREEZE_RATE, FREEZE_USERS, FREEZE_AFTER = 1.5, 1_000, 25, 3.0
"""Seconds that the server is frozen; requests a second offered meanwhile; by so many users; seconds before it."""
STEADY, TOP, MOST, USERS = 10_000, 40_000, 60_000, 64
CORE, LATE_MS, AUDIT_S, AUDIT_MIB = 0.2, 1.5, 0.5, 1024
"""What is asked: of a core at STEADY, of lateness there, of the audit."""


@contextlib.contextmanager
def on_core(number: int) -> Iterator[None]:
    """What is started meanwhile runs on one core, where the machine has several and lets us choose."""
    before = os.sched_getaffinity(0)
    if len(before) > 1:
        os.sched_setaffinity(0, {sorted(before)[number]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Server:
    """The server's process, on a core of its own, which can be frozen. A context manager."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", str(FOLDER / "server.py")]
        pipe = subprocess.PIPE
        with on_core(-1):
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *why: object) -> None:
        child.end(self._process)

    def freeze(self, seconds: float, ended: threading.Event) -> None:
        """Stop it for so long; ``ended`` ends that early."""
        os.kill(self._process.pid, signal.SIGSTOP)
        ended.wait(seconds)
        os.kill(self._process.pid, signal.SIGCONT)


@contextlib.contextmanager
def frozen(server: Server, after: float) -> Iterator[None]:
    """Meanwhile the server is frozen once, so many seconds from now."""
    ended = threading.Event()

    def work() -> None:
        if not ended.wait(after):
            server.freeze(FROZEN, ended)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def locust(port: int, users: int, rate: float, seconds: float, begun: Callable[[], object]) -> tools.Told:
    """Locust in its environment; ``begun`` is called when it measures. Raises child.Failed."""
    said: list[str] = []

    def hear(line: str) -> None:
        if line == "begun":
            begun()
        else:
            said.append(line)

    words: list[str | Path] = [LOCUST.python, FOLDER / "swarm.py", str(port), str(users), f"{rate:g}", f"{seconds:g}"]
    child.run(words, cache_dir("logs") / "locust.log", hear)
    told: dict[str, Any] = json.loads(said[-1])
    rate_reached = told["requests"] / told["seconds"]
    return tools.Told(told["requests"], rate_reached, told["p99_ms"], told["cpu"], told["failures"])


class Bench:
    """The peers that are there, and each row's measurement."""

    def __init__(self, quick: bool) -> None:
        self.seconds = 4.0 if quick else 10.0
        self.long = 5.0 if quick else 60.0
        self.orders = 100_000 if quick else 1_000_000
        self.absent = LOCUST.missing()
        if self.absent and not quick:
            try:
                LOCUST.make(lambda words: print(words, file=sys.stderr, flush=True))
                self.absent = None
            except Error as error:
                self.absent = str(error)
        self.tools = [name for name in tools.TOOLS if tools.there(name)]

    def names(self) -> dict[str, str]:
        """Each peer as a row names it: an absent one says why."""
        found = {"locust": f"Locust ({self.absent})" if self.absent else "Locust's FastHttpUser"}
        return found | {name: name if name in self.tools else f"{name} (not installed)" for name in tools.TOOLS}

    def peers(
        self, server: Server, users: int, rate: float, seconds: float, freeze: bool
    ) -> dict[str, tools.Told | None]:
        """What every peer tells of one run; None where it is absent, or cannot keep a rate that is asked for."""
        told: dict[str, tools.Told | None] = {}
        with contextlib.ExitStack() as ends, on_core(0):
            begin = lambda: ends.enter_context(frozen(server, FREEZE_AFTER)) if freeze else None  # noqa: E731
            told["locust"] = None if self.absent else locust(server.port, users, rate, seconds, begin)
        for name in tools.TOOLS:
            with frozen(server, FREEZE_AFTER) if freeze else contextlib.nullcontext(), on_core(0):
                able = name in self.tools and not (rate and name == "wrk")
                url = f"http://127.0.0.1:{server.port}/orders/checkout/abcdef00000000"
                told[name] = tools.run(name, url, users, rate, seconds) if able else None
        return told

    def ours(
        self, server: Server, rate: float, seconds: float, freeze: bool = False, pinned: bool = False
    ) -> ours.Sent:
        """One job of our generator's."""
        with on_core(0) if pinned else contextlib.nullcontext():
            generator = Generator()
        try:
            ours.send(generator, server.port, rate, 0.5)  # connections are there, and caches warm
            with frozen(server, FREEZE_AFTER) if freeze else contextlib.nullcontext():
                return ours.send(generator, server.port, rate, seconds)
        finally:
            generator.close()

    def rate(self, server: Server) -> list[measure.Row]:
        """Requests a second, and CPU a request."""
        mine, names = self.ours(server, MOST, 3.0, pinned=True), self.names()
        told = self.peers(server, USERS, 0, self.seconds, False)
        good = mine.answered == mine.requests and not any(one.failures for one in told.values() if one)
        rates = {names[key]: one.per_second if one else None for key, one in told.items()}
        costs = {names[key]: one.cpu_us if one else None for key, one in told.items()}
        reached = mine.answered / mine.seconds
        first = names["locust"]
        return [
            measure.compared("rate reached on one core", reached, "requests/s", rates, against=first, equal=good),
            measure.compared(
                "CPU a request", mine.cpu_us, "us", costs, against=first, target=3.0, less=True, equal=good
            ),
        ]

    def freeze(self, server: Server) -> list[measure.Row]:
        """What each tells of a frozen server. A tenth of a second's requests or more met it, whoever asked."""
        seconds = max(self.seconds, FREEZE_AFTER + FROZEN + 3.0)
        mine = self.ours(server, FREEZE_RATE, seconds, freeze=True)
        told = self.peers(server, FREEZE_USERS, FREEZE_RATE / FREEZE_USERS, seconds, True)
        names = self.names()
        peers = {names[key]: one.p99_ms if one else None for key, one in told.items()}
        what = f"p99 as told, the server frozen for {FROZEN} of {seconds:g} s"
        good = mine.answered == mine.requests
        return [measure.compared(what, mine.p99, "ms", peers, against=names["locust"], equal=good)]

    def steady(self, server: Server) -> list[measure.Row]:
        """10,000 a second."""
        mine = self.ours(server, STEADY, self.long)
        good = mine.answered == mine.requests
        what, core = f"{STEADY:,}/s for {self.long:g} s", "a fifth of a core"
        late, cores = {f"{LATE_MS} ms": LATE_MS}, mine.cpu / self.long
        return [
            measure.compared(
                f"{what}: CPU", cores, "cores", {core: CORE}, against=core, target=1, less=True, equal=good
            ),
            measure.compared(
                f"{what}: p99 send lateness", mine.late_p99, "ms", late, against=f"{LATE_MS} ms", target=1, less=True
            ),
        ]

    def top(self, server: Server) -> list[measure.Row]:
        """40,000 a second."""
        mine, peers = self.ours(server, TOP, 3.0), {"a whole core": 1.0}
        good, what = mine.answered == mine.requests, f"{TOP:,}/s for 3 s"
        return [
            measure.compared(
                f"{what}: CPU", mine.cpu / 3.0, "cores", peers, against="a whole core", target=1, less=True, equal=good
            ),
            measure.compared(f"{what}: p99 send lateness", mine.late_p99, "ms", {}),
        ]

    def audit(self, server: Server) -> list[measure.Row]:
        """The best of three processes: memory and time of one audit each."""
        runs = []
        for _ in range(3):
            words = [sys.executable, str(FOLDER / "ours.py"), str(self.orders)]
            runs.append(json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))
        seconds, mib = (measure.median([run[what] for run in runs]) for what in ("seconds", "mib"))
        what, good = f"audit of {runs[0]['orders']:,} checkouts", all(run["clean"] for run in runs)
        time_, room = {"half a second": AUDIT_S}, {"1 GiB": AUDIT_MIB}
        return [
            measure.compared(what, seconds, "s", time_, against="half a second", target=1, less=True, equal=good),
            measure.compared(f"{what}: memory", mib, "MiB", room, against="1 GiB", target=1, less=True),
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is wanted. Returns the exit status."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    if sys.platform != "linux":
        print("bench/load.py: the grader's generator runs on Linux; it needs epoll", file=sys.stderr)
        return 1
    bench, wanted = Bench(chosen.quick), [row for row in ROWS if row in (chosen.only or ROWS)]
    weights = {"rate": 4 + 3 * bench.seconds, "freeze": 30, "steady": bench.long + 1, "top": 4, "audit": 6}
    progress = measure.Progress([(row, weights[row]) for row in wanted])
    rows: list[measure.Row] = []
    began = time.monotonic()
    with Server() as server:
        for number, row in enumerate(wanted):
            progress.at(number, 0.0)
            rows += getattr(bench, row)(server)
    progress.clear()
    print(f"measured in {measure.span(time.monotonic() - began)}", file=sys.stderr)
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
