"""Sentences that all reports share: the reason for the verdict, and the result of each phase."""

from __future__ import annotations

from collections.abc import Callable

from ..record import Record
from ..table import TABLE
from ..verdict import Judgement
from ..verdict.story import named


def result_of(record: Record, judgement: Judgement, phase: str) -> str:
    """Return the result of a phase in a few words, by the function that its row of the table names."""
    return RESULTS[TABLE[phase].result](record, judgement, phase)


def answers(record: Record, judgement: Judgement, phase: str) -> str:
    """Return how many answers of the contract phase were right."""
    judged = [exchange for exchange in record.exchanges if exchange.asked]
    agreed, left = sum(exchange.agreed for exchange in judged), len(record.exchanges) - len(judged)
    return f"{agreed} of {len(judged)} answers as specified" + (f", {left} not judged" if left else "")


def checkouts(record: Record, judgement: Judgement, phase: str) -> str:
    """Return how many checkouts were done, and how long they took."""
    numbers = judgement.phases[phase].figures
    again = f", {numbers['done_again']:,} more when sent again" if numbers.get("done_again") else ""
    return f"{numbers['done']:,} of {numbers['offered']:,} done{again}, p99 {numbers['p99_ms']:,} ms"


def faults(record: Record, judgement: Judgement, phase: str) -> str:
    """Return how many faults there were, and how many checkouts were done meanwhile."""
    numbers = judgement.phases[phase].figures
    return f"{len(numbers.get('faults', []))} faults, {numbers['done']:,} of {numbers['offered']:,} answered 2xx"


def rate(record: Record, judgement: Judgement, phase: str) -> str:
    """Return the rate that the system sustained."""
    if not (speed := judgement.speed):
        return "no rate was sustained"
    return f"{'at least ' if speed['at_least'] else ''}{speed['sustained_per_s']:,} checkouts per second"


Result = Callable[[Record, Judgement, str], str]
RESULTS: dict[str, Result] = {result.__name__: result for result in (answers, checkouts, faults, rate)}
"""What the reports say of a phase, by the names that the table of phases has."""


def sentence(judgement: Judgement) -> str:
    """Return the reason for the verdict in one sentence."""
    first = named(judgement.violations)
    if first is None:
        return judgement.why or "No rule was broken in the phases that ran."
    if first.label:
        return f"Order {first.label} ({first.order_id}): {first.detail}."
    return f"{first.phase}: {first.detail}."
