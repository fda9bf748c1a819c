"""labs/checkout/fast less one idea at a time: CPU and rate without each, in turn with the whole.

    python bench/without.py [--quick] [--only IDEA] [--json FILE]

A variant is the whole with a few texts replaced; each must occur exactly once. Its answers must still be right: every
request is answered 200, and the credit and the stock that are left have paid for exactly what was bought. What changes
is what a request costs.

    its own wire   each request is parsed and answered by Python's http.server, on the same sockets
    epochs         each order is an epoch of its own, which begins at once
    turns          a turn of the loop handles one socket. Measured with both kinds of requests
    positions      messages name the orders; votes and fates are objects
    group commit   each record has its own sync. Measured with requests that add a line to an order, as the checkouts
                   of an epoch have one record anyway

The whole and its variants take turns, every other round in reverse order. A value is the median of five rounds, and a
ratio is the median of the ratios within a round. CPU is that of all processes of a system, with 256 clients in closed
loops. The rate is what is reached when 100,000 a second are offered.

``python bench/all.py --only 19`` keeps the rows as bench/records/19.json: {"what", "value", "unit", "idea", "requests",
"cpu_us", "rate", "cpu_ratio", "rate_ratio", "diff"}. The first row is the whole. Ratios are to the whole
with the same requests: above 1 for more CPU, below 1 for a lower rate.
"""

from __future__ import annotations

import difflib
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import checkouts, measure  # noqa: E402
from grader.wire.client import Generator  # noqa: E402

FAST = checkouts.ROOT / "labs" / "checkout" / "fast"
WHOLE = "none"
CHECKOUT, ADD_ITEM = "checkout", "addItem"
OFFERED = 100_000
"""Requests a second at overload: more than the whole can answer."""
PATHS = {CHECKOUT: ("/checkout/", ""), ADD_ITEM: ("/addItem/", "/0/1")}
"""What stands before and after the order's number in the path of a request. A line is one unit of item 0."""


@dataclass(frozen=True)
class Change:
    """A text of a file, and what stands there instead."""

    file: str
    right: str
    instead: str


@dataclass(frozen=True)
class Idea:
    """An idea of the system, and the changes that take it away."""

    name: str
    changes: tuple[Change, ...]
    requests: str = CHECKOUT
    slower: int = 1
    """It gets so many times fewer requests than the whole: it is that slow."""

    def plant(self, folder: Path) -> Path:
        """Copy the system without the idea into a new folder. Raises ValueError unless each text occurs once."""
        shutil.copytree(FAST, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for change in self.changes:
            source = folder / change.file
            text = source.read_text(encoding="utf-8")
            if text.count(change.right) != 1:
                raise ValueError(f"without {self.name}: {change.file} must contain {change.right!r} exactly once")
            source.write_text(text.replace(change.right, change.instead), encoding="utf-8")
        return folder

    def diff(self) -> str:
        """The changes as a unified diff, without lines of context."""
        with tempfile.TemporaryDirectory() as scratch:
            planted, lines = self.plant(Path(scratch, "fast")), list[str]()
            for name in dict.fromkeys(change.file for change in self.changes):
                before, after = ((at / name).read_text(encoding="utf-8").splitlines(True) for at in (FAST, planted))
                lines += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=0)
        return "".join(lines)


STANDARD = """class Standard(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, head):
        self.rfile, self.wfile, self.client_address = io.BytesIO(head), io.BytesIO(), ("", 0)
        self.raw_requestline = self.rfile.readline()
        self.parse_request()

    def log_request(self, *_):
        pass

    def answer(self, raw):
        head, _, body = raw.partition(b"\\r\\n\\r\\n")
        self.send_response(int(head[9:12]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return self.wfile.getvalue() + body


class Client(Wire):"""
"""A request as Python's http.server reads and answers it, on the same sockets and in the same loop."""
ONE_SOCKET = (Change("loop.py", "self._poll.poll(wait, 1024)", "self._poll.poll(wait, 1)"),)
IDEAS = [
    Idea(
        "its own wire",
        (
            Change("wire.py", "import json\nimport re\n", "import io\nimport json\nimport re\n"),
            Change("wire.py", "import socket\n", "import socket\nfrom http.server import BaseHTTPRequestHandler\n"),
            Change("wire.py", "class Client(Wire):", STANDARD),
            Change(
                "wire.py",
                "            size, last = self._fields.get(fields) or self.parse(fields)\n",
                '            self.request = Standard(head + b"\\r\\n\\r\\n")\n'
                '            size = int(self.request.headers["Content-Length"] or 0)\n'
                "            last = self.request.close_connection\n",
            ),
            Change(
                "wire.py",
                "        self.busy = False\n        self.write(raw)\n",
                "        self.busy = False\n        self.write(self.request.answer(raw))\n",
            ),
        ),
        slower=4,
    ),
    Idea(
        "epochs",
        (
            Change("coordinator.py", "GATHER, RETRY = 0.002, 0.02", "GATHER, RETRY = 0, 0.02"),
            Change(
                "coordinator.py",
                "orders, self.gathered, self.planned = self.gathered, [], False",
                "orders, self.gathered, self.planned = self.gathered[:1], self.gathered[1:], False",
            ),
        ),
        slower=40,
    ),
    Idea("turns", ONE_SOCKET),
    Idea("turns", ONE_SOCKET, ADD_ITEM, slower=8),
    Idea(
        "positions",
        (
            Change(
                "coordinator.py",
                "list(zip(*map(self.shop.wants, orders), strict=True)) or [(), ()]",
                "[{order: self.shop.wants(order)[ledger] for order in orders} for ledger in LEDGERS]",
            ),
            Change("coordinator.py", '"0" * len(votes)', "dict.fromkeys(votes, False)"),
            Change(
                "coordinator.py",
                '"".join(map(min, *epoch.votes))  # 1 if both are 1',
                "{order: all(votes[order] for votes in epoch.votes) for order in epoch.orders}",
            ),
            Change("coordinator.py", "for order, digit in zip(epoch.orders, fate, strict=True):", "for order in fate:"),
            Change(
                "coordinator.py", '(paid if digit == "1" else self.refused)', "(paid if fate[order] else self.refused)"
            ),
            Change("ledger.py", 'self.undecided = 0, [], ""', "self.undecided = 0, {}, {}"),
            Change(
                "ledger.py",
                "for want, vote, paid in zip(previous, votes, fate, strict=True):",
                "for order, want in previous.items():",
            ),
            Change("ledger.py", 'if vote == "1" and paid == "0":', "if votes[order] and not fate[order]:"),
            Change(
                "ledger.py",
                '"".join(["1" if self.take(want) else "0" for want in wants])',
                "{order: self.take(want) for order, want in wants.items()}",
            ),
        ),
    ),
    Idea(
        "group commit",
        (
            Change(
                "journal.py",
                "        self._lines.append(line)\n        self.then(then)\n",
                "        self._lines.append(line)\n        self.then(then)\n        self.flush()\n",
            ),
        ),
        ADD_ITEM,
        slower=8,
    ),
]


@dataclass(frozen=True)
class Cost:
    """What a request costs."""

    cpu_us: float
    rate: float


def measured(folder: Path, requests: str, count: int, generator: Generator) -> tuple[Cost, bool]:
    """Send ``count`` requests in closed loops and as many at overload. Also returns whether all answers were right."""
    with checkouts.running(folder, 2 * count) as system:
        before = system.cpu()
        closed = system.send(generator, count, path=PATHS[requests])
        cost = checkouts.cpu_us(closed, system.cpu() - before)
        flood = system.send(generator, count, OFFERED, first=count, path=PATHS[requests])
        sent = [closed, flood]
        if requests == ADD_ITEM:  # the lines that were added are paid for, too
            sent.append(system.send(generator, 2 * count))
        right = all((each.status == 200).all() for each in sent) and system.balanced(len(sent[1:]) * 2 * count)
        return Cost(cost, checkouts.per_second(flood, 0.0)), right


Row = dict[str, Any]


def row(idea: str, requests: str, costs: list[Cost], whole: list[Cost], diff: str) -> Row:
    """A row of the record. A ratio is the median of the ratios within a round."""
    pairs = list(zip(costs, whole, strict=True))
    rate = round(statistics.median(one.rate for one in costs))
    return {
        "what": f"without {idea}, {requests}",
        "value": rate,
        "unit": "requests/s",
        "idea": idea,
        "requests": requests,
        "cpu_us": round(statistics.median(one.cpu_us for one in costs), 1),
        "rate": rate,
        "cpu_ratio": round(statistics.median(one.cpu_us / all_.cpu_us for one, all_ in pairs), 3),
        "rate_ratio": round(statistics.median(one.rate / all_.rate for one, all_ in pairs), 4),
        "diff": diff,
    }


def table(rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown."""
    lines = ["| without | requests | CPU a request | times the whole's | requests/s | of the whole's |"]
    lines.append("|---|---|---|---|---|---|")
    for each in rows:
        cells = [each["idea"], each["requests"], f"{each['cpu_us']:.1f} us", f"{each['cpu_ratio']:.2f}"]
        lines.append("| " + " | ".join([*cells, f"{each['rate']:,}", f"{each['rate_ratio']:.1%}"]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is wanted. Returns the exit status."""
    chosen = measure.options(__doc__ or "", list(dict.fromkeys(idea.name for idea in IDEAS)), arguments)
    if sys.platform != "linux":
        print("bench/without.py: the system and the grader's generator run on Linux; they need epoll", file=sys.stderr)
        return 1
    ideas = [idea for idea in IDEAS if idea.name in (chosen.only or [idea.name])]
    rounds, count = (1, 3_000) if chosen.quick else (5, 40_000)
    whole = dict.fromkeys(idea.requests for idea in [IDEAS[0], *ideas])
    sides = [*((None, requests) for requests in whole), *((idea, idea.requests) for idea in ideas)]
    costs: list[list[Cost]] = [[] for _ in sides]
    progress, wrong = measure.Progress([(f"round {number + 1}", 1.0) for number in range(rounds)]), list[str]()
    generator = Generator()
    try:
        for number in range(rounds):
            for at in range(len(sides))[:: -1 if number % 2 else 1]:
                progress.at(number, len(costs[at]) / rounds)
                idea, requests = sides[at]
                with tempfile.TemporaryDirectory(prefix="without-") as scratch:
                    folder = idea.plant(Path(scratch, "fast")) if idea else FAST
                    cost, right = measured(folder, requests, count // (idea.slower if idea else 1), generator)
                costs[at].append(cost)
                wrong += [] if right else [f"{idea.name if idea else WHOLE}, {requests}"]
    finally:
        generator.close()
    progress.clear()
    wholes = {requests: found for (idea, requests), found in zip(sides, costs, strict=True) if idea is None}
    rows = [row(WHOLE, CHECKOUT, wholes[CHECKOUT], wholes[CHECKOUT], "")]
    for (idea, requests), found in zip(sides, costs, strict=True):
        if idea:
            rows.append(row(idea.name, requests, found, wholes[requests], idea.diff()))
    print(table(rows))
    if wrong:
        print("\n    ".join(["WRONG ANSWERS:", *dict.fromkeys(wrong)]))
        return 1
    if chosen.json is not None:
        told = measure.document([], checkouts.PACKAGES) | {"rows": rows}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    measure.command(main)
