"""The proof of a lab: the solution has every point, the stub none, and each check finds the mistakes it is there for.

All code runs as it does when a class is graded: in a sandbox, judged by `judge`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import GraderError
from ..folders import temporary
from ..outcomes import Outcome
from ..sandbox import LAB, choose, own_uid
from ..worker import Worker
from .fields import HAND_IN
from .judge import Judged, judging
from .master import Master, Mutant, where
from .reach import Asked, reached
from .regions import MasterError

SHARE = 0.1
"""The share of its CPU limit that the solution may take in a check. Students may take ten times as long."""
Say = Callable[[str], None]


@dataclass
class Proof:
    """What the proof has found."""

    problems: list[str] = field(default_factory=list)
    known: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each check the fingerprints of wrong solutions, and what is wrong with them."""
    mutants: list[dict[str, Any]] = field(default_factory=list)
    """For each wrong solution what its first failing check has found."""
    untested: list[str] = field(default_factory=list)
    """Checks at which no wrong solution fails first. A mistake in such a check could go unnoticed."""


def prove(master: Master, work: Path, say: Say) -> Proof:
    """Run the solution, the stub and all wrong solutions. ``work`` is the folder that the checks were loaded from."""
    proof = Proof()
    texts = [master.solution, master.stub, *(mutant.text for mutant in master.mutants)]
    with closing(workers(texts, master.lab["memory_mib"])) as started:
        try:
            say("solution")
            worker, names = next(started), dict[str, frozenset[str]]()
            asked = Asked(worker)
            for check, judged in zip(master.checks, judging(master.checks, asked, {}), strict=True):
                names[check.id], asked.names = frozenset(asked.names), set()
                if judged.cpu > check.cpu * SHARE:  # on a busy machine, the same work takes more CPU time
                    judged = min([judged, *judging([check], worker, {})], key=lambda one: one.cpu)
                _right(judged, check.cpu, master.lab.get("cases", {}).get(check.id), proof)
            say("stub")
            for judged in judging(master.checks, next(started), {}):
                if judged.result.outcome == Outcome.PASS:
                    proof.problems.append(f"{judged.result.check}: the stub passes it; no check may pass unsolved")
            for number, (mutant, worker) in enumerate(zip(master.mutants, started, strict=True), 1):
                say(f"wrong solution {number} of {len(master.mutants)}: {mutant.name}")
                differs = [
                    check
                    for check in master.checks
                    if reached(mutant.text, names[check.id]) != reached(master.solution, names[check.id])
                ]
                failed = (judged for judged in judging(differs, worker, {}) if judged.result.outcome != Outcome.PASS)
                _wrong(mutant, next(failed, None), master, proof)
        except (GraderError, OSError):
            raise
        except Exception as error:
            raise MasterError(f"{where(error, work)}: the check raised {type(error).__name__}: {error}") from error
    proof.untested = [one.id for one in master.checks if one.id not in proof.known]
    return proof


def workers(texts: list[str], memory_mib: int) -> Generator[Worker, None, None]:
    """Yield a worker for each text of solution.py. Each ends when the next one is asked for."""
    with temporary("lab-") as tmp:
        tmp.chmod(0o755)
        code, scratch = tmp / "code", tmp / "scratch"
        code.mkdir()
        scratch.mkdir()
        tier, sandbox = choose(scratch, code, LAB, own_uid())
        try:
            for number, text in enumerate(texts):
                folder = code / str(number)
                folder.mkdir()
                (folder / HAND_IN).write_text(text, encoding="utf-8")
                with Worker(sandbox, tier, folder, Path(HAND_IN).stem, scratch, memory_mib << 20) as worker:
                    yield worker
        finally:
            sandbox.close()


def _right(judged: Judged, limit: float, cases: int | None, proof: Proof) -> None:
    result = judged.result
    if judged.cases != cases:
        at = f"lab.toml: [cases] {result.check}: " + ("is missing" if cases is None else f"is {cases}")
        rule = f"{at}, but the solution is asked {judged.cases} cases; both must agree, so that no change of checks.py"
        proof.problems.append(f'{rule} weakens a check unnoticed\n  example: "{result.check}" = {judged.cases}')
    if result.outcome != Outcome.PASS:
        seen = f"trace {result.trace!r}, right {result.right!r}, got {result.got!r}"
        proof.problems.append(f"{result.check}: the solution fails it ({result.outcome}): {seen}")
    if result.flags:
        proof.problems.append(f"{result.check}: with the solution, {'; '.join(result.flags)}")
    if judged.cpu > limit * SHARE:
        rule = f"the solution takes {judged.cpu:.2f} s of CPU time; it may take {SHARE:.0%} of the check's {limit:g} s"
        proof.problems.append(f"{result.check}: {rule}\n  example: @check(..., cpu={math.ceil(judged.cpu * 20)})")


def _wrong(mutant: Mutant, judged: Judged | None, master: Master, proof: Proof) -> None:
    at = f"mutants.toml, line {mutant.line}: [{mutant.name}]"
    if judged is None:
        proof.problems.append(f"{at}: passes all checks; it is not wrong, or a check misses it")
        return
    result, says = judged.result, proof.known.setdefault(judged.result.check, {})
    if result.check != mutant.check:
        rule = f"fails first at {result.check}, not at {mutant.check}, with the trace {result.trace!r}"
        proof.problems.append(f"{at}: {rule} (right {result.right!r}, got {result.got!r})")
        return
    secret = master.secret and result.hidden  # then the trace depends on the secret
    if result.trace != mutant.trace and not secret:
        found = f"with another trace than {mutant.trace!r}" if mutant.trace else "but has no trace"
        shown = result.trace.replace("\\", "\\\\").replace('"', '\\"')
        proof.problems.append(f'{at}: fails at {result.check}, {found}\n  found: trace = "{shown}"')
    if mutant.rule not in (None, result.number):
        proof.problems.append(f"{at}: {result.check} checks rule {result.number}, not rule {mutant.rule}")
    if not judged.fingerprint:
        rule = f"its process ends in {result.check} ({result.got}), so its answers cannot be recognised"
        proof.problems.append(f"{at}: {rule}; let it answer wrongly")
    elif says.setdefault(judged.fingerprint, mutant.says) != mutant.says:
        other = next(one["name"] for one in proof.mutants if one["fingerprint"] == judged.fingerprint)
        rule = f"gives the answers of [{other}] in {result.check}, but says something else"
        proof.problems.append(f"{at}: {rule}; say the same, or remove one")
    seen = {"trace": result.trace, "right": result.right, "got": result.got, "fingerprint": judged.fingerprint}
    proof.mutants.append({"name": mutant.name, "check": result.check, "rule": result.number, **seen})
