"""The matrix: every right system, every mutant and every mend, what was said of each, in several passes.

    python tests/grader/zoo [--passes 5] [--budget 110] [--jobs 1] [--only NAME,NAME] [--anew]

Each result is kept as a line of matrix.jsonl in the cache folder, under what it depends on: the system's files, the
grader's, and the numbers of the run. Interrupted and started again, it goes on where it was; a void is tried again.
The table is Markdown on standard output, progress is on standard error. Exit 0: everything is as it must be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grader")]

import zoo  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402
from zoo.table import table  # noqa: E402
from zoo.trial import MUTANTS, Trial  # noqa: E402

USUAL = 8.0
"""Seconds of a trial that has never been run, its budget aside."""


@dataclass(frozen=True)
class Cell:
    """One trial of one pass, and the words under which its result is kept."""

    trial: Trial
    turn: int
    role: str
    """right, mutant or mended."""
    key: str


def digest(*folders: Path) -> str:
    """Of every file below, names and contents."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def cells(passes: int, budget: float, only: set[str]) -> list[Cell]:
    """What is to be run, a whole pass before the next. A mend is its base, on the phase of its mutants."""
    grader = digest(ROOT / "grader")
    found = []
    for turn in range(1, passes + 1):
        rows = [("right", Trial.of_right(name, budget, turn)) for name in zoo.RIGHT]
        for name in MUTANTS:
            rows += [("mutant", Trial.of_mutant(name, turn)), ("mended", Trial.of_mutant(name, turn, mended=True))]
        for role, trial in dict.fromkeys(rows):
            base = MUTANTS[trial.name].base if role == "mutant" else trial.name
            if only and not only & {trial.name, base}:
                continue
            files = digest(*(HERE / part for part in zoo.RIGHT[base].parts))
            words = f"{grader} {files} {MUTANTS.get(trial.name)} {trial}"
            found.append(Cell(trial, turn, role, hashlib.sha256(words.encode()).hexdigest()[:16]))
    return found


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """Results by key; a line that was cut off counts for nothing."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            came = json.loads(line)
        except ValueError:
            continue
        found[came["key"]] = came
    return found


def run(cell: Cell) -> tuple[Cell, dict[str, Any]]:
    """One trial; one that crashed is a result too."""
    out, err = cell.trial.start().communicate()
    try:
        came = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        came = {"verdict": "crash", "why": err[-2000:], "phases": {}, "rules": {}, "details": [], "seconds": 0.0}
    wrong = "it crashed" if came["verdict"] == "crash" else cell.trial.wrong(came)
    return cell, {
        "key": cell.key,
        "pass": cell.turn,
        "name": cell.trial.name,
        "role": cell.role,
        "asked": list(cell.trial.phases),
        "wrong": wrong,
        **came,
    }


def usual(cell: Cell, done: dict[str, dict[str, Any]]) -> float:
    """Seconds that such a trial takes: as before, else its budget's share and a little."""
    before = [
        came["seconds"]
        for came in done.values()
        if (came["name"], came["role"]) == (cell.trial.name, cell.role) and came["asked"] == list(cell.trial.phases)
    ]
    return statistics.mean(before) if before else USUAL + (cell.trial.budget if cell.role == "right" else 0.0)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python tests/grader/zoo", description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--budget", type=float, default=110.0, help="seconds of a right system; 110 is --quick")
    parser.add_argument("--jobs", type=int, default=1, help="so many trials at once; they mostly wait")
    parser.add_argument("--only", default="", help="names of systems; a right one with all its mutants")
    parser.add_argument("--anew", action="store_true", help="forget every result")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    if unknown := only - {*zoo.RIGHT, *MUTANTS}:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    path = cache_dir("zoo") / "matrix.jsonl"
    if given.anew:
        path.unlink(missing_ok=True)
    wanted = cells(given.passes, given.budget, only)
    done = kept(path)
    left = [cell for cell in wanted if done.get(cell.key, {"verdict": "void"})["verdict"] in ("void", "crash")]
    began, turns = time.monotonic(), len(wanted) - len(left)
    waiting = dict.fromkeys(left)
    pool = ThreadPoolExecutor(given.jobs)
    try:
        for future in as_completed({pool.submit(run, cell): cell for cell in left}):
            cell, came = future.result()
            done[cell.key] = came
            with path.open("a") as file:
                file.write(json.dumps(came) + "\n")
            del waiting[cell]
            turns += 1
            minutes = sum(usual(other, done) for other in waiting) / 60 / given.jobs
            where = f"[{turns} of {len(wanted)}, about {minutes:.0f} min left] pass {cell.turn}"
            what = f"{cell.role} {cell.trial.name}: {','.join(cell.trial.phases)}: {came['verdict']}"
            wrong = came["wrong"] and f" WRONG: {came['wrong']} {came['why']} {came['details']}"
            print(f"{where}, {what} in {came['seconds']} s{wrong}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(cancel_futures=True)  # what runs has heard the same Ctrl-C, and ends what it has started
        print(f"stopped after {time.monotonic() - began:.0f} s; the same command goes on", file=sys.stderr)
        return 130
    results = [{**done[cell.key], "budget": cell.trial.budget} for cell in wanted]
    print(table(results, given.passes))
    return 1 if any(came["wrong"] for came in results) else 0


if __name__ == "__main__":
    sys.exit(main())
