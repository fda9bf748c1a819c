"""The checks of lab 1. The right answers are recomputed from all rows, after every epoch."""

import itertools
from collections import Counter
from functools import partial

from grader.lab import (
    BAG,
    EMITTED,
    NUMBER,
    WORD,
    Case,
    Rows,
    Shape,
    UnlikeError,
    check,
    each,
    histories,
    text,
    view_changes,
)

INFO = {"info": ("F", "Fruit"), "second info": ("F", "Food")}
VISIT = {"visit": ("F", 1), "second visit": ("F", 3), "other visit": ("G", 2)}
VALUES, NOT_POSITIVE = [[(("Fruit", n), diff) for diff in (1, -1) for n in some] for some in ((1, 2), (-1, 0))]


def tally(changes):
    """The number of times that each row is there."""
    total = Counter()
    for row, diff in changes:
        total[row] += diff
    return total


def joined(epochs):
    """The rows of the join after some epochs of (info, visit), each with its count."""
    info = tally(change for left, _ in epochs for change in left)
    visit = tally(change for _, right in epochs for change in right)
    rows = Counter()
    for (product, category), many in info.items():
        for (other, length), more in visit.items():
            if product == other:
                rows[product, category, length] += many * more
    return rows


def largest(history):
    """What MAX emits in each epoch."""
    before, answers = {}, []
    for n in range(1, len(history) + 1):
        after = {}
        for (key, value), count in tally(change for epoch in history[:n] for change in epoch).items():
            if count:
                after[key] = max(value, after.get(key, value))
        keys = sorted({*before, *after})
        answers.append([row for key in keys for row in change_of(key, before.get(key), after.get(key))])
        before = after
    return answers


def change_of(key, old, new):
    """What a group emits whose largest value was old and is new; None: the group is empty."""
    if old == new:
        return []
    if old is None:
        return [("+I", (key, new))]
    return [("-D", (key, old))] if new is None else [("-U", (key, old)), ("+U", (key, new))]


def sides(epoch):
    """The arguments of Join.step for an epoch of changes such as ("info", +1)."""
    return tuple([(rows[name], diff) for name, diff in epoch if name in rows] for rows in (INFO, VISIT))


def one_a_side(epoch):
    """An epoch has at most one change of each side."""
    return len({side for side, _ in epoch}) == len(epoch)


def joins(student, chosen):
    for history in chosen:
        epochs = [sides(epoch) for epoch in history]
        yield Case(
            text(history), view_changes(epochs, joined), partial(student.play, "Join", "step", epochs), each(BAG)
        )


def maxima(student, chosen):
    for history in chosen:
        yield Case(text(history), largest(history), partial(student.play, "Max", "step", history), each(EMITTED))


def counts(history):
    """The counts of all rows after each epoch."""
    return [tally(change for epoch in history[:n] for change in epoch) for n in range(1, len(history) + 1)]


def distinct(history):
    """Each epoch has one change, and no value is there twice."""
    return all(len(epoch) == 1 for epoch in history) and all(max(c.values()) < 2 for c in counts(history))


def lasting(history):
    """The group is not empty before the end."""
    return all(any(c.values()) for c in counts(history)[:-1])


def in_any_order(changes):
    BAG.like(changes)  # raises UnlikeError if the answer is no list of changes
    return sorted(changes, key=repr)


NETTED = Shape(in_any_order, BAG.show)


def nets(student, chosen):
    for changes in chosen:
        right = [(row, diff) for row, diff in tally(changes).items() if diff]
        yield Case(text([changes]), right, partial(student.call, "net", changes), NETTED)


@check("net", task=1)
def adds_up(student):
    """net adds up the diffs of each row, and leaves out rows whose diffs add up to 0."""
    yield from nets(student, small_epochs([(("a",), 1), (("b",), 1), (("a",), -1)], most=3))


@check("join.either-side", task=2, rule=1)
def either_side(student):
    """A row meets the rows of its product that have arrived on the other side, whichever side it arrives on."""
    changes = [("info", 1), ("visit", 1), ("other visit", 1)]
    yield from joins(student, (h for h in histories(changes, most=3, epoch=1) if distinct(h)))
    for second in ("second info", "second visit"):
        for order in itertools.permutations(("info", "visit", second)):
            yield from joins(student, [[[(name, 1)] for name in order]])


@check("join.retract", task=2, rule=1)
def retract(student):
    """If a row is deleted, the rows that it was part of are deleted."""
    changes = [("info", 1), ("visit", 1), ("info", -1), ("visit", -1)]
    yield from joins(student, (h for h in histories(changes, most=4, epoch=1) if distinct(h)))


@check("join.bag", task=2, rule=1)
def a_bag(student):
    """A row that was inserted twice is there twice, until it has been deleted twice."""
    changes = [("info", 1), ("visit", 1), ("info", -1), ("visit", -1)]
    yield from joins(student, histories(changes, most=4, epoch=1))


@check("join.one-epoch", task=2, rule=14)
def one_epoch(student):
    """If both sides change in one epoch, each pair of rows counts once."""
    changes = [("info", 1), ("visit", 1), ("info", -1), ("visit", -1)]
    yield from joins(student, (h for h in histories(changes, most=4) if all(one_a_side(epoch) for epoch in h)))


@check("max.kinds", task=3, rule=6)
def kinds(student):
    """A new group emits +I, a changed maximum -U and then +U, and an emptied group -D."""
    for values in (VALUES, NOT_POSITIVE):
        yield from maxima(student, (h for h in histories(values, most=2) if distinct(h)))


@check("max.second", task=3, rule=8)
def second(student):
    """If the largest value is deleted, the second-largest follows."""
    yield from maxima(student, (h for h in histories(VALUES, most=4) if distinct(h) and lasting(h)))


@check("max.duplicates", task=3, rule=7)
def duplicates(student):
    """If one of several equal maxima is deleted, nothing changes."""
    yield from maxima(student, (h for h in histories(VALUES, most=4, epoch=1) if lasting(h)))


@check("max.group-goes", task=3, rule=6)
def group_goes(student):
    """A group that was emptied is a new group when its next row arrives."""
    yield from maxima(student, histories(VALUES, most=4, epoch=1))


@check("max.epoch", task=3, rule=6)
def epoch(student):
    """Each group emits once for each epoch, not once for each row. The order of an epoch's rows means nothing."""
    yield from maxima(student, histories(VALUES, most=4))


def small_epochs(changes, most):
    """All epochs of at most so many changes, by length."""
    for length in range(1, most + 1):
        yield from (list(epoch) for epoch in itertools.product(changes, repeat=length))


def restarts(student, chosen):
    """The process is restarted before the last epoch."""
    for history in chosen:

        def restarted(history=history):
            first = student.new("Max")
            for changes in history[:-1]:
                first.step(changes)
            saved = first.save()
            student.restart()
            again = student.new("Max")
            again.load(saved)
            return again.step(history[-1])

        trace = f"{text(history[:-1])} | {RESTART} | {text(history[-1:])}"
        yield Case(trace, largest(history)[-1], restarted, EMITTED)


def savings(student, chosen):
    """The number of entries that are saved after the last epoch."""
    for history in chosen:

        def entries(history=history):
            saving = student.new("Max")
            for changes in history:
                saving.step(changes)
            saved = saving.save()
            if type(saved) is not list:
                raise UnlikeError(f"save() has returned {saved}; it returns a list of entries (key, value, count)")
            return len(saved)

        left = sum(1 for count in counts(history)[-1].values() if count)
        yield Case(f"{text(history)} | {ENTRIES}", left, entries)


RESTART, ENTRIES = "restart", "save, number of entries"
NAMED = r".*\b(info|visit)\b.*"


def a_name(name):
    """A row of Join, by its name."""
    if name not in {**INFO, **VISIT}:
        raise name.wrong(f"a row of Join is one of {', '.join({**INFO, **VISIT})}")
    return str(name)


def a_value(row):
    """A row of Max."""
    if not (found := row.groups(f"({WORD}) ({NUMBER})")):
        raise row.wrong("a row of Max is a key and a value, such as Fruit 1")
    return str(found[0]), int(found[1])


def reader(line, solution):
    """Read a history of Join (+info | +visit), of Max (+Fruit 1 | -Fruit 1), or an epoch of net (+a, -a).

    Max saves and loads only if its history says so:
    +Fruit 1 | restart | +Fruit 2         save, and load in another process, before the last epoch
    +Fruit 1 | save, number of entries    save after the last epoch; the answer is the number of entries
    """
    steps, rows = line.parts("|"), Rows()
    if line.groups(f"([+-]{WORD}, *)*[+-]{WORD}") and not line.groups(NAMED):
        changes = rows.epoch(line, lambda row: (str(row),), free=True)
        return lambda student: next(nets(student, [changes]))
    if line.groups(NAMED):
        history = [rows.epoch(step, a_name) for step in steps]
        return lambda student: next(joins(student, [history]))
    cases = maxima
    if steps[-1] == ENTRIES:
        cases = savings
        steps.pop()
    elif steps[-2:-1] == [RESTART]:
        cases = restarts
        steps.pop(-2)
    history = [rows.epoch(step, a_value) for step in steps]
    if not history or cases is restarts and len(history) < 2:
        raise line.wrong("there is no epoch before it")
    return lambda student: next(cases(student, [history]))
