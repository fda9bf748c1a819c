"""What every form of the report says: the verdict's sentence, and one figure a phase."""

from __future__ import annotations

from ..judge import Judgement
from ..judge.story import named
from ..record import Record


def found(record: Record, judgement: Judgement, phase: str) -> str:
    """One phase's figure."""
    figures = judgement.phases[phase].figures
    if phase == "contract":
        asked = [exchange for exchange in record.exchanges if exchange.get("asked", True)]
        agreed, left = sum(bool(exchange["agreed"]) for exchange in asked), len(record.exchanges) - len(asked)
        return f"{agreed} of {len(asked)} answers as agreed" + (f", {left} not judged" if left else "")
    if phase == "speed":
        speed = judgement.speed
        least = "at least " if speed and speed["at_least"] else ""
        return f"{least}{speed['sustained_per_s']:,} checkouts a second" if speed else "no step was held"
    if phase == "faults":
        return f"{len(figures.get('faults', []))} faults, {figures['done']:,} of {figures['offered']:,} answered 2xx"
    again = f", {figures['done_again']:,} when asked again" if figures.get("done_again") else ""
    return f"{figures['done']:,} of {figures['offered']:,} done{again}, p99 {figures['p99_ms']:,} ms"


def sentence(judgement: Judgement) -> str:
    """The verdict's reason, in one sentence."""
    first = named(judgement.violations)
    if first is None:
        return judgement.why or "No rule was broken in what was tested."
    if first.label:
        return f"Order {first.label} ({first.order_id}): {first.detail}."
    return f"{first.phase}: {first.detail}."
