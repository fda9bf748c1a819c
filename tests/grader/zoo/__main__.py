"""Print the matrix: the verdict on every right system, every mutant and every mend, in one or more passes.

    python tests/grader/zoo [--passes 5] [--budget 110] [--jobs 1] [--only NAME,NAME] [--anew]

Each result is cached as a line of matrix.jsonl in the cache folder. Its key is a hash of the system's files, the
grader's files and the numbers of the run. An interrupted run resumes when it is started again. A trial that the grader
could not judge (void) runs again at the end; a second void is listed with its reason.
The table is Markdown on standard output, progress goes to standard error. Exit 0: no result is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
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
"""Estimated seconds of a trial that never ran, its budget aside."""


@dataclass(frozen=True)
class Cell:
    """One trial of one pass."""

    trial: Trial
    turn: int
    role: str
    """right, mutant or mended."""
    key: str
    """Of its result in the cache."""


def digest(*folders: Path) -> str:
    """A hash of the names and contents of all files below the folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def cells(passes: int, budget: float, only: set[str]) -> list[Cell]:
    """The trials to run, pass by pass. A mend is the base of a mutant, run on the mutant's phase."""
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
            files = digest(*zoo.sources(base))
            words = f"{grader} {files} {MUTANTS.get(trial.name)} {trial}"
            found.append(Cell(trial, turn, role, hashlib.sha256(words.encode()).hexdigest()[:16]))
    return found


def cached(path: Path) -> dict[str, dict[str, Any]]:
    """Results by key. A line that was cut off is ignored."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except ValueError:
            continue
        found[result["key"]] = result
    return found


def run(cell: Cell) -> tuple[Cell, dict[str, Any]]:
    """Run one trial. A trial that crashes has a result too."""
    out, err = cell.trial.start().communicate()
    try:
        result = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        result = {"verdict": "crash", "why": err[-2000:], "phases": {}, "rules": {}, "details": [], "seconds": 0.0}
    void = cell.trial.void(result)
    wrong = "" if void else "it crashed" if result["verdict"] == "crash" else cell.trial.wrong(result)
    return cell, {
        "key": cell.key,
        "pass": cell.turn,
        "name": cell.trial.name,
        "role": cell.role,
        "asked": list(cell.trial.phases),
        "void": void,
        "wrong": wrong,
        **result,
    }


def run_all(cells: Iterable[Cell], pool: ThreadPoolExecutor) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Run trials, and yield each with its result. Void ones run once more after all others."""
    void = []
    for future in as_completed([pool.submit(run, cell) for cell in cells]):
        cell, result = future.result()
        if result["void"]:
            void.append(cell)
        else:
            yield cell, result
    for cell in void:
        yield pool.submit(run, cell).result()


def usual(cell: Cell, results: dict[str, dict[str, Any]]) -> float:
    """Estimated seconds of a trial: the mean of earlier ones like it, otherwise a guess from its budget."""
    before = [
        result["seconds"]
        for result in results.values()
        if (result["name"], result["role"]) == (cell.trial.name, cell.role)
        and result["asked"] == list(cell.trial.phases)
    ]
    return statistics.mean(before) if before else USUAL + (cell.trial.budget if cell.role == "right" else 0.0)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python tests/grader/zoo", description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--budget", type=float, default=110.0, help="seconds of a right system; 110 is --quick")
    parser.add_argument("--jobs", type=int, default=1, help="how many trials run at once; they mostly wait")
    parser.add_argument("--only", default="", help="names of systems; a right system includes its mutants")
    parser.add_argument("--anew", action="store_true", help="delete all cached results first")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    if unknown := only - {*zoo.RIGHT, *MUTANTS}:
        parser.error(f"--only: unknown system {', '.join(sorted(unknown))}; docs/zoo.md lists all")
    path = cache_dir("zoo") / "matrix.jsonl"
    if given.anew:
        path.unlink(missing_ok=True)
    wanted = cells(given.passes, given.budget, only)
    results = cached(path)
    left = [cell for cell in wanted if results.get(cell.key, {"verdict": "void"})["verdict"] in ("void", "crash")]
    began, turns = time.monotonic(), len(wanted) - len(left)
    waiting = dict.fromkeys(left)
    pool = ThreadPoolExecutor(given.jobs)
    try:
        for cell, result in run_all(left, pool):
            results[cell.key] = result
            with path.open("a") as file:
                file.write(json.dumps(result) + "\n")
            del waiting[cell]
            turns += 1
            minutes = sum(usual(other, results) for other in waiting) / 60 / given.jobs
            where = f"[{turns} of {len(wanted)}, about {minutes:.0f} min left] pass {cell.turn}"
            what = f"{cell.role} {cell.trial.name}: {','.join(cell.trial.phases)}: {result['verdict']}"
            wrong = result["wrong"] and f" WRONG: {result['wrong']} {result['why']} {result['details']}"
            print(f"{where}, {what} in {result['seconds']} s{wrong}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(cancel_futures=True)  # running trials receive the same Ctrl-C and end their processes
        print(f"stopped after {time.monotonic() - began:.0f} s; run the same command to resume", file=sys.stderr)
        return 130
    printed = [{**results[cell.key], "budget": cell.trial.budget} for cell in wanted]
    print(table(printed, given.passes))
    return 1 if any(result["wrong"] for result in printed) else 0


if __name__ == "__main__":
    sys.exit(main())
