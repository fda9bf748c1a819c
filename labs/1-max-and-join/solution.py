"""Lab 1: a retractable MAX and a symmetric join.

A change is a pair (row, diff): +1 inserts the row, -1 deletes it. A row is a tuple. An epoch is a list of changes, in
any order.
"""

from collections import Counter, defaultdict


def net(changes):
    """Return a list of each row with the sum of its diffs, without rows whose sum is 0. The order is free."""
    ### BEGIN SOLUTION task 1: add up the diffs of each row
    total = Counter()
    for row, diff in changes:
        total[row] += diff
    return [(row, diff) for row, diff in total.items() if diff]
    ### END SOLUTION


class Join:
    """info JOIN visit by their first column. info has rows (product, category), visit has rows (product, length)."""

    def __init__(self):
        self.info = defaultdict(Counter)  # product -> Counter of rows
        self.visit = defaultdict(Counter)

    def step(self, info, visit):
        """Take the changes of one epoch. Return a list of the result's changes: rows (product, category, length)."""
        ### BEGIN SOLUTION task 2: each change meets the rows of the other side
        out = []
        for (product, category), diff in info:
            for (_, length), count in self.visit[product].items():
                out.append(((product, category, length), diff * count))
            self.info[product][product, category] += diff
        for (product, length), diff in visit:
            for (_, category), count in self.info[product].items():
                out.append(((product, category, length), diff * count))
            self.visit[product][product, length] += diff
        return net(out)
        ### END SOLUTION


class Max:
    """SELECT key, MAX(value) ... GROUP BY key, over rows (key, value)."""

    def __init__(self):
        self.values = defaultdict(Counter)  # key -> Counter of values
        self.emitted = {}  # key -> the value that was emitted last

    def step(self, changes):
        """Take the changes of one epoch. Return what changes in the result, at most once for each key:

        ("+I", (key, new)) for a new group, ("-D", (key, old)) for a group that is gone, and ("-U", (key, old))
        followed by ("+U", (key, new)) for a changed value.
        """
        ### BEGIN SOLUTION task 3: keep all values, and emit the difference once for each key
        for (key, value), diff in net(changes):
            self.values[key][value] += diff
            if not self.values[key][value]:
                del self.values[key][value]
        out = []
        for key in dict.fromkeys(key for (key, _), _ in changes):
            new, old = max(self.values[key], default=None), self.emitted.get(key)
            if new is None:
                del self.values[key]
                self.emitted.pop(key, None)
            else:
                self.emitted[key] = new
            if old is None and new is not None:
                out.append(("+I", (key, new)))
            elif old is not None and new is None:
                out.append(("-D", (key, old)))
            elif old != new:
                out += [("-U", (key, old)), ("+U", (key, new))]
        return out
        ### END SOLUTION

    def save(self):
        """Return the state as JSON values: one entry (key, value, count) for each value that is in a group."""
        ### BEGIN SOLUTION task 4: one entry for each value
        return [(key, value, count) for key, values in self.values.items() for value, count in values.items()]
        ### END SOLUTION

    def load(self, saved):
        """Continue from a state that save() has returned, perhaps in another process. Tuples have become lists."""
        ### BEGIN SOLUTION task 4: restore all that step needs
        for key, value, count in saved:
            self.values[key][value] = count
        self.emitted = {key: max(values) for key, values in self.values.items()}
        ### END SOLUTION
