"""Lab 3: operators keep logs, and compute from them. Max answers every reread, and sends both changes even if equal."""

import collections

HOLE = object()


class Table(collections.Counter):
    def write(self, key, diff):
        self[key] += diff
        return [("change", key, diff)]

    def question(self, key, then):
        del then  # older than the changes that were sent
        return [("answer", key, self[key])]


class Count:
    def __init__(self):
        self.log = {}
        self.waiting = []

    def change(self, key, diff):
        log = self.log.get(key, HOLE)
        if log is HOLE:
            return []
        log.append(diff)
        return [("change", key, diff)]

    def question(self, key):
        try:
            return [("answer", key, sum(self.log[key]))]
        except KeyError:
            if key in self.waiting:
                return []
            self.waiting.append(key)
            return [("question", key)]

    def answer(self, key, n):
        if key in self.waiting:
            self.waiting.remove(key)
        self.log[key] = [n]
        return [("answer", key, n)]

    def evict(self, key):
        if key in self.log:
            del self.log[key]
        return [("evict", key)]


class Max:
    def __init__(self):
        self.tops = {}
        self.waiting = collections.defaultdict(set)

    def change(self, key, value, diff):
        tops = self.tops.get(key)
        if tops is None:
            return []
        old, tops = tops[:1], [*tops]
        if diff < 0:
            if value not in tops:
                return []
            tops.remove(value)
            if not tops:
                del self.tops[key]
                self.waiting[key].add(value)
                return [("question", key)]
        elif not tops or value >= tops[0]:
            tops = [*(t for t in tops if t == value), value]
        self.tops[key] = tops
        if old == tops[:1]:
            return []
        return [("change", key, one, -1) for one in old] + [("change", key, one, +1) for one in tops[:1]]

    def question(self, key):
        if key in self.tops:
            return [("answer", key, self.tops[key][:1])]
        known = key in self.waiting
        self.waiting[key].add("a reader")
        return [] if known else [("question", key)]

    def answer(self, key, values):
        self.tops[key] = [value for value in values if value == max(values)]
        waiting = self.waiting.pop(key, set())
        out = []
        for value in waiting - {"a reader"}:
            out += [("change", key, one, +1) for one in self.tops[key][:1]]
            out += [("change", key, value, -1)]
        if "a reader" in waiting:
            out.append(("answer", key, self.tops[key][:1]))
        return out

    def evict(self, key):
        self.tops.pop(key, None)
        if key in self.waiting:
            self.waiting[key] &= {"a reader"}
        return [("evict", key)]


class Union:
    def __init__(self):
        self.log = {}

    def change(self, side, key, diff):
        if key in self.log and side in (one for one, _ in self.log[key]):
            self.log[key].append((side, diff))
        return [("change", key, diff)]

    def question(self, key):
        if key in self.log:
            return []
        self.log[key] = []
        return [("question", "left", key), ("question", "right", key)]

    def answer(self, side, key, n):
        self.log[key].append((side, n))
        if {one for one, _ in self.log[key]} != {"left", "right"}:
            return []
        return [("answer", key, sum(n for _, n in self.log.pop(key)))]

    def evict(self, side, key):
        held = [one for one in self.log.get(key, []) if one[0] == side]
        if held:
            self.log[key] = [one for one in self.log[key] if one[0] != side]
            return [("evict", key), ("question", side, key)]
        return [("evict", key)]
