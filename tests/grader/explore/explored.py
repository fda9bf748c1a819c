"""What explore finds in each system of its tests, and the tables of it in docs/zoo.md.

The result of a system is stored, because it takes minutes. Its key is a hash of the system and of the grader.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from systems import MUTANTS, NOT_FOR_IT, RIGHT, SHOPS, WRONG, Wrong, exploring, figures, plant
from zoo.__main__ import ROOT, cached, digest

from grader.explore.cases import KILL, KINDS, LOSE, RACE, RACES, TWICE, WRITE, Case
from grader.explore.shown import shown
from sharedstate_lite.system.cache import cache_dir

STORED, REPEATED = "explore/results.jsonl", "explore/repeated.jsonl"
COMMITTED, PAGE = Path(__file__).with_name("results.json"), ROOT / "docs" / "zoo.md"
MINUTES, HOUR, CASES, TIMES = 20.0, 3600.0, 300, 20
"""The time for a wrong system, the time for all cases of a right one, how many cases of one that is not for it, and how
often a case is repeated, or how many are."""
Result = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A system, and what explore must make of it: one that is "wrong" is blamed, "right" and "not for it" are not."""

    name: str
    role: str
    wrong: Wrong | None = None

    def run(self, folder: Path) -> Result:
        """Explore it: a right system without second faults, the others until something is found."""
        began = at = time.monotonic()
        with exploring(folder) as explorer:

            def over() -> bool:
                nonlocal at
                if not explorer.found:
                    at = time.monotonic()
                enough = self.role == "not for it" and sum(explorer.ran.values()) >= CASES
                return bool(explorer.found) or enough

            if not explorer.found:
                seconds = 60 * MINUTES if self.role == "wrong" else HOUR
                kinds = [kind for kind in KINDS if kind != TWICE or self.role != "right"]
                kinds = [WRITE] if self.wrong and self.wrong.kind == WRITE else kinds  # they come last
                explorer.explore(kinds, time.monotonic() + seconds, over)
            return {
                "name": self.name,
                **figures(explorer),
                "possible": dict(explorer.possible),
                "at": round(at - began),
                "seconds": round(time.monotonic() - began),
                "load": round(os.getloadavg()[0], 1),
            }

    def complaint(self, result: Result) -> str:
        """Return what is wrong with a result, or ""."""
        found = result["found"]
        if self.wrong is None or self.role != "wrong":
            return f"it is blamed: {found}" if found else ""
        if not found:
            return f"nothing was found: {result}"
        right = found["kind"] == self.wrong.kind and self.wrong.rule in found["rules"]
        return "" if right and found["steps"] <= self.wrong.steps else f"expected {self.wrong}, found {found}"


TRIALS = {
    each.name: each
    for each in (
        *(Trial(wrong.name, "wrong", wrong) for wrong in WRONG),
        *(Trial(name, "right") for name in RIGHT),
        *(Trial(other.name, "not for it", other) for other in NOT_FOR_IT),
    )
}


def stored(name: str, folder: Path, compute: Callable[[Path], Result], what: str = "") -> Result:
    """Return the result of a system, which is planted into a folder and computed if no result is stored.

    ``what``: what is computed, if it is not whether explore blames it.
    """
    path = cache_dir() / (REPEATED if what else STORED)
    plant(name, folder)
    key = " ".join((name, *what.split(), digest(folder)[:16], digest(ROOT / "grader")[:16]))
    found = cached(path).get(key)
    if found is None:
        found = {"key": key, **compute(folder)}
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")
    return found


def result_of(trial: Trial, folder: Path) -> Result:
    """Return what explore makes of a system."""
    return stored(trial.name, folder, trial.run)


def suspects(wrong: Wrong, folder: Path) -> Result:
    """Run the case of a wrong system that is a suspect at once, TIMES times: how often it is wrong by its rule."""
    with exploring(folder) as explorer:
        case = explorer.find(SHOPS[wrong.name].case)
        runs = [explorer.run(case) for _ in range(TIMES)] if case else []
        rules = [shown(run).rules if run else () for run in runs]
        return {"suspect": sum(wrong.rule in each for each in rules), "rules": rules, **figures(explorer)}


def twice(name: str, folder: Path) -> Result:
    """Run TIMES cases of a right system twice, drawn by its name from losses, kills and races: how many are right."""
    with exploring(folder) as explorer:
        queues = explorer.queues([LOSE, KILL, RACE])
        cases = [case for _, kind, queue in queues for case in islice(queue, len(RACES) if kind == RACE else None)]
        drawn = [case for case in random.Random(name).sample(cases, min(TIMES, len(cases))) if case]

        def right(case: Case) -> bool:
            """Run a case. What is wrong at first is confirmed, as in `explore`: some systems need 35 s."""
            explorer.unrepeated.clear()  # so many are not confirmed in an exploration
            run = explorer.run(case)
            return run is not None and not (run.violations and explorer.suspect(run)) and not explorer.unconfirmed

        return {
            "right": sum(right(case) and right(case) for case in drawn),
            "drawn": [f"{case.id}: {case}" for case in drawn],
            **figures(explorer),
        }


def committed() -> list[Result]:
    """Return the results that docs/zoo.md shows."""
    return list(json.loads(COMMITTED.read_text())) if COMMITTED.exists() else []


def _row(trial: Trial, result: Result) -> str:
    found, wrong = result.get("found"), trial.wrong
    ran = {kind: count for kind, count in result.get("ran", {}).items() if kind}
    cases = f"{sum(ran.values()):,}" if result else "not run"
    cells = [f"`{trial.name}`"]
    if trial.role == "wrong" and wrong:
        nothing = ["nothing" if result else "", "", ""]
        shown = [found["kind"] or "without a fault", f"`{wrong.rule}`", f"{found['steps']}"] if found else nothing
        base = wrong.base or (MUTANTS[trial.name].base if trial.name in MUTANTS else "")
        cells += [f"`{base}`" if base else "", wrong.does or "see the matrix", *shown, cases, _time(result, "at")]
    else:
        possible = result.get("possible", {})
        of = {kind: f" of {possible[kind]:,}" if kind in possible else "" for kind in ran}
        kinds = ", ".join(f"{kind} {count:,}{of[kind]}" for kind, count in ran.items())
        told = (f"yes: {found['case']}" if found else "no") if result else ""
        cells += [wrong.not_for_it if wrong else kinds, cases, _time(result, "seconds"), told]
    return f"| {' | '.join(cells)} |"


def _time(result: Result, what: str) -> str:
    return f"{result[what]:,} s" if what in result else ""


_HEADS = {
    "wrong": "| wrong system | base | what it does | kind | rule | steps | cases | found after |",
    "right": "| right system | of each kind | cases | took | blamed |",
    "not for it": "| mutant | because | cases | took | blamed |",
}


def tables(results: Iterable[Result]) -> str:
    """Return the tables of docs/zoo.md, with the rows of expected.toml and of all right systems."""
    by_name = {result["name"]: result for result in results}
    lines = list[str]()
    for role, head in _HEADS.items():
        rows = [_row(trial, by_name.get(trial.name, {})) for trial in TRIALS.values() if trial.role == role]
        lines += [head, "|---" * (head.count("|") - 1) + "|", *rows, ""]
    took = sum(result.get("seconds", 0) for result in by_name.values())
    loads = sorted(result["load"] for result in by_name.values() if "load" in result)
    busy = f", at a load average of {loads[0]} to {loads[-1]}" if loads else ""
    ran = sum(sum(result["ran"].values()) for result in by_name.values())
    lines.append(f"{len(by_name)} of {len(TRIALS)} systems, {ran:,} cases, {took / 60:,.0f} minutes{busy}.")
    return "\n".join(lines)


def written(text: str, results: Iterable[Result]) -> str:
    """Return the page with its tables made anew. Raises ValueError unless it has one place for them."""
    start, end = "<!-- explored -->\n", "\n<!-- end -->"
    made, count = re.subn(f"{start}.*?{end}", lambda _: f"{start}{tables(results)}{end}", text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"docs/zoo.md has {count} places for the tables of explore; it must have one")
    return made
