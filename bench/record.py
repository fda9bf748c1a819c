"""Makes the records that notebook 19 reads, in labs/checkout/records. bench/README.md describes them.

    python bench/record.py [--only graded|frozen|rates|epoch] [--out FOLDER]

`graded` runs the grader on a system that passes and on one that loses money and stock. The other parts send checkouts
that arrive at random times (a Poisson process), as those of clients that do not know of each other, and write a folder
of the same format, or JSON. Each system runs on this machine, over loopback, without a sandbox or a replica.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from bench import measure, traced  # noqa: E402
from bench.checkouts import System, running  # noqa: E402
from grader.record import Record, SentWave, load, save  # noqa: E402
from grader.report.as_json import as_json  # noqa: E402
from grader.terms import Kind  # noqa: E402
from grader.verdict import judge  # noqa: E402
from grader.wire.client import Generator  # noqa: E402
from grader.wire.jobs import Job, Result, Shape, Target  # noqa: E402
from sharedstate_lite.entities.export import export  # noqa: E402
from sharedstate_lite.postgres.server import Server  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LABS = ROOT / "labs" / "checkout"
PARTS = ["graded", "frozen", "rates", "epoch"]
PHASES = "duplicates,faults"
RATES = [125, 250, 500, 1_250, 2_500, 5_000, 10_000, 20_000]
SECONDS, FEWEST, WARM = 1.0, 500, 200
"""Of each rate, half of it from 10,000 a second; at least so many checkouts; and so many before the first rate."""
SLOW = 5_000
"""saga and one-database need not try more."""
ENDS_MS, LATE_MS = 1_000.0, 25.0
"""The rates of a system end at this p99. A rate is void if the generator itself is late by this much."""
FREEZE_RATE, FREEZE_SECONDS, FREEZE_AFTER, FROZEN, FREEZE_CLIENTS = 1_000, 10.0, 3.0, 1.5, 25
EPOCH_RATE, EPOCH_SECONDS = 2_500, 4.0
LEAD = 0.3
"""Seconds until the first checkout is due, so that the generator has them all."""

Longs = NDArray[np.int64]


def about(part: str) -> dict[str, Any]:
    """The command and the machine."""
    machine = {"cores": len(os.sched_getaffinity(0)), "processor": measure.processor(), "system": platform.platform()}
    return {"command": f"python bench/record.py --only {part}", "machine": machine}


def arrivals(count: int, rate: float, seed: int) -> Longs:
    """Due times in nanoseconds: independent arrivals, on average so many a second."""
    gaps = np.random.default_rng(seed).exponential(1e9 / rate, count)
    return np.cumsum(gaps).astype(np.int64)


def send(system: System, generator: Generator, orders: range, due: Longs, connections: int = 1024) -> Result:
    """Check out these orders when they are due; all times of the result are of time.monotonic_ns."""
    parts = urlsplit(system.urls["order"])
    end = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n".encode()
    shape = Shape(0, f"POST {parts.path}/checkout/".encode(), end)
    start = time.monotonic_ns() + int(LEAD * 1e9)
    target, none = Target(str(parts.hostname), int(parts.port or 80)), np.zeros(len(orders), dtype=np.int64)
    result = generator.run(Job([target], [shape], none, [b"%d" % order for order in orders], due, start, connections))
    result.due = due + start
    return result


def kept(record: Record, result: Result, orders: range, name: str, began: int) -> None:
    """Add a wave of checkouts to a record that began at this time."""
    answered = np.where(result.done > 0, result.done - began, 0)
    sent = np.where(result.sent > 0, result.sent - began, 0)
    record.history.append(
        wave=len(record.waves), kind=int(Kind.CHECKOUT), subject=np.arange(orders.start, orders.stop), attempt=1,
        due=result.due - began, sent=sent, done=answered, status=result.status, waited=result.waited,
    )  # fmt: skip
    record.waves.append(SentWave("speed", name, int(result.due[0] - began), len(orders)))


def packed(folder: Path) -> None:
    """Write the tables of a record again, in less space. Numbers that rise take two or three bytes each."""
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        whole = [field.name for field in table.schema if field.type == pa.int64()]
        others = [name for name in table.schema.names if name not in whole]
        rising = dict.fromkeys(whole, "DELTA_BINARY_PACKED")
        pq.write_table(
            table,
            path,
            compression="zstd",
            compression_level=19,
            use_dictionary=others,  # type: ignore[arg-type]
            column_encoding=rising,
        )


@contextlib.contextmanager
def generating() -> Iterator[Generator]:
    """A generator, for as long as it is needed."""
    generator = Generator()
    try:
        yield generator
    finally:
        generator.close()


def graded(out: Path, scratch: Path, ends: contextlib.ExitStack) -> None:
    """Grade a system that passes, and one that loses money and stock. Keep the records and report.json."""
    for name, submission in {"passes": LABS / "fast", "loses": LABS / "start"}.items():
        report = scratch / f"{name}-report"
        words = ["checkout", submission, "--quick", "--phases", PHASES, "--seed", "19", "--convergence", "5"]
        words += ["--report", report]
        done = subprocess.run([sys.executable, "-m", "grader", *map(str, words)], cwd=ROOT)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{name}: the grader ended with {done.returncode}; its output is above")
        shutil.rmtree(out / name, ignore_errors=True)
        shutil.copytree(report, out / name)
        tidied(out / name)


def tidied(folder: Path) -> None:
    """Keep the record and report.json of a report folder, in little space and with this command in place of paths."""
    for each in ("logs", "report.html", "results.json"):
        shutil.rmtree(folder / each) if (folder / each).is_dir() else (folder / each).unlink(missing_ok=True)
    run = json.loads((folder / "run.json").read_text())
    run["machine"] |= about("graded")["machine"]
    run["command"] = run["repeat"] = about("graded")["command"]
    (folder / "run.json").write_text(json.dumps(run, sort_keys=True) + "\n")
    packed(folder)
    record = load(folder)
    (folder / "report.json").write_text(as_json(record, judge(record)))


def frozen(out: Path, scratch: Path, ends: contextlib.ExitStack) -> None:
    """Send FREEZE_RATE checkouts a second over FREEZE_CLIENTS connections, and stop the order service for a while."""
    count = int(FREEZE_RATE * FREEZE_SECONDS)
    record = Record(about("frozen"))
    with running(LABS / "fast", count + WARM) as system, generating() as generator:
        send(system, generator, range(count, count + WARM), arrivals(WARM, FREEZE_RATE, 0))
        order = system.pids[-1]

        def freeze() -> None:
            time.sleep(LEAD + FREEZE_AFTER)  # the freeze is a fault at a time of the clock: it is what is recorded
            os.kill(order, signal.SIGSTOP)
            time.sleep(FROZEN)  # as above
            os.kill(order, signal.SIGCONT)

        thread = threading.Thread(target=freeze)
        thread.start()
        due = arrivals(count, FREEZE_RATE, 1)
        result = send(system, generator, range(count), due, FREEZE_CLIENTS)
        thread.join()
        kept(record, result, range(count), "frozen", int(result.due[0]))
    save(record, out / "frozen")
    packed(out / "frozen")


@dataclass(frozen=True)
class Step:
    """What one rate of one system came to. Times in milliseconds, from when a checkout was due."""

    system: str
    rate: int
    checkouts: int
    answered: int
    p50_ms: float
    p99_ms: float
    late_ms: float
    """The p99 of how late the generator sent, where a connection was free."""
    void: bool
    epochs: int | None = None
    """The epochs of `fast` that decided these checkouts, by the log of its order service."""


def stepped(name: str, rate: int, result: Result) -> Step:
    """Reduce the checkouts of one rate."""
    good, free = result.status == 200, (result.sent > 0) & (result.waited == 0)
    late = float(np.percentile((result.sent - result.due)[free], 99)) / 1e6
    waited = (result.done - result.due)[good] / 1e6
    p50, p99 = (float(np.percentile(waited, at)) for at in (50, 99)) if good.any() else (float("inf"),) * 2
    p50, p99, late = (round(each, 3) for each in (p50, p99, late))
    return Step(name, rate, len(good), int(good.sum()), p50, p99, late, late > LATE_MS)


def epochs_of(log: Path, orders: range) -> int:
    """How many epochs decided these orders."""
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    return sum(line[0] == "fate" and any(int(name) in orders for name in line[3]) for line in lines)


def one_database(folder: Path, ends: contextlib.ExitStack) -> None:
    """Copy labs/checkout/one-database, to run with a server of the kit, which root can start too."""
    durable = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on")
    server = ends.enter_context(Server(settings=durable))
    shutil.copytree(LABS / "one-database", folder)
    head, _database, shop = (folder / "checkout.toml").read_text().split("[[process]]\n")
    shop = re.sub('DSN = "[^"]*"', lambda _: f'DSN = "{server.dsn}"', shop)
    (folder / "checkout.toml").write_text(f"{head}[[process]]\n{shop}")


def rates(out: Path, scratch: Path, ends: contextlib.ExitStack) -> None:
    """Each system at rising rates. The checkouts of `fast` are kept."""
    export(LABS / "entities" / "shop.py", scratch / "entities")
    one_database(scratch / "one-database", ends)
    folders = {"saga": LABS / "saga", "one-database": scratch / "one-database"}
    folders |= {"fast": LABS / "fast", "entities": scratch / "entities"}
    record, rows = Record(about("rates")), []
    for name, folder in folders.items():
        wanted = [rate for rate in RATES if rate <= SLOW or name in ("fast", "entities")]
        parts = [max(FEWEST, int(rate * SECONDS / (1 if rate < 10_000 else 2))) for rate in wanted]
        with running(folder, sum(parts) + WARM) as system, generating() as generator:
            send(system, generator, range(sum(parts), sum(parts) + WARM), arrivals(WARM, 100, 0))
            first, began = 0, time.monotonic_ns()
            for number, (rate, count) in enumerate(zip(wanted, parts, strict=True)):
                orders = range(first, first + count)
                result = send(system, generator, orders, arrivals(count, rate, number))
                step = stepped(name, rate, result)
                if name == "fast":
                    kept(record, result, orders, f"{rate}", began)
                    step = replace(step, epochs=epochs_of(system.data / "order" / "log", orders))
                rows.append(vars(step))
                print(step, file=sys.stderr, flush=True)
                first += count
                if step.answered < count or step.p99_ms > ENDS_MS:
                    break
            units = 1 if name in ("fast", "entities") else 2  # of each order that batch_init makes
            if step.answered == count and not system.balanced(units * (first + WARM)):
                raise SystemExit(f"{name}: money and stock do not add up")
    save(record, out / "rates")
    packed(out / "rates")
    (out / "rates.json").write_text(json.dumps(about("rates") | {"rows": rows}, indent=1) + "\n")


def epoch(out: Path, scratch: Path, ends: contextlib.ExitStack) -> None:
    """When an epoch of `fast` reaches each of its steps: medians, in microseconds since its first checkout arrived."""
    folder = scratch / "traced"
    shutil.copytree(LABS / "fast", folder)
    toml = (folder / "checkout.toml").read_text()
    tracer = Path(traced.__file__).as_posix()
    for script in ("ledger.py", "order.py"):
        toml = toml.replace(f'"python3", "{script}"', f'"python3", "{tracer}", "{{data}}/steps", "{script}"')
    (folder / "checkout.toml").write_text(toml)
    count = int(EPOCH_RATE * EPOCH_SECONDS)
    with running(folder, count + WARM) as system, generating() as generator:
        send(system, generator, range(count, count + WARM), arrivals(WARM, EPOCH_RATE, 0))
        result = send(system, generator, range(count), arrivals(count, EPOCH_RATE, 1))
        step = stepped("fast", EPOCH_RATE, result)
        times: dict[str, dict[int, int]] = {}
        for name in ("order", "stock", "payment"):
            for line in (system.data / name / "steps").read_text().splitlines():
                what, number, at = line.split()
                key = what if name == "order" else f"{what}: {name}"
                if int(at) >= result.due[0]:
                    times.setdefault(key, {})[int(number)] = int(at)
        sizes = [len(line[3]) for line in map(json.loads, (system.data / "order" / "log").read_bytes().splitlines())
                 if line[0] == "fate"]  # fmt: skip
    whole = set.intersection(*(set(found) for found in times.values()))
    steps = {
        key: round(statistics.median(found[number] - times["gathered"][number] for number in whole) / 1e3)
        for key, found in times.items()
    }
    found = {
        "rate": EPOCH_RATE,
        "epochs": len(whole),
        "orders": statistics.median(sizes),
        "p50_ms": step.p50_ms,
        "p99_ms": step.p99_ms,
        "late_ms": step.late_ms,
        "us": dict(sorted(steps.items(), key=lambda each: each[1])),
    }
    (out / "epoch.json").write_text(json.dumps(about("epoch") | found, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the wanted parts. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be repeated")
    parser.add_argument("--out", type=Path, default=LABS / "records", help="the folder to write to")
    chosen = parser.parse_args(arguments)
    if sys.platform != "linux":
        print("bench/record.py: the systems and the grader's generator run on Linux; they need epoll", file=sys.stderr)
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # gunicorn
    parts = {"graded": graded, "frozen": frozen, "rates": rates, "epoch": epoch}
    for name in chosen.only or PARTS:
        with contextlib.ExitStack() as ends:
            scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="record-")))
            parts[name](chosen.out, scratch, ends)
    return 0


if __name__ == "__main__":
    measure.command(main)
