"""The hidden checks of lab 1. Students do not get this file."""

import random
from functools import partial

from checks import VALUES, joined, joins, largest, restarts, savings

from grader.lab import BAG, EMITTED, Case, UnlikeError, check, drawn_epoch, each, histories, text, view_changes

SECRET = "public"


@check("join.netted", task=2, rule=4)
def netted(student):
    """The changes of an epoch have no order: a row may be deleted before it is inserted."""
    changes = [("info", 1), ("visit", 1), ("info", -1), ("visit", -1)]
    yield from joins(student, histories(changes, most=4))


@check("join.drawn", task=2, rule=1)
def drawn_join(student):
    """After every epoch, the result equals the join of all rows."""
    for n in range(20):
        draw = random.Random(f"join {SECRET} {n}")
        epochs = drawn_epochs(draw, 6, 3)
        yield Case(
            shown(epochs), view_changes(epochs, joined), partial(student.play, "Join", "step", epochs), each(BAG)
        )


@check("state.restart", task=4, cpu=5)
def restart(student):
    """What save() returns is enough to continue in another process."""
    nut = ("Nut", 5)
    chosen = (
        [[(("Fruit", 1), 1)], [(("Fruit", 2), 1)]],
        [[(("Fruit", 1), 1), (("Fruit", 2), 1)], [(("Fruit", 2), -1)]],
        [[(("Fruit", 1), 1), (("Fruit", 1), 1), (nut, 1)], [(("Fruit", 1), -1), (nut, -1)]],
        [[(("Fruit", 1), 1), (nut, 1)], [(nut, -1)], [(nut, 1)]],
    )
    yield from restarts(student, chosen)


@check("state.small", task=4, rule=8)
def small(student):
    """save() returns one entry for each value that is there, and none for values that have gone."""
    yield from savings(student, histories(VALUES, most=3))


@check("view", task=4, rule=1)
def view(student):
    """The longest visit of each category: Max takes what Join emits."""
    for n in range(10):
        draw = random.Random(f"view {SECRET} {n}")
        epochs = drawn_epochs(draw, 5, 4)

        def both(epochs=epochs):
            join, top = student.new("Join"), student.new("Max")
            return [top.step(categories(join.step(*epoch))) for epoch in epochs]

        def categories(changes):
            if not all(type(row) is list and len(row) == 3 for row, _ in BAG.like(changes)):
                raise UnlikeError(f"Join.step() has returned {changes}; its rows are (product, category, length)")
            return [((category, length), diff) for (_, category, length), diff in changes]

        of_join = view_changes(epochs, joined)
        right = largest([[((c, length), diff) for (_, c, length), diff in changes] for changes in of_join])
        yield Case(shown(epochs), right, both, each(EMITTED))


def drawn_epochs(draw, many, lengths):
    """Drawn epochs of (info, visit). Rows that are deleted are there."""
    info, visit = [], []
    left = [drawn_epoch(draw, info, lambda: (draw.choice("ABC"), draw.choice("xy"))) for _ in range(many)]
    right = [drawn_epoch(draw, visit, lambda: (draw.choice("ABC"), draw.randrange(lengths))) for _ in range(many)]
    return list(zip(left, right, strict=True))


def shown(epochs):
    """Epochs of (info, visit) as the student reads them."""
    return " | ".join(f"info {text([left])}; visit {text([right])}" for left, right in epochs)
