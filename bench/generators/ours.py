"""The grader's generator against a port, in bursts of a whole block of orders, as the grader sends them; and its audit.

python bench/generators/ours.py N      audits N checkouts in this process, and prints JSON: seconds, mib
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from dataclasses import dataclass  # noqa: E402

import numpy as np  # noqa: E402

from grader.audit import View, clean, outcomes  # noqa: E402
from grader.orders import BLOCK, Blocks  # noqa: E402
from grader.orders.blocks import COLD_PRICE, CREDIT, HOT_ITEMS, STOCK  # noqa: E402
from grader.terms import State  # noqa: E402
from grader.wire.client import Generator  # noqa: E402
from grader.wire.jobs import Job, Shape, Target  # noqa: E402

_LEAD = 0.3
"""Seconds before the first request, so that the job has reached the child."""


@dataclass(frozen=True)
class Sent:
    """One job's figures; times in milliseconds, counted from when a request was due."""

    requests: int
    answered: int
    """With 200."""
    seconds: float
    """From the first due time to the last answer."""
    cpu: float
    """Seconds of CPU that the generator took."""
    late_p99: float
    """How long after it was due a request was sent."""
    p99: float

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a request."""
        return 1e6 * self.cpu / self.requests


def send(generator: Generator, port: int, rate: float, seconds: float) -> Sent:
    """An open loop: so many checkouts a second, for so long."""
    count = int(rate * seconds)
    due = (np.arange(count, dtype=np.int64) // BLOCK * (BLOCK * 1e9 / rate)).astype(np.int64)
    shape = Shape(
        0,
        b"POST /orders/checkout/",
        f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n".encode(),
    )
    none, middles = np.zeros(count, dtype=np.int64), [b"abcdef%08d" % number for number in range(count)]
    start = time.monotonic_ns() + int(_LEAD * 1e9)
    job = Job([Target("127.0.0.1", port)], [shape], none, middles, due, start=start)
    result = generator.run(job)
    at = due + start
    went, back = result.sent > 0, result.status == 200
    late, waited = (result.sent - at)[went] / 1e6, (result.done - at)[back] / 1e6
    return Sent(
        count,
        int(back.sum()),
        float(result.done.max() - at[0]) / 1e9,
        result.cpu,
        *(float(np.percentile(times, 99)) for times in (late, waited)),
    )


def million(count: int) -> tuple[View, np.ndarray, np.ndarray]:
    """Whole blocks of at least so many orders, all done and paid; and their checkouts, as subject and status."""
    few = Blocks.draw([1], 0, 1000)
    times = -(-count // len(few))

    def tiled(column: np.ndarray, step: int) -> np.ndarray:
        return np.concatenate([column + step * number for number in range(times)])

    side = int(few.user.max()) + 1
    blocks = Blocks(
        tiled(few.user, side), tiled(few.item, side),
        *(np.tile(column, times) for column in (few.slot, few.cold, few.hot_item, few.hot)),
    )  # fmt: skip
    orders, users, cold = len(blocks), side * times, side * times
    items = cold + HOT_ITEMS
    credit, stock = np.full(users, CREDIT), np.full(items, STOCK)
    stock[cold:] = 10**9
    price = np.full(items, 1)
    price[:cold] = COLD_PRICE
    line_item = np.concatenate([blocks.item, cold + blocks.hot_item])
    quantity = np.concatenate([blocks.cold, blocks.hot])
    spent = np.bincount(blocks.user, blocks.cost, users).astype(np.int64)
    taken = np.bincount(line_item, quantity, items).astype(np.int64)

    def yes(size: int) -> np.ndarray:
        return np.ones(size, dtype=np.bool_)

    def read(size: int) -> np.ndarray:
        return np.full(size, State.READ)

    subject, status = np.arange(orders), np.full(orders, 200, dtype=np.int16)
    view = View(
        outcomes(orders, subject, status), yes(orders), read(orders), np.ones(orders, dtype=np.int64), blocks.cost,
        blocks.user, blocks.slot, np.tile(np.arange(orders), 2), line_item, quantity,
        yes(users), read(users), credit - spent, credit, yes(items), read(items), stock - taken, stock, price,
    )  # fmt: skip
    return view, subject, status


def main() -> None:
    """Time one audit: folding the attempts, and the rule."""
    view, subject, status = million(int(sys.argv[1]))
    began = time.perf_counter()
    outcomes(len(view.paid), subject, status)
    good = clean(view)
    seconds = time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"orders": len(view.paid), "seconds": seconds, "mib": most, "clean": good}))


if __name__ == "__main__":
    main()
