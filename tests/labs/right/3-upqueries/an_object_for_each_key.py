"""Lab 3: each key has an object of its own, which is hole, asked or filled."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Table:
    n: dict = field(default_factory=dict)

    def write(self, key, diff):
        self.n.setdefault(key, 0)
        self.n[key] += diff
        return [("change", key, diff)]

    def question(self, key, _):
        return [("answer", key, self.n.get(key, 0))]


@dataclass
class Slot:
    filled: bool = False
    asked: bool = False
    wanted: bool = False
    n: int = 0
    top: int | None = None
    sent: int | None = None
    again: bool = False


class Count:
    def __init__(self):
        self.slots = defaultdict(Slot)

    def change(self, key, diff):
        slot = self.slots[key]
        if not slot.filled:
            return []
        slot.n += diff
        return [("change", key, diff)]

    def question(self, key):
        slot = self.slots[key]
        if slot.filled:
            return [("answer", key, slot.n)]
        if not slot.asked:
            slot.asked = True
            return [("question", key)]
        return []

    def answer(self, key, n):
        self.slots[key] = Slot(filled=True, n=n)
        return [("answer", key, n)]

    def evict(self, key):
        self.slots[key].filled = False
        return [("evict", key)]


class Max:
    def __init__(self):
        self.slots = defaultdict(Slot)

    def change(self, key, value, diff):
        slot = self.slots[key]
        if not slot.filled:
            return []
        if slot.top is None or value > slot.top:
            out = [] if slot.top is None else [("change", key, slot.top, -1)]
            slot.top, slot.n = value, diff
            return [*out, ("change", key, value, diff)]
        if value == slot.top:
            slot.n += diff
            if slot.n == 0:
                self.slots[key] = Slot(asked=True, again=True, sent=value)
                return [("question", key)]
        return []

    def question(self, key):
        slot = self.slots[key]
        if slot.filled:
            return [("answer", key, [] if slot.top is None else [slot.top])]
        out = [] if slot.asked else [("question", key)]
        slot.asked = slot.wanted = True
        return out

    def answer(self, key, values):
        was, top = self.slots[key], max(values) if values else None
        self.slots[key] = Slot(filled=True, top=top, n=values.count(top))
        out = []
        if was.again and top != was.sent:
            out.append(("change", key, was.sent, -1))
            if top is not None:
                out.append(("change", key, top, +1))
        return out + [("answer", key, values and [top])] * was.wanted

    def evict(self, key):
        slot = self.slots[key]
        slot.filled, slot.again, slot.sent = False, False, None
        return [("evict", key)]


class Union:
    def __init__(self):
        self.open = defaultdict(dict)

    def change(self, side, key, diff):
        half = self.open[key].get(side)
        if half is not None:
            self.open[key][side] = half + diff
        return [("change", key, diff)]

    def question(self, key):
        if self.open[key]:
            return []
        self.open[key] = {"left": None, "right": None}
        return [("question", side, key) for side in self.open[key]]

    def answer(self, side, key, n):
        self.open[key][side] = n
        halves = list(self.open[key].values())
        if None in halves:
            return []
        self.open[key] = {}
        return [("answer", key, sum(halves))]

    def evict(self, side, key):
        if self.open[key].get(side) is None:
            return [("evict", key)]
        self.open[key][side] = None
        return [("evict", key), ("question", side, key)]
