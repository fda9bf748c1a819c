"""Describes the result of the power cuts in one sentence, for all reports."""

from __future__ import annotations

from ..verdict.powercut import PowerCut


def sentence(found: PowerCut) -> str:
    """Return the number of cuts and of lost orders in words, or the reason why power cuts were not tested."""
    if not found.tested:
        return found.why
    cuts = f"{found.cuts} power cut{'' if found.cuts == 1 else 's'} that discarded all unsynced writes: "
    if not found.came_back:
        return f"{cuts}the system did not start again after cut {found.cuts}: {found.why}"
    if not found.acknowledged:
        return f"{cuts}no checkout was answered 2xx before a cut, so none could be lost."
    if not found.lost:
        said = f"none of {found.acknowledged:,} acknowledged orders was lost"
    else:
        said = f"{found.lost:,} of {found.acknowledged:,} acknowledged orders were lost"
    if found.half_there:
        said += f", {found.half_there:,} {'is' if found.half_there == 1 else 'are'} half there"
    if found.other:
        said += f", {found.other:,} more {'value is' if found.other == 1 else 'values are'} wrong or unreadable"
    named = "; ".join(f"{e.label} ({e.order_id}), {e.detail}, cut {e.cut}" for e in found.examples)
    return f"{cuts}{said}.{f' Examples: {named}.' if named else ''}"
