"""Lab 5: operators keep all messages that they have received, and compute from them what they have to send."""


class Operator:
    def __init__(self, channels):
        self.channels, self.log, self.base = channels, [], 0

    def barriers(self, n):
        return [entry for entry in self.log if entry[0] == "barrier" and entry[2] == n]

    def before(self, entry_at):
        """How many barriers stand before an entry in its channel."""
        _, channel, _ = self.log[entry_at]
        return sum(kind == "barrier" and name == channel for kind, name, _ in self.log[:entry_at])


class Aligned(Operator):
    def complete(self):
        """How many snapshots have all barriers."""
        many = 0
        while len(self.barriers(self.first + many)) == len(self.channels):
            many += 1
        return many

    first = 1

    def processed(self):
        """The rows that are processed so far, in their order."""
        done, order = self.complete(), []
        for at, (kind, _, n) in enumerate(self.log):
            if kind == "row" and self.before(at) <= done:
                order.append((self.before(at), at, n))
        return [n for _, _, n in sorted(order)]

    def outs(self, many):
        """The totals of the rows after the first so many."""
        rows = self.processed()
        return [("out", self.base + sum(rows[:at])) for at in range(many + 1, len(rows) + 1)]

    def row(self, channel, n):
        many = len(self.processed())
        self.log.append(("row", channel, n))
        return self.outs(many)

    def barrier(self, channel, n):
        if not self.barriers(n) and n != self.first + self.complete():
            self.first = n
        many, done = len(self.processed()), self.complete()
        total = self.base + sum(self.processed())
        self.log.append(("barrier", channel, n))
        if self.complete() == done:
            return []
        return [("snapshot", n, total), ("barrier", n), *self.outs(many)]

    def restore(self, snapshot):
        self.base = snapshot
        return []


class Unaligned(Operator):
    def total(self, log):
        return self.base + sum(n for kind, _, n in log if kind == "row")

    def row(self, channel, n):
        self.log.append(("row", channel, n))
        return [("out", self.total(self.log))]

    def barrier(self, channel, n):
        first = not self.barriers(n)
        self.log.append(("barrier", channel, n))
        sent = [("barrier", n)] if first else []
        if len(self.barriers(n)) == len(self.channels):
            sent.append(("snapshot", n, self.snapshot(n)))
        return sent

    def snapshot(self, n):
        begin = self.log.index(self.barriers(n)[0])
        stored = {}
        for channel in self.channels:
            end = self.log.index(("barrier", channel, n))
            rows = [x for kind, name, x in self.log[begin:end] if kind == "row" and name == channel]
            if rows:
                stored[channel] = rows
        return self.total(self.log[:begin]), stored

    def restore(self, snapshot):
        self.base, stored = snapshot
        rows = [(channel, n) for channel in stored for n in stored[channel]]
        return [self.row(channel, n)[0] for channel, n in rows]


def plan(owners, workers, steps):
    """Give each worker its share in turn, the largest first, and deal the moves out like cards."""
    bins = {worker: [bin for bin, owner in enumerate(owners) if owner == worker] for worker in range(workers)}
    spare = [bin for bin, owner in enumerate(owners) if owner >= workers]
    order = sorted(bins, key=lambda worker: -len(bins[worker]))
    for place, worker in enumerate(order):
        share = len(owners) // workers + (place < len(owners) % workers)
        while len(bins[worker]) > share:
            spare.append(bins[worker].pop())
        bins[worker] = len(bins[worker]), share
    moves = []
    for worker in order:
        have, share = bins[worker]
        moves += [[spare.pop(), None, worker] for _ in range(share - have)]
    dealt = [[] for _ in range(steps)]
    for at, (bin, _, new) in enumerate(moves):
        dealt[at % steps].append([bin, owners[bin], new])
    return [step for step in dealt if step]


class Worker:
    def __init__(self, me, sources, bins):
        self.me, self.sources, self.log = me, sources, [("take", bin, 0) for bin in bins]

    def here(self, bin):
        """Whether the bin is here, its total, and its rows that wait."""
        inside, total, waiting, moves = False, 0, [], 0
        for kind, at, *given in self.log:
            if at != bin:
                continue
            if kind == "take":
                inside, total, waiting = True, given[0] + sum(waiting), []
            elif kind == "row" and inside:
                total += given[0]
            elif kind == "row":
                waiting.append(given[0])
            elif given[1] == self.me:
                moves += 1
                if moves % len(self.sources) == 0:
                    inside = False
        return inside, total, waiting

    def expected(self, bin):
        """Whether the last thing that has happened to the bin is a Move to this worker."""
        events = [entry for entry in self.log if entry[1] == bin and entry[0] != "row"]
        return bool(events) and events[-1][0] == "move" and events[-1][4] == self.me

    def row(self, bin, n):
        if not self.here(bin)[0] and not self.expected(bin):
            raise ValueError(bin)
        self.log.append(("row", bin, n))
        inside, total, _ = self.here(bin)
        return [("out", bin, total)] if inside else []

    def move(self, source, bin, old, new):
        before, total, _ = self.here(bin)
        self.log.append(("move", bin, source, old, new))
        return [("state", new, bin, total)] if before and not self.here(bin)[0] else []

    def take(self, bin, total):
        waiting = self.here(bin)[2]
        self.log.append(("take", bin, total))
        return [("out", bin, total + sum(waiting[: at + 1])) for at in range(len(waiting))]

    def owned(self):
        bins = {entry[1] for entry in self.log}
        return [(bin, self.here(bin)[1]) for bin in bins if self.here(bin)[0]]
