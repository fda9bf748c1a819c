"""Lab 3: Count and Max share a base class, which asks once. Missing keys are None."""


class Table:
    def __init__(self):
        self.all = []

    def write(self, key, diff):
        self.all.append((key, diff))
        return [("change", key, diff)]

    def question(self, key, then):
        return [("answer", key, sum(diff for one, diff in self.all if one == key))]


class Partial:
    def __init__(self):
        self.state = {}
        self.open = {}

    def ask(self, key):
        first = key not in self.open
        self.open[key] = self.open.get(key, 0)
        return [("question", key)] * first

    def question(self, key):
        if self.state.get(key) is not None:
            return [self.told(key)]
        out = self.ask(key)
        self.open[key] += 1
        return out

    def evict(self, key):
        self.state[key] = None
        return [("evict", key)]


class Count(Partial):
    def told(self, key):
        return "answer", key, self.state[key]

    def change(self, key, diff):
        if self.state.get(key) is None:
            return []
        self.state[key] += diff
        return [("change", key, diff)]

    def answer(self, key, n):
        self.open.pop(key, None)
        self.state[key] = n
        return [self.told(key)]


class Max(Partial):
    def __init__(self):
        super().__init__()
        self.below = {}

    def told(self, key):
        return "answer", key, self.state[key][:1]

    def change(self, key, value, diff):
        there = self.state.get(key)
        if there is None:
            return []
        if diff > 0 and (not there or value > there[0]):
            self.state[key] = [value]
            return [("change", key, old, -1) for old in there[:1]] + [("change", key, value, 1)]
        if there and value == there[0]:
            if diff > 0:
                there.append(value)
            else:
                there.pop()
                if not there:
                    self.state[key] = None
                    self.below[key] = value
                    return self.ask(key)
        return []

    def answer(self, key, values):
        top = [value for value in values if value == max(values)]
        self.state[key] = top
        out = []
        if key in self.below:
            out.append(("change", key, self.below.pop(key), -1))
            out += [("change", key, value, +1) for value in top[:1]]
        if self.open.pop(key, 0):
            out.append(self.told(key))
        return out

    def evict(self, key):
        self.below.pop(key, None)
        return super().evict(key)


class Union:
    def __init__(self):
        self.left, self.right, self.open = {}, {}, set()

    def half(self, side):
        return self.left if side == "left" else self.right

    def change(self, side, key, diff):
        half = self.half(side)
        if key in half:
            half[key] += diff
        return [("change", key, diff)]

    def question(self, key):
        if key in self.open:
            return []
        self.open.add(key)
        return [("question", "right", key), ("question", "left", key)]

    def answer(self, side, key, n):
        self.half(side)[key] = n
        if key in self.left and key in self.right:
            self.open.remove(key)
            return [("answer", key, self.left.pop(key) + self.right.pop(key))]
        return []

    def evict(self, side, key):
        again = self.half(side).pop(key, None) is not None
        return [("question", side, key)] * again + [("evict", key)]
