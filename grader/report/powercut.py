"""Describes the result of the power cuts in one sentence, for all reports."""

from __future__ import annotations

from ..verdict.powercut import PowerCut


def sentence(cut: PowerCut) -> str:
    """Return the number of cuts and of lost orders in words, or the reason why power cuts were not tested."""
    if not cut.tested:
        return cut.why
    cuts = f"{cut.cuts} power cut{'' if cut.cuts == 1 else 's'} that discarded all unsynced writes: "
    if not cut.came_back:
        return f"{cuts}the system did not start again after cut {cut.cuts}: {cut.why}"
    if not cut.acknowledged:
        return f"{cuts}no checkout was answered 2xx before a cut, so none could be lost."
    if not cut.lost:
        said = f"none of {cut.acknowledged:,} acknowledged orders was lost"
    else:
        said = f"{cut.lost:,} of {cut.acknowledged:,} acknowledged orders were lost"
    if cut.half_there:
        said += f", {cut.half_there:,} {'is' if cut.half_there == 1 else 'are'} half there"
    if cut.other:
        said += f", {cut.other:,} more {'value is' if cut.other == 1 else 'values are'} wrong or unreadable"
    named = "; ".join(f"{e.label} ({e.order_id}), {e.detail}, cut {e.cut}" for e in cut.examples)
    return f"{cuts}{said}.{f' Examples: {named}.' if named else ''}"
