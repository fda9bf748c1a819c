"""The checks of lab 1. The right answers are recomputed from all rows after every epoch."""

from collections import Counter
from functools import partial

from grader.lab import BAG, EMITTED, Case, check, each, histories, text

INFO, VISIT = ("F", "Fruit"), ("F", 1)
VALUES = [(("Fruit", value), diff) for diff in (1, -1) for value in (1, 2)]


def joined(history):
    """The changes of the join in every epoch."""
    info, visit, before = Counter(), Counter(), Counter()
    for left, right in history:
        for row, diff in left:
            info[row] += diff
        for row, diff in right:
            visit[row] += diff
        after = Counter()
        for (product, category), many in info.items():
            for (other, length), more in visit.items():
                if product == other:
                    after[product, category, length] += many * more
        yield [(row, after[row] - before[row]) for row in after | before]
        before = after


def largest(history):
    """What MAX emits in every epoch."""
    rows, before = Counter(), {}
    for changes in history:
        for row, diff in changes:
            rows[row] += diff
        after = {}
        for (key, value), count in rows.items():
            if count > 0:
                after[key] = max(value, after.get(key, value))
        yield [told for key in sorted({*before, *after}) for told in emitted(key, before.get(key), after.get(key))]
        before = after


def emitted(key, old, new):
    if old == new:
        return []
    if old is None:
        return [("+I", (key, new))]
    return [("-D", (key, old))] if new is None else [("-U", (key, old)), ("+U", (key, new))]


def maxima(student, chosen):
    for history in chosen:
        yield Case(text(history), list(largest(history)), partial(student.play, "Max", "step", history), each(EMITTED))


def plain(history):
    """Each epoch has one change, and no value is there twice."""
    counts = Counter()
    for changes in history:
        for row, diff in changes:
            counts[row] += diff
    return all(len(changes) == 1 for changes in history)


@check("net", task=1)
def adds_up(student):
    """net adds up the diffs of each row, and leaves out rows whose diffs add up to 0."""
    for history in histories([("a", 1), ("b", 1), ("a", -1)], most=3):
        changes = [((word,), diff) for epoch in history for word, diff in epoch]
        yield Case(text([changes]), tally(changes), partial(student.call, "net", changes), BAG)


def tally(changes):
    total = Counter()
    for row, diff in changes:
        total[row] += diff
    return list(total.items())


@check("max.second", task=3, rule=8)
def second(student):
    """If the largest value is deleted, the second-largest follows."""
    yield from maxima(student, (h for h in histories(VALUES, most=4) if plain(h)))


@check("state.restart", task=4, hidden=True)
def restart(student):
    """What save() returns is enough to continue in another process."""
    for history in histories(VALUES, most=3):

        def restarted(history=history):
            first = student.new("Max")
            for changes in history[:-1]:
                first.step(changes)
            saved = first.save()
            student.restart()
            again = student.new("Max")
            again.load(saved)
            return [again.step(history[-1])]

        yield Case(text(history), list(largest(history))[-1:], restarted, each(EMITTED))
        if len(history) == 3:
            return


@check("either-side", task=2, rule=1)
def either_side(student):
    """A row meets the rows that arrived before it on the other side, whichever side it arrives on."""
    for history in histories([("info", 1), ("visit", 1)], most=2, epoch=1):
        epochs = [sides(changes) for changes in history]
        yield Case(text(history), list(joined(epochs)), partial(student.play, "Join", "step", epochs), each(BAG))


def sides(changes):
    return [(INFO, diff) for side, diff in changes if side == "info"], [
        (VISIT, diff) for side, diff in changes if side == "visit"
    ]
