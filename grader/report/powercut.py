"""The power cuts in one sentence, for every form of the report."""

from __future__ import annotations

from ..judge.powercut import PowerCut


def sentence(found: PowerCut) -> str:
    """What was cut, and what it cost; or why it was not tested."""
    if not found.tested:
        return found.why
    cuts = f"{found.cuts} cut{'' if found.cuts == 1 else 's'}, every write that was never synced dropped; "
    if not found.came_back:
        return f"{cuts}after cut {found.cuts} the system did not come back: {found.why}"
    if not found.acknowledged:
        return f"{cuts}no checkout was answered 2xx before one, so nothing could be lost."
    if not found.lost:
        said = f"no acknowledged order was lost ({found.acknowledged:,} were acknowledged)"
    else:
        said = f"{found.lost:,} of {found.acknowledged:,} acknowledged orders were lost"
    if found.half_there:
        said += f", {found.half_there:,} are half there"
    if found.other:
        said += f", {found.other:,} more values do not add up or cannot be read"
    named = "; ".join(f"{e.label} ({e.order_id}), {e.detail}, cut {e.cut}" for e in found.examples)
    return f"{cuts}{said}.{f' Such as {named}.' if named else ''}"
