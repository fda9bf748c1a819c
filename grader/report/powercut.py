"""The result of the power cuts in one sentence, for all reports."""

from __future__ import annotations

from ..verdict.powercut import PowerCut


def sentence(found: PowerCut) -> str:
    """The number of cuts and what was lost, or why it was not tested."""
    if not found.tested:
        return found.why
    cuts = f"{found.cuts} cut{'' if found.cuts == 1 else 's'} that dropped every unsynced write: "
    if not found.came_back:
        return f"{cuts}after cut {found.cuts} the system did not come back: {found.why}"
    if not found.acknowledged:
        return f"{cuts}no checkout was answered 2xx before a cut, so none could be lost."
    if not found.lost:
        said = f"none of {found.acknowledged:,} acknowledged orders was lost"
    else:
        said = f"{found.lost:,} of {found.acknowledged:,} acknowledged orders were lost"
    if found.half_there:
        said += f", {found.half_there:,} are half there"
    if found.other:
        said += f", {found.other:,} more values are wrong or unreadable"
    named = "; ".join(f"{e.label} ({e.order_id}), {e.detail}, cut {e.cut}" for e in found.examples)
    return f"{cuts}{said}.{f' Examples: {named}.' if named else ''}"
