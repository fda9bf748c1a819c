"""The checks of lab 5.

An order is a list of calls, such as [("row", "a", 1), ("barrier", "b", 1)]. The right answers follow from the whole
order: a row belongs to a snapshot if it stands before the barrier of its channel, and so on. A trace such as
"a: 1 | b: barrier 1" has the calls of an order.
"""

import itertools
from collections import Counter
from functools import cache, partial

from grader.lab import EXACT, Case, NoValueError, Shape, UnlikeError, check

ROWS = {"a": (1, 2, 4, 8), "b": (100, 200, 400, 800), "c": (10_000, 20_000)}
CHANNEL = {n: channel for channel, rows in ROWS.items() for n in rows}
LARGEST = 1_000_000_000


def interleavings(streams, may=lambda call, before: True, before=()):
    """Yield every order of the calls of some streams. ``may`` says whether a call may come now."""
    if not any(streams):
        yield list(before)
    for at, stream in enumerate(streams):
        if stream and may(stream[0], before):
            rest = [*streams[:at], stream[1:], *streams[at + 1 :]]
            yield from interleavings(rest, may, (*before, stream[0]))


def spread(many, places):
    """Yield every way to put so many rows into places, as the number of rows in each place."""
    for cuts in itertools.combinations_with_replacement(range(many + 1), places - 1):
        yield [after - before for before, after in itertools.pairwise((0, *cuts, many))]


def orders(channels, snapshots, most):
    """Yield every order of at most so many rows and the barriers of some snapshots, by the number of rows."""

    def may(call, before):
        kind, _, n = call
        return kind == "row" or sum(c[0] == "barrier" and c[2] < n for c in before) == (n - 1) * len(channels)

    for many in range(most + 1):
        for counts in spread(many, len(channels) * (snapshots + 1)):
            streams = []
            for at, channel in enumerate(channels):
                stream, rows = [], iter(ROWS[channel])
                first = at * (snapshots + 1)
                for n, count in enumerate(counts[first : first + snapshots + 1], start=1):
                    stream += [("row", channel, row) for row in itertools.islice(rows, count)]
                    stream += [("barrier", channel, n)] if n <= snapshots else []
                streams.append(stream)
            yield from interleavings(streams, may)


def placed(order):
    """The rows of an order, each as (its place, channel, row, the barriers that stand before it in its channel)."""
    passed = Counter()
    for at, (kind, channel, n) in enumerate(order):
        if kind == "row":
            yield at, channel, n, passed[channel]
        passed[channel] += kind == "barrier"


def arrivals(order):
    """For each snapshot, the places of its barriers."""
    found = {}
    for at, (kind, _, n) in enumerate(order):
        if kind == "barrier":
            found.setdefault(n, []).append(at)
    return found


def right_aligned(order):
    """What Aligned returns to each call of an order that has all barriers."""
    answers, ends, total = [[] for _ in order], {n: max(at) for n, at in arrivals(order).items()}, 0
    for n, end in ends.items():
        answers[end] = [["snapshot", n, sum(row[2] for row in placed(order) if row[3] < n)], ["barrier", n]]
    for when, _, n in sorted((max(at, ends.get(passed, 0)), at, n) for at, _, n, passed in placed(order)):
        total += n
        answers[when].append(["out", total])
    return answers


def right_unaligned(order):
    """What Unaligned returns to each call of an order that has all barriers."""
    answers, total = [[] for _ in order], 0
    for at, _, n, _ in placed(order):
        total += n
        answers[at].append(["out", total])
    for number, found in arrivals(order).items():
        saved = sum(n for at, _, n, _ in placed(order) if at < min(found))
        log = {}
        for at, channel, n, passed in placed(order):
            if at > min(found) and passed < number:
                log.setdefault(channel, []).append(n)
        answers[min(found)].append(["barrier", number])
        answers[max(found)].append(["snapshot", number, [saved, log]])
    return answers


RIGHT = {"Aligned": right_aligned, "Unaligned": right_unaligned}
EXAMPLES = {
    "Aligned": [("out", 5), ("barrier", 1), ("snapshot", 1, 5)],
    "Unaligned": [("out", 5), ("barrier", 1), ("snapshot", 1, (5, {"a": [1, 2]}))],
    "Worker": [("out", 0, 5), ("state", 1, 0, 5)],
}


def words(call):
    """A call as the student reads it."""
    kind, *given = call
    if kind == "row":
        return f"{given[0]}: {given[1]}"
    if kind == "barrier":
        return f"{given[0]}: barrier {given[1]}"
    return f"{kind}({', '.join(map(str, given))})"


def trace(order):
    return " | ".join(map(words, order))


def form(value):
    """The form of a value in a message: "int", or those of the values in it."""
    if type(value) is int and abs(value) < LARGEST:
        return "int"
    if type(value) is list:
        return [form(one) for one in value]
    if type(value) is dict and all(
        channel in ROWS and type(rows) is list and all(form(row) == "int" for row in rows)
        for channel, rows in value.items()
    ):
        return "rows"
    return value if type(value) is str and value in ("out", "barrier", "snapshot", "state") else "another value"


def like_messages(cls, call, told):
    """The messages that a call has returned, checked."""
    if type(told) is list and all(form(message) in FORMS[cls] for message in told):
        return told
    listed = type(told) is list and all(type(message) is list for message in told)
    shown = EXACT.show(told) if listed else EXACT.show([told])[1:-1]
    kind, *given = call
    said = f"{kind}({', '.join(map(repr, given))}) returned {shown}"
    if form(told) in FORMS[cls]:
        raise UnlikeError(f"{said}, which is a message. Return a list, also for one message: [{shown}]")
    examples = ", ".join(f"[{message}]" for message in EXAMPLES[cls])
    raise UnlikeError(f"{said}. Each method of {cls} returns a list of messages, such as {examples}, or []")


def played(cls, made, order):
    """What an object returns to the calls of an order, checked."""
    return [like_messages(cls, *each) for each in zip(order, made.all(order), strict=True)]


def taking(cls, new, order, shown, right, shape):
    """The case in which an object, made by ``new``, takes the calls of an order.

    All messages are read after the last call. If they are wrong, a second object is asked call by call, to find a
    message that was right when it was returned, and has changed since then.
    """

    def ask():
        told = played(cls, new(), order)
        if told != right and shape.like(told) != shape.like(right):
            again = new()
            for call, after in zip(order, told, strict=True):
                if (before := played(cls, again, [call])) != [after]:
                    said = f"{call[0]} returned {show_calls(before)}. Later, your code changed it to"
                    raise UnlikeError(f"{said} {show_calls([after])}. A returned message is sent: return a copy")
        return told

    return Case(shown, right, ask, shape)


FORMS = {
    "Aligned": [["out", "int"], ["barrier", "int"], ["snapshot", "int", "int"]],
    "Unaligned": [["out", "int"], ["barrier", "int"], ["snapshot", "int", ["int", "rows"]]],
    "Worker": [["out", "int", "int"], ["state", "int", "int", "int"]],
}


def show_message(message):
    kind, *given = message
    if kind == "snapshot":
        total, log = given[1] if type(given[1]) is list else (given[1], {})
        stored = "".join(f", {channel} {' '.join(map(str, rows))}" for channel, rows in sorted(log.items()) if rows)
        return f"snapshot {given[0]} (total {total}{stored})"
    if kind == "state":
        return f"bin {given[1]} with {given[2]} to worker {given[0]}"
    return f"bin {given[0]}: {given[1]}" if given[1:] else f"{kind} {given[0]}"


def show_calls(answers):
    return " | ".join(", ".join(map(show_message, told)) or "nothing" for told in answers)


def in_order(answers):
    """All messages of each call. Snapshots stand first, and rows of different channels have no order in a call."""
    found, total = [], 0
    for told in answers:
        parts = []
        for message in told:
            if message[0] == "out":
                parts.append(["out", CHANNEL.get(message[1] - total, ""), message[1] - total])
                total = message[1]
            elif message[0] == "snapshot":
                parts.insert(0, kept_rows(message))
            else:
                parts.append(message)
        runs = itertools.groupby(parts, key=lambda part: part[0] == "out")
        found.append([part for out, run in runs for part in (sorted(run, key=lambda row: row[1]) if out else run)])
    return found


def kept_rows(message):
    """A snapshot without channels that have no rows."""
    kind, n, state = message
    if type(state) is list:
        state = [state[0], {channel: rows for channel, rows in state[1].items() if rows}]
    return [kind, n, state]


def snapshots_of(answers):
    """The snapshots, without the calls that have returned them."""
    return [kept_rows(message) for told in answers for message in told if message[0] == "snapshot"]


def show_snapshots(answers):
    return ", ".join(show_message(m) for told in answers for m in told if m[0] == "snapshot") or "no snapshot"


def totals_of(answers):
    """How many totals were sent, and the last one."""
    sent = [message[1] for told in answers for message in told if message[0] == "out"]
    return [len(sent), sent[-1] if sent else 0]


def show_totals(answers):
    many, last = totals_of(answers)
    return f"{many} sent, the last total is {last}"


def downstream(answers):
    """What goes to the operator below, without the snapshots."""
    return in_order([[message for message in told if message[0] != "snapshot"] for told in answers])


def outs(answers):
    """The totals of each call."""
    return in_order([[message for message in told if message[0] == "out"] for told in answers])


IN_ORDER = Shape(in_order, show_calls)
SNAPSHOTS = Shape(snapshots_of, show_snapshots)
DOWN = Shape(downstream, show_calls)
OUTS = Shape(outs, show_calls)
TOTALS = Shape(totals_of, show_totals)


def playing(student, cls, channels, chosen, shape=IN_ORDER):
    """Cases in which an object takes the calls of an order."""
    for order in chosen:
        yield taking(cls, partial(student.new, cls, list(channels)), order, trace(order), RIGHT[cls](order), shape)


@check("aligned.totals", task=1)
def totals(student):
    """Without a barrier, each row is added at once, and the new total is sent."""
    yield from playing(student, "Aligned", "ab", filter(None, orders("ab", 0, most=2)))


@check("aligned.waits", task=1, rule=25, needs=("aligned.totals",))
def waits(student):
    """Until the last barrier arrives, rows behind the barrier of their channel wait. Other rows are added at once."""
    for order in orders("ab", 1, most=2):
        *before, last = order
        if last[0] == "barrier":
            new = partial(student.new, "Aligned", ["a", "b"])
            yield taking("Aligned", new, before, trace(before), right_aligned(order)[:-1], OUTS)


@check("aligned.cut", task=1, rule=25, needs=("aligned.totals", "aligned.waits"))
def cut(student):
    """The snapshot comes with the last barrier. Its total has the rows before the barriers, and no others."""
    yield from playing(student, "Aligned", "ab", orders("ab", 1, most=4), SNAPSHOTS)


TWICE, BARRIER = [("row", "b", 100)] * 2, [("barrier", "b", 1)]
EQUAL = [
    order for stream in (BARRIER + TWICE, TWICE + BARRIER) for order in interleavings([[("barrier", "a", 1)], stream])
]


@check("aligned.held", task=1, rule=23, needs=("aligned.totals", "aligned.cut"))
def held(student):
    """No row is lost: after the last barrier, each row that has waited is added, and its new total is sent."""
    yield from playing(student, "Aligned", "ab", [*orders("ab", 1, most=2), *EQUAL], TOTALS)


@check("aligned.order", task=1, rule=24, needs=("aligned.totals", "aligned.cut", "aligned.held"))
def order(student):
    """The barrier is sent after the rows before it and before the rows behind it. A channel keeps its order."""
    yield from playing(student, "Aligned", "ab", orders("ab", 1, most=2))


BEHIND = [[("barrier", channel, 1), ("row", channel, ROWS[channel][0])] for channel in "abc"]
BEFORE = [stream[::-1] for stream in BEHIND]


@check("aligned.again", task=1, rule=25, needs=("aligned.cut", "aligned.held", "aligned.order"))
def again(student):
    """The next snapshot is as right as the first one, and one or three channels are as right as two."""
    yield from playing(student, "Aligned", "ab", orders("ab", 2, most=1))
    yield from playing(student, "Aligned", "a", orders("a", 2, most=1))
    yield from playing(student, "Aligned", "abc", orders("abc", 1, most=1))
    yield from playing(student, "Aligned", "abc", interleavings([*BEHIND[:2], BEHIND[2][:1]]))


@check("unaligned.flows", task=2, rule=24)
def flows(student):
    """No row waits, and the barrier is sent on when it has arrived on the first channel."""

    yield from playing(student, "Unaligned", "ab", orders("ab", 1, most=2), DOWN)


@check("unaligned.cut", task=2, rule=24, needs=("unaligned.flows",))
def stored(student):
    """A snapshot has the total at the first barrier, and the rows that arrived later but before their own barrier."""
    yield from playing(student, "Unaligned", "ab", [*orders("ab", 1, most=3), *EQUAL], SNAPSHOTS)


@check("unaligned.again", task=2, rule=24, needs=("unaligned.flows", "unaligned.cut"))
def unaligned_again(student):
    """Each snapshot is right and stays right, also while the next one is made; and one channel is as right as two."""
    yield from playing(student, "Unaligned", "a", orders("a", 2, most=1))
    yield from playing(student, "Unaligned", "ab", orders("ab", 2, most=1))


def before_crash(student, cls, channels, order):
    """Play an order. Returns the totals that k has when it saves its state, and the calls after a crash.

    k continues with these totals. The sources send the rows behind the barriers again, and then the next barriers.
    """
    sent = [message for told in played(cls, student.new(cls, list(channels)), order) for message in told]
    snapshots = [message[2] for message in sent if message[0] == "snapshot"]
    if len(snapshots) != 1 or ["barrier", 1] not in sent:
        raise UnlikeError(f"before the crash, there were {len(snapshots)} snapshots; the barrier must be sent on")
    told = [message[1] for message in sent[: sent.index(["barrier", 1])] if message[0] == "out"]
    behind = [("row", channel, n) for _, channel, n, passed in placed(order) if passed]
    return told, [("restore", *snapshots), *behind, *(("barrier", channel, 2) for channel in channels)]


def after_crash(student, cls, channels, told, calls):
    """All totals that k has in the end, and the snapshot that is taken then."""
    sent = [message for one in played(cls, student.new(cls, list(channels)), calls) for message in one]
    ends = [kept_rows(message) for message in sent if message[0] == "snapshot"]
    return [told + [message[1] for message in sent if message[0] == "out"], ends]


def never_crashed(cls, order):
    """What k has in the end, and the snapshot that is taken then, if nothing crashes."""
    rows = sorted(placed(order), key=lambda row: (row[3], row[0]))
    told = list(itertools.accumulate(n for _, _, n, _ in rows))
    total = told[-1] if told else 0
    return [told, [["snapshot", 2, total if cls == "Aligned" else [total, {}]]]]


def like_recovered(sources, answer):
    """The rows that k has received, by channel, and the snapshot."""
    told, ends = answer
    rows = [after - before for before, after in itertools.pairwise([0, *told])]
    return [sorted(rows, key=lambda n: sources.get(n, "")), ends]


def show_recovered(answer):
    told, ends = answer
    return "; ".join([f"k has {', '.join(map(str, told)) or 'nothing'}", *map(show_message, ends)])


def recovering(student, cls, channels, chosen):
    """Cases in which a new object continues from the snapshot of an order."""
    for order in chosen:

        def ask(order=order):
            return after_crash(student, cls, channels, *before_crash(student, cls, channels, order))

        sources = {n: channel for _, channel, n, _ in placed(order)}
        shape = Shape(partial(like_recovered, sources), show_recovered)
        yield Case(f"{cls}: {trace(order)}{CRASH}", never_crashed(cls, order), ask, shape)


CRASH = " | crash, restore, rows behind the barriers, barriers 2"


@check("restore", task=3, rule=23, needs=("aligned.cut", "aligned.order", "unaligned.flows", "unaligned.cut"))
def restored(student):
    """A run that continues from a snapshot ends like one without a crash: k has each row once, and in order."""
    yield from recovering(student, "Aligned", "ab", orders("ab", 1, most=2))
    yield from recovering(student, "Unaligned", "ab", orders("ab", 1, most=2))
    stored = ([*BEHIND[0], *order] for order in interleavings(BEFORE[1:]))  # two channels have stored rows
    yield from recovering(student, "Unaligned", "abc", stored)


@cache
def fewest(owners, workers):
    """The moves of a best plan, found by trying all assignments."""
    best = None
    for new in itertools.product(range(workers), repeat=len(owners)):
        sizes = [new.count(worker) for worker in range(workers)]
        moves = [[bin, *ends] for bin, ends in enumerate(zip(owners, new, strict=True)) if ends[0] != ends[1]]
        if max(sizes) - min(sizes) <= 1 and (best is None or len(moves) < len(best)):
            best = moves
    return best


def like_plan(owners, workers, steps):
    """The owners after a plan, and the sizes of its steps. Raises UnlikeError if it is no plan for these owners."""
    now, sizes = list(owners), []
    if type(steps) is not list or any(type(step) is not list for step in steps):
        raise UnlikeError("a plan is a list of steps, and a step is a list of moves")
    for step in steps:
        if form(step) == ["int"] * 3:
            move = str(tuple(step))
            raise UnlikeError(f"a plan is a list of steps, and {move} is a move. A step is a list, too: [[{move}]]")
        for move in step:
            if form(move) != ["int"] * 3:
                raise UnlikeError("a move is (bin, old, new): three ints")
            bin, old, new = move
            if not 0 <= bin < len(now) or now[bin] != old:
                raise UnlikeError(f"({bin}, {old}, {new}): worker {old} does not own bin {bin}")
            if not 0 <= new < workers:
                raise UnlikeError(f"({bin}, {old}, {new}): there is no worker {new} of {workers} workers")
            now[bin] = new
        sizes.append(len(step))
    return now, sizes


def balance(owners, workers, steps):
    """How many bins the workers differ by, how many bins move, and how many stay at workers that leave."""
    now, sizes = like_plan(owners, workers, steps)
    have = [now.count(worker) for worker in range(workers)]
    return [max(have) - min(have), sum(sizes), len(now) - sum(have)]


def largest_step(owners, workers, most, steps):
    """How many bins the largest step has, and whether there are at most so many steps."""
    _, sizes = like_plan(owners, workers, steps)
    return [max(sizes, default=0), len(sizes) <= most]


def show_balance(owners, workers, steps):
    now, sizes = like_plan(owners, workers, steps)
    have = ", ".join(str(now.count(worker)) for worker in range(workers))
    return f"{show_plan(steps)} (moves: {sum(sizes)}; then the bins of each worker: {have})"


def show_steps(owners, workers, most, steps):
    largest, _ = largest_step(owners, workers, most, steps)
    return f"{show_plan(steps)} (steps: {len(steps)}, allowed: {most}; moves of the largest step: {largest})"


def show_plan(steps):
    shown = [", ".join(f"bin {bin}: {old} to {new}" for bin, old, new in step) or "nothing" for step in steps]
    return " | ".join(shown) or "no step"


def planning(student, owners, workers, steps, shape):
    """The case of one plan."""
    moves = fewest(tuple(owners), workers)
    right = [moves[at::steps] for at in range(min(steps, len(moves)))]
    ask = partial(student.call, "plan", list(owners), workers, steps)
    return Case(f"plan({list(owners)}, {workers}, {steps})", right, ask, shape)


@check("plan.fewest", task=4, rule=26)
def fewest_moves(student):
    """The workers differ by at most one bin, and no bin moves without need."""
    for owners in [*owner_lists(most=3), (0, 0, 0, 0), (0, 1, 1, 1), (3, 0, 3, 2), (0, 0, 1, 1, 1), (0, 0, 0, 1, 2)]:
        for workers in range(1, min(4, len(owners)) + 1):
            shape = Shape(partial(balance, owners, workers), partial(show_balance, owners, workers))
            yield planning(student, owners, workers, 1, shape)


def owner_lists(most):
    """All lists of the owners of up to so many bins, by length. There are up to three workers."""
    for bins in range(1, most + 1):
        yield from itertools.product(range(3), repeat=bins)


@check("plan.steps", task=4, rule=26, needs=("plan.fewest",))
def equal_steps(student):
    """There are at most as many steps as allowed, and no step is larger than the moves divided by them, rounded up."""
    plans = [([0] * bins, *rest) for bins, *rest in small_plans(bins_most=6, steps_most=4)]
    plans += [
        ([*range(2)] * bins, workers, steps) for bins in (1, 2, 3) for workers in (1, 3, 4) for steps in (1, 2, 3)
    ]
    for given in plans:
        yield planning(student, *given, Shape(partial(largest_step, *given), partial(show_steps, *given)))


def small_plans(bins_most, steps_most):
    """Numbers of bins, workers and steps."""
    for bins in range(1, bins_most + 1):
        for workers in range(1, min(bins, 4) + 1):
            for steps in range(1, steps_most + 1):
                yield bins, workers, steps


SOURCES = {"s": (1, 2, 4), "t": (100, 200, 400)}
SOURCE = {n: source for source, rows in SOURCES.items() for n in rows}


def right_worker(me, bins, sources, order):
    """What a worker returns to each call of an order. A bin leaves with the last of its Moves, and comes with take."""
    answers = [[] for _ in order]
    for bin in {call[2] if call[0] == "move" else call[1] for call in order}:
        takes = [at for at, call in enumerate(order) if call[:2] == ("take", bin)]
        leaves = [at for at, call in enumerate(order) if call[0] == "move" and call[2:4] == (bin, me)]
        leaves = leaves[len(sources) - 1 :: len(sources)]
        events = [(at, "a take", at) for at in takes] + [(at, "c leave", at) for at in leaves]
        for at, call in enumerate(order):
            if call[:2] == ("row", bin):
                here = (bin in bins) + sum(take < at for take in takes) > sum(leave < at for leave in leaves)
                events.append((at if here else min(take for take in takes if take > at), "b row", at))
        total = 0
        for when, event, at in sorted(events):
            if event == "c leave":
                answers[when].append(["state", order[at][4], bin, total])
                continue
            total = order[at][2] + (total if event == "b row" else 0)
            answers[when] += [["out", bin, total]] if event == "b row" else []
    return answers


def worker_words(call):
    kind, *given = call
    if kind == "row":
        return f"row {given[1]} of bin {given[0]}"
    if kind == "move":
        return f"{given[0]}: Move of bin {given[1]} from {given[2]} to {given[3]}"
    return f"{kind}({', '.join(map(str, given))})"


def worker_trace(me, bins, sources, order):
    owns = f"bin {' and '.join(map(str, bins))}" if bins else "nothing"
    return f"(worker {me} owns {owns}; sources: {', '.join(sources)}) {' | '.join(map(worker_words, order))}"


def in_turn(order, answers):
    """All messages of each call. In a call, rows of different sources have no order, and neither have bins."""
    found, total = [], {}
    for call, told in zip(order, answers, strict=True):
        if call[0] == "take":
            total[call[1]] = call[2]
        parts = []
        for message in told:
            if message[0] == "out":
                _, bin, after = message
                row = after - total.get(bin, 0)
                total[bin] = after
                parts.append(["out", bin, SOURCE.get(row, ""), row])
            else:
                parts.append(message)
        found.append(sorted(parts, key=lambda part: (part[0], part[1], part[2] if part[0] == "out" else 0)))
    return found


def working(student, me, bins, sources, chosen):
    """Cases in which a worker takes the calls of an order."""
    for order in chosen:
        shown, right = worker_trace(me, bins, sources, order), right_worker(me, bins, sources, order)
        new = partial(student.new, "Worker", me, list(sources), list(bins))
        yield taking("Worker", new, order, shown, right, Shape(partial(in_turn, order), show_calls))


def rows_of(source, many, bin=0):
    return [("row", bin, n) for n in SOURCES[source][:many]]


def leaving(most):
    """Orders at the old owner: rows of both sources, then the Moves."""
    for many in range(most + 1):
        for first in range(many + 1):
            counts = {"s": first, "t": many - first}
            streams = [[*rows_of(source, n), ("move", source, 0, 0, 1)] for source, n in counts.items()]
            yield from interleavings(streams)


def arriving(most):
    """Orders at the new owner: the Moves, then rows of both sources, and the state at any time."""
    for many in range(most + 1):
        for first in range(many + 1):
            counts = {"s": first, "t": many - first}
            streams = [[("move", source, 0, 0, 1), *rows_of(source, n)] for source, n in counts.items()]
            yield from interleavings([*streams, [("take", 0, 1000)]])


@check("move.rows", task=5)
def rows(student):
    """Each bin has a total of its own. owned() returns the bins that are here, with their totals."""
    calls = [("row", 0, 1), ("row", 1, 100), ("row", 0, 2)]
    for many in range(1, 4):
        yield from working(student, 0, [0, 1], "st", itertools.permutations(calls, many))
    for order, right in (([], [[0, 0], [1, 0]]), (calls, [[0, 3], [1, 100]])):

        def ask(order=order):
            return student.new("Worker", 0, ["s", "t"], [0, 1]).all([*order, ("owned",)])[-1]

        yield Case(worker_trace(0, [0, 1], "st", [*order, ("owned",)]), right, ask, Shape(like_owned, show_owned))


@check("move.gives", task=5, rule=26, needs=("move.rows",))
def gives(student):
    """The old owner gives a bin away after the Moves of all its sources (one or more). Until then, it adds rows."""
    yield from working(student, 0, [0], "st", leaving(most=2))
    yield from working(student, 0, [0], "s", [[*rows_of("s", n), ("move", "s", 0, 0, 1)] for n in range(3)])
    both = [[("move", source, 0, 0, 1), *rows_of(source, 1, bin=1), ("move", source, 1, 0, 2)] for source in "st"]
    yield from working(student, 0, [0, 1], "st", interleavings(both))


@check("move.takes", task=5, rule=26, needs=("move.rows",))
def takes(student):
    """The new owner holds the rows of a bin until its state arrives, and then adds each. Other bins do not wait."""
    yield from working(student, 1, [], "st", arriving(most=2))
    others = [[("move", "s", 0, 0, 1), *rows_of("s", 1)], rows_of("t", 2, bin=1), [("take", 0, 1000)]]
    yield from working(student, 1, [1], "s", interleavings(others))
    equal = [("move", "s", 0, 0, 1), *rows_of("s", 1), *rows_of("s", 1)]
    yield from working(student, 1, [], "s", interleavings([equal, [("take", 0, 1000)]]))
    two = [[("move", "s", 0, 0, 1), *rows_of("s", 1)], [("move", "s", 1, 0, 1), *rows_of("t", 1, bin=1)]]
    yield from working(student, 1, [], "s", interleavings([*two, [("take", 0, 1000), ("take", 1, 5000)]]))


AWAY = [("move", source, 0, 0, 1) for source in "st"]
HOME = [("move", source, 0, 1, 0) for source in "st"]


@check("move.back", task=5, rule=26, needs=("move.gives", "move.takes"))
def back(student):
    """A bin that has left can come back, and leave again. Each time, the Moves of all sources are needed."""
    for returns in interleavings([HOME, [("take", 0, 1000)]]):
        for last in ([("row", 0, 2)], [("row", 0, 2), *AWAY], [AWAY[1], ("row", 0, 2), AWAY[0]]):
            yield from working(student, 0, [0], "st", [[("row", 0, 1), *AWAY, *returns, *last]])
    waits = [[HOME[0], *rows_of("s", 1)], HOME[1:], [("take", 0, 1000)]]
    yield from working(student, 0, [0], "st", ([*AWAY, *returns] for returns in interleavings(waits)))


@check("move.refused", task=5, rule=26, needs=("move.rows", "move.gives"))
def refused(student):
    """A row of a bin that is neither here nor expected raises ValueError, and changes nothing."""
    expected = ("move", "s", 1, 1, 0)
    for bin, order in (
        (1, []),
        (0, AWAY),
        (0, [("row", 0, 1), *AWAY]),
        (2, [expected]),
        (0, [*AWAY, *HOME, ("take", 0, 1000), *AWAY]),
        (0, [*AWAY, ("take", 0, 1000), *HOME, *AWAY]),
    ):
        for last in ([], [("owned",)]):

            def ask(order=order, bin=bin, last=last):
                made = student.new("Worker", 0, ["s", "t"], [0])
                made.all(order)
                told = refusal(partial(made.row, bin, 4))
                return show_owned(made.owned()) if last else told

            here = {0: sum(call[0] == "row" for call in order)} if AWAY[0] not in order else {}
            right = show_owned([list(pair) for pair in here.items()]) if last else "ValueError"
            yield Case(worker_trace(0, [0], "st", [*order, ("row", bin, 4), *last]), right, ask, PLAIN)


PLAIN = Shape(lambda value: value, str)


def refusal(ask):
    """What ask() returns, or that it raised ValueError."""
    try:
        told = ask()
    except NoValueError as failed:
        if "ValueError" in failed.answer.types:
            return "ValueError"
        raise
    return f"no error; it returned {told!r}"


def like_owned(told):
    """The bins that a worker owns, checked."""
    if type(told) is not list or any(form(pair) != ["int", "int"] for pair in told):
        raise UnlikeError("owned() returns a list of pairs (bin, total) of two ints")
    return sorted(told)


def show_owned(told):
    return ", ".join(f"bin {bin}: {total}" for bin, total in like_owned(told)) or "nothing"
