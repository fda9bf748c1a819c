"""Lab 2: an arrangement and a delta join.

A change is a pair (row, diff): +1 inserts the row, -1 deletes it. A row is a tuple of strings and integers, and its
first column is its key. Each column of a table has one type, so rows can be sorted. Epochs have the numbers 1, 2, 3,
and so on. An entry is a change with its epoch: (row, time, diff).
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter

TABLES = ("info", "visit", "price")


class Arrangement:
    """A table and its recent past, stored once for many readers.

    The attributes `since` and `upper` are epochs. Every epoch from since up to, but not including, upper can be read.
    """

    def __init__(self):
        self.upper = 1  # the first epoch that is not complete
        self.batches = []  # batches (lower, upper, entries), oldest first
        self.handles = {}  # the time of each open handle
        self.opened = 0  # how many handles were opened so far

    @property
    def since(self):
        """The earliest epoch that can be read: the time of the slowest open handle.

        If no handle is open, it is the last complete epoch, upper - 1.
        """
        ### BEGIN SOLUTION task 2: the time of the slowest open handle
        return min(self.handles.values(), default=self.upper - 1)
        ### END SOLUTION

    def insert(self, changes):
        """Store the changes of the next epoch, whose number is upper. After that, upper is larger by 1.

        The first call is epoch 1. The list of changes can be empty: nothing has changed in this epoch.
        """
        ### BEGIN SOLUTION task 1: store one more batch
        entries = [(row, self.upper, diff) for row, diff in changes]
        self.batches.append(self.merge([(self.upper, self.upper + 1, entries)]))
        self.upper += 1
        while len(self.batches) > 1 and len(self.batches[-2][2]) <= 2 * len(self.batches[-1][2]):
            self.batches[-2:] = [self.merge(self.batches[-2:])]
        ### END SOLUTION

    def at(self, key, time=None):
        """Return the rows with this key that are there after epoch `time`: a list of (row, count), in any order.

        A row that is there twice is returned once, with the count 2. Without `time`, read the last complete epoch,
        upper - 1. Epoch 0 is before the first insert, when the table is empty. Raises ValueError unless
        since <= time < upper.

        arrangement.insert([(("Nut", 5), +1), (("Nut", 7), +1), (("Pea", 5), +1)])     # epoch 1
        arrangement.insert([(("Nut", 5), -1), (("Nut", 7), +1)])                       # epoch 2
        arrangement.at("Nut") == [(("Nut", 7), 2)]
        """
        ### BEGIN SOLUTION task 1: add up the entries of this key
        time = self.upper - 1 if time is None else time
        if not self.since <= time < self.upper:
            raise ValueError(f"epoch {time} cannot be read: since is {self.since}, and upper is {self.upper}")
        total = Counter()
        for _, _, entries in self.batches:
            start = bisect_left(entries, key, key=lambda entry: entry[0][0])
            stop = bisect_right(entries, key, key=lambda entry: entry[0][0])
            for row, when, diff in entries[start:stop]:
                if when <= time:
                    total[row] += diff
        return [(row, count) for row, count in total.items() if count]
        ### END SOLUTION

    def handle(self, time):
        """Open a trace handle: from now on, every epoch from `time` on stays readable for its owner.

        Return a number that no other open handle has. Raises ValueError unless since <= time < upper.
        """
        ### BEGIN SOLUTION task 2: open a handle
        if not self.since <= time < self.upper:
            raise ValueError(f"no handle at epoch {time}: since is {self.since}, and upper is {self.upper}")
        self.opened += 1
        self.handles[self.opened] = time
        return self.opened
        ### END SOLUTION

    def advance(self, handle, time):
        """Move an open handle to epoch `time`. Its owner will not read earlier epochs any more.

        Raises ValueError, and moves nothing, if `time` is before the time of the handle, or not before upper.
        """
        ### BEGIN SOLUTION task 2: move the handle forward
        if not self.handles[handle] <= time < self.upper:
            raise ValueError(f"a handle at epoch {self.handles[handle]} cannot move to {time}; upper is {self.upper}")
        self.handles[handle] = time
        ### END SOLUTION

    def close(self, handle):
        """Close an open handle."""
        ### BEGIN SOLUTION task 2: close the handle
        del self.handles[handle]
        ### END SOLUTION

    def merge(self, batches):
        """Return one batch in place of several adjacent ones. Only your own code calls this method."""
        ### BEGIN SOLUTION task 3: add up what no reader can tell apart
        total = Counter()
        for _, _, entries in batches:
            for row, time, diff in entries:
                total[row, max(time, self.since)] += diff
        entries = sorted((row, time, diff) for (row, time), diff in total.items() if diff)
        return batches[0][0], batches[-1][1], entries
        ### END SOLUTION

    def compact(self):
        """Merge all batches into one, with as few entries as possible. No answer of `at` changes.

        It is not called before the first insert.

        An epoch before since counts as since. The entries of one row at one epoch become one entry, whose diff is
        their sum, or none if they add up to 0.
        """
        ### BEGIN SOLUTION task 3: merge all batches
        if self.batches:
            self.batches = [self.merge(self.batches)]
        ### END SOLUTION

    def save(self):
        """Return the batches, oldest first: a list of (lower, upper, entries). A new arrangement has none.

        A batch has the changes of the epochs from lower up to, but not including, upper. The first batch begins at
        epoch 1, each other one begins where the one before it ends, and the last one ends at the arrangement's upper.
        Entries are (row, time, diff), in any order. Tuples may be lists.
        """
        ### BEGIN SOLUTION task 3: return the batches
        return self.batches
        ### END SOLUTION

    def load(self, saved):
        """Continue from the batches that save() has returned, in a new Arrangement, perhaps in another process.

        The batches have travelled as JSON, so tuples have become lists. No handle is open any more.
        """
        ### BEGIN SOLUTION task 3: store the batches, and set upper
        for lower, upper, entries in saved:
            self.batches.append((lower, upper, [(tuple(row), time, diff) for row, time, diff in entries]))
            self.upper = upper
        ### END SOLUTION


class DeltaJoin:
    """info JOIN visit JOIN price by their first column, the product.

    info has rows (product, category), visit has rows (product, length), and price has rows (product, cents). A delta
    join stores no row of a table and no joined row. It looks rows up in the arrangements of the tables.
    """

    def __init__(self, look):
        """`look(table, key, time)` returns the rows of a table with this key after epoch `time`: [(row, count), ...].

        For example, look("visit", "Nut", 3) == [(("Nut", 5), 1), (("Nut", 7), 2)]. It raises ValueError for an epoch
        that cannot be read.
        """
        self.look = look

    def step(self, time, changes):
        """Take the changes of epoch `time`: a dictionary with a list of changes for each of the three tables.

        Return the changes of the result, with rows (product, category, length, cents), in any order. Changes of the
        same row need not be added up. When step is called, the tables have stored the changes of this epoch already.
        `look` can read the epochs time - 1 and time. Between two epochs, the process may be restarted, and a new
        DeltaJoin goes on.

        join.step(4, {"info": [(("Nut", "Fruit"), +1)], "visit": [], "price": []})
            == [(("Nut", "Fruit", 5, 60), +1)]                 # if visit has ("Nut", 5), and price has ("Nut", 60)
        """
        ### BEGIN SOLUTION task 4: each changed table looks up the other two
        out = []
        for place, table in enumerate(TABLES):
            for row, diff in changes[table]:
                paths = [
                    [(row, diff)] if other == table else self.look(other, row[0], time if after > place else time - 1)
                    for after, other in enumerate(TABLES)
                ]
                for (info, n), (visit, m), (price, k) in itertools.product(*paths):
                    out.append(((row[0], info[1], visit[1], price[1]), n * m * k))
        return out
        ### END SOLUTION
