"""Lab 3: upqueries and their races.

Operators send messages. A question goes up, to the operator above. All other messages go down, to all operators below:

    ("question", key)      how many rows does this key have?
    ("answer", key, n)     the key has n rows
    ("change", key, diff)  a row of the key was inserted (diff is +1) or deleted (diff is -1)
    ("evict", key)         the operator above has forgotten this key

Each method takes one message, and returns the list of messages that the operator sends. On each line between two
operators, messages arrive in the order in which they were sent. Messages on different lines arrive in any order.
"""

from collections import Counter


class Table:
    """A base table. It stores all keys, so it never sends a question."""

    def __init__(self):
        self.rows = Counter()  # key -> its number of rows

    def write(self, key, diff):
        """Insert (diff is +1) or delete (diff is -1) a row of the key. Return one change.

        >>> Table().write("Nut", +1)
        [("change", "Nut", 1)]
        """
        ### BEGIN SOLUTION task 1: store the change and send it
        self.rows[key] += diff
        return [("change", key, diff)]
        ### END SOLUTION

    def question(self, key, then):
        """Return one answer.

        The checks add ``then``, the number of rows that the key had when a reader asked the view. Before task 3, the
        key still has as many rows, because no row is written while a question is on its way. Task 3 asks which number
        the answer needs if a row is written.

        >>> Table().question("Nut", 0)
        [("answer", "Nut", 0)]
        """
        ### BEGIN SOLUTION task 1: answer
        return [("answer", key, self.rows[key])]
        ### END SOLUTION


class Count:
    """The number of rows of each key that was asked for. All other keys are holes."""

    def __init__(self):
        self.n = {}  # filled key -> its number of rows
        self.asked = set()  # keys that the operator above was asked for, and has not answered yet

    def change(self, key, diff):
        """A change arrives from above. At a filled key, apply it and return it. At a hole, drop it and return []."""
        ### BEGIN SOLUTION task 1: apply a change to a filled key
        if key not in self.n:
            return []
        self.n[key] += diff
        return [("change", key, diff)]
        ### END SOLUTION

    def question(self, key):
        """A question arrives from below.

        Return [("answer", key, n)] if the key is filled, [("question", key)] if it is a hole, and [] if it is a hole
        that the operator above was asked for already.
        """
        ### BEGIN SOLUTION task 1: answer, or ask once
        if key in self.n:
            return [("answer", key, self.n[key])]
        if key in self.asked:
            return []
        self.asked.add(key)
        return [("question", key)]
        ### END SOLUTION

    def answer(self, key, n):
        """The answer of the operator above arrives. Fill the key, and return one answer for all readers below."""
        ### BEGIN SOLUTION task 1: fill the key
        self.asked.discard(key)
        self.n[key] = n
        return [("answer", key, n)]
        ### END SOLUTION

    def evict(self, key):
        """Forget the number of the key. Return [("evict", key)], also if the key is a hole already.

        A question that was sent up is not taken back, and not sent again: its answer will fill the key.
        """
        ### BEGIN SOLUTION task 2: forget it, and tell the operators below
        self.n.pop(key, None)
        return [("evict", key)]
        ### END SOLUTION


class Max:
    """The largest value of each key that was asked for. Here, rows have values, which can be any integers:

        ("change", key, value, diff)   a row with this value was inserted or deleted
        ("answer", key, values)        all values of the key, each as often as it is there, in any order

    Max sends messages of the same form, in which a key has one value, or none. For a filled key it stores one number,
    and how often it is there. It does not store the smaller values.
    """

    def __init__(self):
        self.top = {}  # filled key -> (largest value, how often it is there); (None, 0) if the key has no rows
        self.asked = set()  # keys that the operator above was asked for, and has not answered yet
        self.readers = set()  # those of them that an operator below waits for
        self.sent = {}  # key that is read again -> the value that was sent down last

    def change(self, key, value, diff):
        """A change arrives from above. Return [] if the key is a hole, or if its largest value stays the same.

        If the value is larger, return the change of the result:
        [("change", key, old, -1), ("change", key, value, +1)], without the first if the key had no rows.

        If the last row with the largest value is deleted, the next value is not known here. The key becomes a hole,
        and is read again: return [("question", key)]. The operators below get the change when the answer has arrived.
        """
        ### BEGIN SOLUTION task 4: compare with the largest value
        if key not in self.top:
            return []
        top, count = self.top[key]
        if top is None or value > top:
            self.top[key] = (value, 1)
            return change_of(key, top, value)
        if value < top:
            return []
        if count + diff:
            self.top[key] = (top, count + diff)
            return []
        del self.top[key]
        self.sent[key] = top
        self.asked.add(key)
        return [("question", key)]
        ### END SOLUTION

    def question(self, key):
        """A question arrives from below. Return an answer, a question or [], as Count does.

        A key that is read again is a hole, and was asked for already.
        An answer is ("answer", key, [value]), or ("answer", key, []) if the key has no rows.
        """
        ### BEGIN SOLUTION task 4: answer, or ask once
        if key in self.top:
            return [("answer", key, values_of(self.top[key][0]))]
        self.readers.add(key)
        if key in self.asked:
            return []
        self.asked.add(key)
        return [("question", key)]
        ### END SOLUTION

    def answer(self, key, values):
        """The answer of the operator above arrives: fill the key.

        If the key was read again, return the changes from the value that was sent down last to the new one, or nothing
        if they are equal. If an operator below has asked, return an answer as well, after the changes.
        """
        ### BEGIN SOLUTION task 4: fill the key, and correct what was sent before
        top = max(values, default=None)
        self.top[key] = (top, values.count(top))
        self.asked.discard(key)
        out = change_of(key, self.sent.pop(key), top) if key in self.sent else []
        if key in self.readers:
            self.readers.remove(key)
            out.append(("answer", key, values_of(top)))
        return out
        ### END SOLUTION

    def evict(self, key):
        """Forget the value of the key. Return [("evict", key)], also if the key is a hole already.

        A question that was sent up is not taken back, and not sent again. Its answer will fill the key. If an operator
        below has asked, even before the eviction, `answer` then returns an answer. It returns no changes, because the
        operators below have forgotten the key, too.
        """
        ### BEGIN SOLUTION task 4: forget the value, also the one that was sent
        self.top.pop(key, None)
        self.sent.pop(key, None)
        return [("evict", key)]
        ### END SOLUTION


def values_of(top):
    """Return the values of a key whose largest value is ``top``, as in the answer of Max: one or none."""
    return [] if top is None else [top]


def change_of(key, old, new):
    """Return the messages that change the value of a key from ``old`` to ``new``. None: the key has no value.

    >>> change_of("Nut", 5, 7)
    [("change", "Nut", 5, -1), ("change", "Nut", 7, 1)]
    """
    if old == new:
        return []
    return [("change", key, value, diff) for value, diff in ((old, -1), (new, +1)) if value is not None]


class Union:
    """UNION ALL of two inputs, "left" and "right". It stores nothing but the answers that wait for the other half.

    ``side`` is the input that a message arrives from. A question names the input that it goes to.
    """

    def __init__(self):
        self.halves = {}  # key that was asked for -> {side: n} of the sides that have answered

    def change(self, side, key, diff):
        """A change arrives from one side. Return [("change", key, diff)], always: the operators below may be filled."""
        ### BEGIN SOLUTION task 5: is the change in the answer of its side?
        if side in self.halves.get(key, {}):
            self.halves[key][side] += diff
        return [("change", key, diff)]
        ### END SOLUTION

    def question(self, key):
        """A question arrives from below. Return [("question", "left", key), ("question", "right", key)].

        Return [] if the sides were asked for this key already, and the whole answer is not there yet.
        """
        ### BEGIN SOLUTION task 5: ask both sides
        if key in self.halves:
            return []
        self.halves[key] = {}
        return [("question", side, key) for side in ("left", "right")]
        ### END SOLUTION

    def answer(self, side, key, n):
        """The answer of one side to a question of this union arrives.

        Return [("answer", key, total)] if the other half is there, else [].
        """
        ### BEGIN SOLUTION task 5: wait for both halves
        self.halves[key][side] = n
        if len(self.halves[key]) < 2:
            return []
        return [("answer", key, sum(self.halves.pop(key).values()))]
        ### END SOLUTION

    def evict(self, side, key):
        """One side has forgotten the key, and no longer sends its changes. Return [("evict", key)].

        If the union holds the half of this side, the half is out of date from now on. Forget it and ask this side
        again: add ("question", side, key) to what is returned, before or after the evict.
        """
        ### BEGIN SOLUTION task 5: a half that is no longer kept up to date
        out = [("evict", key)]
        if side in self.halves.get(key, {}):
            del self.halves[key][side]
            out.append(("question", side, key))
        return out
        ### END SOLUTION
