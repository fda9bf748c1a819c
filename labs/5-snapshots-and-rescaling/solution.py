"""Lab 5: snapshots and rescaling.

An operator adds up the rows that arrive on its channels. A row is an int. Each method takes one message, and returns
the list of messages that the operator sends:

    ("out", total)             to the operator below: the new total
    ("barrier", n)             to the operator below: the barrier of snapshot n
    ("snapshot", n, snapshot)  to the storage: what `restore` needs to continue from snapshot n

On each channel, messages arrive in the order in which they were sent. Between two channels there is no order. A barrier
arrives once on each channel. The next snapshot begins when the one before is complete, so barrier n has arrived on all
channels before barrier n + 1 arrives on the first one.

Each method returns a list, also for one message. A message must not change after it was returned.
"""


class Aligned:
    """A sum with aligned barriers: a channel waits from its barrier until the last barrier has arrived."""

    def __init__(self, channels):
        """``channels`` are the names of the channels, such as ["a", "b"]."""
        self.channels = list(channels)
        self.total = 0  # the sum of the rows that were processed
        self.seen = set()  # channels whose barrier has arrived; empty if no barrier is missing
        self.held = []  # rows that wait

    def row(self, channel, n):
        """A row arrives. Return [("out", total)] with the new total, or [] if the row has to wait.

        >>> Aligned(["a", "b"]).row("a", 5)
        [("out", 5)]
        """
        ### BEGIN SOLUTION task 1: add the row, or hold it
        if channel in self.seen:
            self.held.append(n)
            return []
        self.total += n
        return [("out", self.total)]
        ### END SOLUTION

    def barrier(self, channel, n):
        """The barrier of snapshot n arrives. Return [] if it is still missing on another channel.

        After the last one, return ("snapshot", n, total), ("barrier", n), and then the new totals of the rows that
        have waited. Rows of one channel keep their order. Between two channels, any order is right.
        """
        ### BEGIN SOLUTION task 1: wait for the last barrier, save the total, release what waits
        self.seen.add(channel)
        if len(self.seen) < len(self.channels):
            return []
        sent = [("snapshot", n, self.total), ("barrier", n)]
        waiting, self.held, self.seen = self.held, [], set()
        for row in waiting:
            self.total += row
            sent.append(("out", self.total))
        return sent
        ### END SOLUTION

    def restore(self, snapshot):
        """Continue from a snapshot, in a new object. Return the messages that are sent, which are none: []."""
        ### BEGIN SOLUTION task 3: continue from the total
        self.total = snapshot
        return []
        ### END SOLUTION


class Unaligned:
    """A sum whose barriers block no channel. A snapshot is the pair (total, {channel: rows}).

    This is the protocol of Chandy and Lamport. ``total`` is the sum at the first barrier. The rows are those that were
    still in a channel at that moment, and belong to the snapshot. A channel without such rows may be left out.
    """

    def __init__(self, channels):
        """``channels`` are the names of the channels, such as ["a", "b"]."""
        self.channels = list(channels)
        self.total = 0  # the sum of the rows that were processed
        self.seen = set()  # channels whose barrier has arrived; empty if no barrier is missing
        self.saved = 0  # the total at the first barrier
        self.log = {}  # channel -> the rows that are stored with it

    def row(self, channel, n):
        """A row arrives. Return [("out", total)] with the new total, always."""
        ### BEGIN SOLUTION task 2: add the row, and store it if it belongs to the snapshot
        self.total += n
        if self.seen and channel not in self.seen:
            self.log.setdefault(channel, []).append(n)
        return [("out", self.total)]
        ### END SOLUTION

    def barrier(self, channel, n):
        """The barrier of snapshot n arrives. On the first channel, return [("barrier", n)].

        On the last channel, return [("snapshot", n, (total, {channel: rows}))]; on those between, return []. If there
        is only one channel, return both messages, in any order. The rows must not change later: if you clear or reuse
        the dict or its lists, return a copy.
        """
        ### BEGIN SOLUTION task 2: save the total at the first barrier, and end at the last one
        sent = []
        if not self.seen:
            self.saved, self.log = self.total, {}
            sent.append(("barrier", n))
        self.seen.add(channel)
        if len(self.seen) == len(self.channels):
            sent.append(("snapshot", n, (self.saved, self.log)))
            self.seen = set()
        return sent
        ### END SOLUTION

    def restore(self, snapshot):
        """Continue from a snapshot, in a new object. Process the stored rows, and return their new totals.

        Rows of one channel keep their order. Between two channels, any order is right. The snapshot has travelled as
        JSON, so the pair has become a list.

        >>> Unaligned(["a", "b"]).restore([5, {"b": [1, 2]}])
        [("out", 6), ("out", 8)]
        """
        ### BEGIN SOLUTION task 3: continue from the total, and process the rows of the channels
        self.total, log = snapshot
        return [message for channel, rows in log.items() for n in rows for message in self.row(channel, n)]
        ### END SOLUTION


def plan(owners, workers, steps):
    """Return the moves that rescale a job to ``workers`` workers, as a list of at most ``steps`` steps.

    ``owners`` has the worker of each bin: bin 0 belongs to owners[0]. Workers are numbered from 0, and they may become
    more or fewer. A step is a list of moves (bin, old, new). After all steps, two workers differ by at most one bin,
    and no other plan moves fewer bins. If m bins move, no step has more than m / steps of them, rounded up.
    Steps may be empty, and if no bin moves, [] is a plan. The list ``owners`` is not changed.

    >>> plan([0, 0, 0, 0], 2, 2)
    [[(0, 0, 1)], [(1, 0, 1)]]
    """
    ### BEGIN SOLUTION task 4: move from the largest worker to the smallest, in steps of equal size
    now, moves = list(owners), []
    while True:
        sizes = {worker: now.count(worker) for worker in {*now, *range(workers)}}
        least = min(range(workers), key=sizes.get)
        most = max(sizes, key=lambda worker: (worker >= workers, sizes[worker]))
        if most < workers and sizes[most] <= sizes[least] + 1:
            break
        bin = now.index(most)
        moves.append((bin, most, least))
        now[bin] = least
    size = -(-len(moves) // steps) or 1
    return [moves[at : at + size] for at in range(0, len(moves), size)]
    ### END SOLUTION


class Worker:
    """A worker that adds up the rows of its bins, and moves bins. Several sources send it rows.

    To move a bin, each source sends a Move to the old owner and to the new one. Before it, the source sends the rows of
    the bin to the old owner, and after it, to the new one. The methods return lists of these messages:

        ("out", bin, total)           to the operator below: the new total of the bin
        ("state", worker, bin, total) to another worker: its method `take` is called with bin and total

    The state comes through a channel of its own, so it can arrive before a Move, between two Moves, or after rows.
    Before a bin moves again, the job waits until the state and all Moves of the last time have arrived, at both
    workers. The worker need not check this.
    """

    def __init__(self, me, sources, bins):
        """``me`` is the number of this worker, ``sources`` the names of all sources, ``bins`` the bins that it owns."""
        self.me, self.sources = me, list(sources)
        self.totals = dict.fromkeys(bins, 0)  # bin that is here -> its total
        self.held = {}  # bin that is expected -> the rows that wait for it
        self.moves = {}  # bin that is about to leave -> the sources whose Move has arrived

    def row(self, bin, n):
        """A row of a bin arrives. Return [("out", bin, total)], or [] if the state of the bin is still to arrive.

        Raises ValueError, and changes nothing, if the bin is not here and no Move has announced it, also if it was here
        before. Such a row is a mistake of a source.
        """
        ### BEGIN SOLUTION task 5: add the row, hold it, or refuse it
        if bin in self.totals:
            self.totals[bin] += n
            return [("out", bin, self.totals[bin])]
        if bin not in self.held:
            raise ValueError(f"worker {self.me} has received a row of bin {bin}, which it neither owns nor expects")
        self.held[bin].append(n)
        return []
        ### END SOLUTION

    def move(self, source, bin, old, new):
        """The Move of a bin from worker ``old`` to worker ``new`` arrives on the channel of a source.

        The old owner returns [("state", new, bin, total)] when the Move of every source has arrived, and [] before.
        From then on, the bin is not here. The new owner returns [], and from the first Move on it expects the bin.
        """
        ### BEGIN SOLUTION task 5: give the bin away, or expect it
        if new == self.me:
            if bin not in self.totals:
                self.held.setdefault(bin, [])
            return []
        self.moves.setdefault(bin, set()).add(source)
        if len(self.moves[bin]) < len(self.sources):
            return []
        del self.moves[bin]
        return [("state", new, bin, self.totals.pop(bin))]
        ### END SOLUTION

    def take(self, bin, total):
        """The state of a bin arrives from its old owner. Return the new totals of the rows that have waited for it."""
        ### BEGIN SOLUTION task 5: take the bin, and add what has waited
        self.totals[bin] = total
        return [message for n in self.held.pop(bin, []) for message in self.row(bin, n)]
        ### END SOLUTION

    def owned(self):
        """Return the bins that are here now, with their totals: a list of pairs (bin, total), in any order.

        A dict or its `items()` is not a list.
        """
        ### BEGIN SOLUTION task 5: return the bins that are here
        return list(self.totals.items())
        ### END SOLUTION
