"""The hidden checks of lab 5. Students do not get this file."""

import itertools
import random
from collections import Counter

from checks import (
    CRASH,
    PLAIN,
    after_crash,
    before_crash,
    like_owned,
    like_plan,
    like_recovered,
    never_crashed,
    placed,
    played,
    playing,
    show_owned,
    show_recovered,
    trace,
)

from grader.lab import Case, Shape, UnlikeError, check, drawn

SECRET = "public"


@check("unaligned.log", task=2, rule=24)
def stored_again(student):
    """Three channels and three snapshots are as right as two."""
    for n in range(20):
        order = drawn_order(random.Random(f"log {SECRET} {n}"), "abc", 3, 9)
        yield from playing(student, "Unaligned", "abc", [order])


def drawn_order(draw, channels, snapshots, rows):
    """An order with drawn rows."""
    values = iter(draw.sample(range(1, 1000), rows * len(channels)))
    order = []
    for n in range(1, snapshots + 1):
        streams = []
        for channel in channels:
            before = [("row", channel, next(values)) for _ in range(draw.randrange(rows // snapshots + 1))]
            streams.append([*before, ("barrier", channel, n)])
        while any(streams):
            order.append(draw.choice([stream for stream in streams if stream]).pop(0))
    return order


@check("restore.process", task=3, rule=23, cpu=5)
def restored_process(student):
    """The snapshot is enough to continue in another process."""
    one, *two, three, four = drawn(f"{SECRET} rows", 5, 10, 999)
    order = [("row", "a", one), ("barrier", "a", 1), *(("row", "b", n) for n in two), ("barrier", "b", 1)]
    order += [("row", "a", three), ("row", "b", four)]
    sources = {n: channel for _, channel, n, _ in placed(order)}
    both = ("Aligned", "Unaligned")

    shape = Shape(
        lambda ends: [like_recovered(sources, end) for end in ends], lambda ends: " | ".join(map(show_recovered, ends))
    )
    for where in ("object", "process"):

        def ask(where=where):
            before = [before_crash(student, cls, "ab", order) for cls in both]
            if where == "process":
                student.restart()
            return [after_crash(student, cls, "ab", *kept) for cls, kept in zip(both, before, strict=True)]

        shown = f"both: {trace(order)}{CRASH} in another {where}"
        yield Case(shown, [never_crashed(cls, order) for cls in both], ask, shape)


class Job:
    """Workers, the sources s and t, and the channels between them."""

    def __init__(self, student, workers, owners):
        self.owners, self.lines = list(owners), {}
        owned = [[bin for bin, owner in enumerate(owners) if owner == me] for me in range(workers)]
        self.workers = [student.new("Worker", me, ["s", "t"], bins) for me, bins in enumerate(owned)]

    def send(self, sender, receiver, *call):
        self.lines.setdefault((sender, receiver), []).append(call)

    def step(self, draw, moves, before, after):
        """The sources send rows (source, bin, n), the Moves of a step, and more rows.

        Then everything is delivered, in a drawn order. Yields after each delivery.
        """
        for source, bin, n in before:
            self.send(source, self.owners[bin], "row", bin, n)
        for (bin, old, new), source in itertools.product(moves, ("s", "t")):
            self.send(source, old, "move", source, bin, old, new)
            self.send(source, new, "move", source, bin, old, new)
            self.owners[bin] = new
        for source, bin, n in after:
            self.send(source, self.owners[bin], "row", bin, n)
        while lines := [line for line, calls in self.lines.items() if calls]:
            sender, receiver = draw.choice(sorted(lines, key=str))
            call = self.lines[sender, receiver].pop(0)
            for kind, *given in played("Worker", self.workers[receiver], [call])[0]:
                if kind == "state":
                    worker, bin, total = given
                    if worker not in range(len(self.workers)):
                        raise UnlikeError(f"worker {receiver} sends a bin to worker {worker}, which does not exist")
                    self.send(receiver, worker, "take", bin, total)
            yield

    def owned(self):
        """What each worker owns."""
        return [like_owned(worker.owned()) for worker in self.workers]

    def places(self):
        """Where each bin is, as text, and whether it is in one place."""
        owned = self.owned()
        sent = [call[1] for calls in self.lines.values() for call in calls if call[0] == "take"]
        found = [bin for pairs in owned for bin, _ in pairs] + sent
        shown = [f"worker {me} owns {show_owned(pairs)}" for me, pairs in enumerate(owned)]
        return "; ".join([*shown, f"sent: {sent}"]), sorted(found) == list(range(len(self.owners)))


def drawn_rows(draw, bins):
    """Rows of both sources, before and after the Moves of a step."""
    return [
        [(draw.choice("st"), draw.randrange(bins), draw.randrange(1, 100)) for _ in range(draw.randrange(5))]
        for _ in ("before", "after")
    ]


@check("owner", task=5, rule=26)
def owner(student):
    """At any moment, a bin has one owner, or it is on its way to the next one."""
    swaps = [[(0, 0, 1), (1, 1, 0)], [(0, 1, 0), (1, 0, 1)], [(2, 0, 1), (0, 0, 1)]]
    for n in range(10):

        def ask(n=n):
            draw, job = random.Random(f"owner {SECRET} {n}"), Job(student, 2, [0, 1, 0])
            for moves in swaps:
                for _ in job.step(draw, moves, *drawn_rows(draw, 3)):
                    shown, one = job.places()
                    if not one:
                        return shown
            return "each bin has one owner"

        moves = "bins 0 and 1 are swapped, and swapped back, and then bins 0 and 2 move"
        yield Case(f"{moves}, order {n}", "each bin has one owner", ask, PLAIN)


@check("three-scales", task=5, rule=26)
def three_scales(student):
    """A job that is rescaled several times ends with the totals of a job that was never rescaled."""
    for n in range(20):
        draw = random.Random(f"scales {SECRET} {n}")
        bins, scales = draw.randrange(5, 9), draw.sample(range(1, 5), 3)
        if scales[0] == 1:
            scales.reverse()  # the first step moves bins
        rows = [[drawn_rows(draw, bins) for _ in ("step 1", "step 2")] for _ in scales]
        rows[0][0][0].clear()  # the bins of the first step have no row yet
        totals = Counter(dict.fromkeys(range(bins), 0))
        for _, bin, n_ in (row for steps in rows for step in steps for part in step for row in part):
            totals[bin] += n_

        def ask(seed=f"deliveries {SECRET} {n}", bins=bins, scales=scales, rows=rows):
            choose, job = random.Random(seed), Job(student, 4, [0] * bins)
            for workers, parts in zip(scales, rows, strict=True):
                steps = student.call("plan", job.owners, workers, 2)
                like_plan(job.owners, workers, steps)
                for moves, (before, after) in zip([*steps, [], []], parts, strict=False):
                    for _ in job.step(choose, moves, before, after):
                        pass
            return sorted(pair for pairs in job.owned() for pair in pairs)

        shown = f"{bins} bins at 1 worker | rescaled to {', '.join(map(str, scales))} workers, order {n}"
        yield Case(shown, sorted(map(list, totals.items())), ask, Shape(like_owned, show_owned))
