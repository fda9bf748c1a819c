"""Grade one system of the zoo on some phases, in its own process, and print the result as one line of JSON.

    python tests/grader/zoo/trial.py NAME [--phases a,b] [--budget S] [--convergence S] [--stable S] [--seed N]
        [--through]

NAME is a right system or a mutant. With --through, its processes reach each other through the proxy of `explore`.
``Trial`` holds what to run, and decides whether the result is the expected one.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grader")]

import zoo  # noqa: E402
from grader.explore.through import through  # noqa: E402
from grader.record import load  # noqa: E402
from grader.session import Wish, run  # noqa: E402
from grader.submission import read_submission  # noqa: E402
from grader.table import PHASES, TABLE  # noqa: E402
from grader.terms import Limits  # noqa: E402
from grader.verdict import judge  # noqa: E402

SECONDS = {"contract": 1.0, "duplicates": 1.2, "load": 1.2, "scarcity": 3.0, "faults": 6.0, "speed": 6.0}
"""The length of a phase that is run for one mutant. It is enough for the mistake to show."""
CONVERGENCE = 3.0
"""Seconds."""
LONGEST = 600.0
"""Seconds after which a trial is ended. Five of them at once took 210 s on two overloaded cores."""
MUTANTS = {mutant.name: mutant for mutant in zoo.MUTANTS}


@dataclass(frozen=True)
class Trial:
    """A system, the phases, and the numbers of the run."""

    name: str
    phases: tuple[str, ...]
    budget: float
    convergence: float
    stable: float = 0.5
    seed: int = 1
    through: bool = False

    @classmethod
    def of_mutant(cls, name: str, seed: int = 1, mended: bool = False) -> Trial:
        """A mutant, or with ``mended`` its base, on the phase that must catch the mutant."""
        mutant = MUTANTS[name]
        phases = tuple(phase for phase in PHASES if phase in (mutant.phase, mutant.also))
        budget = max((mutant.seconds or SECONDS[phase]) / TABLE[phase].share for phase in phases)
        convergence = zoo.RIGHT[mutant.base].convergence if "faults" in phases else CONVERGENCE
        return cls(mutant.base if mended else name, phases, budget, convergence, seed=seed)

    @classmethod
    def of_right(cls, name: str, budget: float, seed: int = 1) -> Trial:
        """A right system on every phase, as the command line runs it with ``budget`` seconds."""
        return cls(name, PHASES, budget, max(20.0, zoo.RIGHT[name].convergence), Limits.stable, seed)

    def start(self) -> subprocess.Popen[str]:
        """Start the trial in its own process. The last line of its output is the result."""
        words = ["--phases", ",".join(self.phases), "--budget", self.budget, "--convergence", self.convergence]
        words += ["--stable", self.stable, "--seed", self.seed]
        words += ["--through"] * self.through
        command = [sys.executable, str(Path(__file__).resolve()), self.name, *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def void(self, result: dict[str, Any]) -> str:
        """Why the grader could not judge the system; "" if it did."""
        mutant = MUTANTS.get(self.name)
        verdicts = (result["verdict"], result["phases"].get(mutant.phase) if mutant else "")
        return (result["why"] or "the machine was too busy") if "void" in verdicts else ""

    def wrong(self, result: dict[str, Any]) -> str:
        """How the result differs from the expected one; "" if it does not."""
        mutant = MUTANTS.get(self.name)
        if mutant is None:
            right = result["verdict"] == "pass" and not result["rules"]
            return "" if right else f"it must pass, and the verdict is {result['verdict']}"
        if result["phases"][mutant.phase] != "fail":
            return f"{mutant.phase} must fail, and its verdict is {result['phases'][mutant.phase]}"
        caught = f"{mutant.phase}: {mutant.rule}" in result["rules"]
        return "" if caught else f"{mutant.phase} must fail by {mutant.rule}, and failed by {result['rules']}"


def grade(trial: Trial, folder: Path, out: Path) -> dict[str, Any]:
    """Run the trial; the verdict, each phase's verdict, violations by phase and rule, speed, seconds."""
    mutant = MUTANTS.get(trial.name)
    system = zoo.plant(mutant, folder) if mutant else zoo.right(trial.name, folder)
    limits = Limits(budget=trial.budget, convergence=trial.convergence, stable=trial.stable)
    began = time.monotonic()
    wish = Wish(read_submission(system), trial.phases, limits, trial.seed, 0, f"a trial of {trial.name}", "quick")
    told = partial(print, file=sys.stderr, flush=True)
    run(wish, out, lambda said: told(f"{time.monotonic() - began:6.1f} s {said}"), through if trial.through else None)
    judgement = judge(load(out))
    rules: dict[str, int] = {}
    for found in judgement.violations:
        word = f"{found.phase}: {found.rule}"
        rules[word] = rules.get(word, 0) + 1
    return {
        "verdict": judgement.verdict,
        "why": judgement.why,
        "phases": {name: phase.verdict for name, phase in judgement.phases.items()},
        "rules": rules,
        "details": [f"{v.phase}: {v.rule}: {v.label} {v.detail}" for v in judgement.violations[:5]],
        "speed": judgement.speed,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Print the result as the last line. Exit 0 whatever the verdict."""
    faulthandler.dump_traceback_later(LONGEST - 30)
    parser = argparse.ArgumentParser(prog="trial.py", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[*zoo.RIGHT, *zoo.LABS, *MUTANTS], metavar="NAME")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--budget", type=float, default=110.0)
    parser.add_argument("--convergence", type=float, default=3.0)
    parser.add_argument("--stable", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--through", action="store_true", help="put a proxy between its processes")
    parser.add_argument("--record", type=Path, help="keep the record in this folder")
    given = parser.parse_args()
    phases = tuple(given.phases.split(","))
    trial = Trial(given.name, phases, given.budget, given.convergence, given.stable, given.seed, given.through)
    with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
        print(json.dumps(grade(trial, Path(scratch, "system"), given.record or Path(scratch, "record"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
