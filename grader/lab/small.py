"""Histories: all short ones, smallest first, so that the first failure is also the shortest; and drawn ones.

A change is (row, diff). An epoch is a list of changes. A history is a list of epochs.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .checks import Shape, UnlikeError

Change = tuple[Any, int]
History = list[list[Change]]


def histories(changes: Sequence[Change], most: int, epoch: int | None = None) -> Iterator[History]:
    """Yield all histories of at most ``most`` changes, by length.

    ``epoch`` is the maximum number of changes in an epoch. At the end of every epoch, no row has a negative count.

    >>> [text(history) for history in histories([("a", 1), ("a", -1)], most=2)]
    ['+a', '+a, +a', '+a | +a', '+a, -a', '+a | -a', '-a, +a']
    """
    for length in range(1, most + 1):
        for sequence in itertools.product(changes, repeat=length):
            for cuts in itertools.product((False, True), repeat=length - 1):
                history = [[sequence[0]]]
                for cut, change in zip(cuts, sequence[1:], strict=True):
                    if cut:
                        history.append([change])
                    else:
                        history[-1].append(change)
                if (epoch is None or max(map(len, history)) <= epoch) and _possible(history):
                    yield history


def _possible(history: History) -> bool:
    counts: Counter[Any] = Counter()
    for epoch in history:
        for row, diff in epoch:
            counts[row] += diff
        if min(counts.values()) < 0:
            return False
    return True


def text(history: Iterable[Iterable[Change]]) -> str:
    """Return a history as text: "+Fruit 1, -Fruit 2 | +Nut 5" has two epochs.

    >>> text([[(("Fruit", 2), 1), (("Fruit", 1), -1)], []])
    '+Fruit 2, -Fruit 1 | nothing'
    """
    return " | ".join(", ".join(_change(row, diff) for row, diff in epoch) or "nothing" for epoch in history)


def _change(row: Any, diff: int) -> str:
    words = " ".join(map(str, row)) if isinstance(row, tuple) else str(row)
    return f"{'+' if diff > 0 else '-'}{words}" + (f" (x {abs(diff)})" if abs(diff) > 1 else "")


def drawn(seed: str, n: int, low: int, high: int) -> list[int]:
    """Return ``n`` different numbers from ``low`` to ``high``, in no order. Equal seeds give equal numbers.

    They are for the keys and values of hidden checks. The masters of the labs are public, so `lab build --secret FILE`
    replaces the text "public" in ``SECRET = "public"``, in the bundle only, and with it the seeds that contain SECRET.
    Raises ValueError if there are fewer than ``n`` numbers.

    >>> drawn("public keys", 3, 10, 99)
    [74, 98, 92]
    """
    return random.Random(seed).sample(range(low, high + 1), n)


def drawn_epoch(draw: random.Random, there: list[Any], row: Callable[[], Any]) -> list[Change]:
    """Return up to three drawn changes: new rows, and deletions of rows that are ``there``, which is kept up to date.

    ``row`` draws a row. The order of the changes is that of their drawing.
    """
    epoch = []
    for _ in range(draw.randrange(4)):
        if there and draw.random() < 0.4:
            epoch.append((there.pop(draw.randrange(len(there))), -1))
        else:
            there.append(row())
            epoch.append((there[-1], +1))
    return epoch


def view_changes(history: Sequence[Any], view: Callable[[Sequence[Any]], Counter[Any]]) -> list[list[Change]]:
    """Return the changes of a view in each epoch. ``view`` computes its rows, with their counts, from epochs.

    >>> view_changes([[("a", 1), ("b", 1)], [("a", -1)]], lambda epochs: Counter(row for e in epochs for row, _ in e))
    [[('a', 1), ('b', 1)], [('a', 1)]]
    """
    before, found = Counter[Any](), []
    for n in range(1, len(history) + 1):
        after = view(history[:n])
        found.append([(row, after[row] - before[row]) for row in {**before, **after} if after[row] != before[row]])
        before = after
    return found


def _like_bag(changes: Any) -> Any:
    counts: Counter[str] = Counter()
    rows: dict[str, Any] = {}
    for change in _list(changes, "a list of changes (row, diff)"):
        if type(change) is not list or len(change) != 2 or type(change[1]) is not int:
            raise UnlikeError("a change is (row, diff), where diff is an int")
        rows[repr(change[0])] = change[0]
        counts[repr(change[0])] += change[1]
    return [[rows[word], diff] for word, diff in sorted(counts.items()) if diff]


def _like_emitted(told: Any) -> Any:
    for one in _list(told, 'a list of rows such as ("+I", (key, value))'):
        if type(one) is not list or len(one) != 2 or type(one[1]) is not list or not one[1]:
            raise UnlikeError('each row must be a pair such as ("+I", (key, value))')
    return sorted(told, key=lambda one: repr(one[1][0]))  # stable: the order within a key stays


def _list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise UnlikeError(f"the answer must be {what}")
    return value


def _show_changes(changes: Any) -> str:
    return text([[(tuple(row) if type(row) is list else row, diff) for row, diff in changes]])


def _show_emitted(told: Any) -> str:
    return ", ".join(f"{kind} {' '.join(map(str, row))}" for kind, row in told) or "nothing"


def each(shape: Shape) -> Shape:
    """Return the shape of a list with one answer of this shape for each epoch."""
    return Shape(
        lambda epochs: [shape.like(one) for one in _list(epochs, "a list of epochs")],
        lambda epochs: " | ".join(map(shape.show, epochs)),
    )


BAG = Shape(_like_bag, _show_changes)
"""A list of changes (row, diff). The order is free, and changes may cancel."""
EMITTED = Shape(_like_emitted, _show_emitted)
"""A list of rows such as ("+U", (key, value)). The order across keys is free; the order within a key is not."""
