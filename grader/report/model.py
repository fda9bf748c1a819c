"""Sentences that all reports share: the reason for the verdict, and the result of each phase."""

from __future__ import annotations

from ..record import Record
from ..verdict import Judgement
from ..verdict.story import named


def found(record: Record, judgement: Judgement, phase: str) -> str:
    """Return the result of a phase in a few words."""
    figures = judgement.phases[phase].figures
    if phase == "contract":
        asked = [exchange for exchange in record.exchanges if exchange.get("asked", True)]
        agreed, left = sum(bool(exchange["agreed"]) for exchange in asked), len(record.exchanges) - len(asked)
        return f"{agreed} of {len(asked)} answers as specified" + (f", {left} not judged" if left else "")
    if phase == "speed":
        speed = judgement.speed
        least = "at least " if speed and speed["at_least"] else ""
        return f"{least}{speed['sustained_per_s']:,} checkouts per second" if speed else "no rate was sustained"
    if phase == "faults":
        return f"{len(figures.get('faults', []))} faults, {figures['done']:,} of {figures['offered']:,} answered 2xx"
    again = f", {figures['done_again']:,} more when sent again" if figures.get("done_again") else ""
    return f"{figures['done']:,} of {figures['offered']:,} done{again}, p99 {figures['p99_ms']:,} ms"


def sentence(judgement: Judgement) -> str:
    """Return the reason for the verdict in one sentence."""
    first = named(judgement.violations)
    if first is None:
        return judgement.why or "No rule was broken in the phases that ran."
    if first.label:
        return f"Order {first.label} ({first.order_id}): {first.detail}."
    return f"{first.phase}: {first.detail}."
