"""The checks of lab 2. The right answers are recomputed from all changes so far.

A history of an arrangement is a list of steps, such as [("insert", changes), ("handle", "a", 1), ("compact",)].
"""

import itertools
import json
from collections import Counter

from grader.lab import (
    BAG,
    NUMBER,
    WORD,
    Case,
    NoValueError,
    RefusedError,
    Rows,
    Shape,
    UnlikeError,
    check,
    each,
    histories,
    text,
    view_changes,
)

NUT = ("Nut", 5)
PUT, TAKE, NOTHING = ("insert", [(NUT, 1)]), ("insert", [(NUT, -1)]), ("insert", [])
COMPACT = ("compact",)
TABLES = ("info", "visit", "price")


class Model:
    """What an arrangement has to answer after some steps."""

    def __init__(self, steps=()):
        self.entries, self.upper, self.handles = [], 1, {}
        for step in steps:
            self.take(*step)

    def take(self, kind, *given):
        if kind == "insert":
            self.entries += [(row, self.upper, diff) for row, diff in given[0]]
            self.upper += 1
        elif kind in ("handle", "advance"):
            self.handles[given[0]] = given[1]
        elif kind == "close":
            del self.handles[given[0]]
        elif kind == "restart":
            self.handles = {}

    @property
    def since(self):
        return min(self.handles.values(), default=self.upper - 1)

    def at(self, key, time):
        """The rows with this key after this epoch, each with its count."""
        total = Counter()
        for row, when, diff in self.entries:
            if row[0] == key and when <= time:
                total[row] += diff
        return [(row, count) for row, count in total.items() if count]

    def fewest(self):
        """The entries after compact()."""
        total = Counter()
        for row, when, diff in self.entries:
            total[row, max(when, self.since)] += diff
        return [(row, when, diff) for (row, when), diff in total.items() if diff]


def words(step):
    """A step as the student reads it."""
    kind, *given = step
    if kind == "insert":
        return text(given)
    if kind == "handle":
        return f"{given[0]} = handle({given[1]})"
    if kind == "restart":
        return "save, restart, load"
    return f"{kind}({', '.join(map(str, given))})"


def trace(steps, *last):
    return " | ".join([*map(words, steps), *last])


def played(student, steps):
    """Make an arrangement that takes the steps. Returns it and its handles by name."""
    made, handles, calls = student.new("Arrangement"), {}, []
    for kind, *given in steps:
        if kind == "handle":
            *_, handles[given[0]] = made.all([*calls, (kind, given[1])])
            calls = []
        elif kind == "restart":
            *_, saved = made.all([*calls, ("save",)])
            student.restart()
            made, handles, calls = student.new("Arrangement"), {}, [("load", saved)]
        else:
            calls.append((kind, handles[given[0]], *given[1:]) if kind in ("advance", "close") else (kind, *given))
    made.all(calls)
    return made, handles


def rows_of(answer):
    if type(answer) is not list:
        raise UnlikeError("at() returns a list of (row, count)")
    for pair in answer:
        if type(pair) is not list or [type(part) for part in pair] != [list, int]:
            raise UnlikeError("at() returns a list of (row, count), where row is a tuple and count is an int")
    return sorted(answer, key=repr)


def show_rows(rows):
    shown = [" ".join(map(str, row)) + (f" (x {count})" if count != 1 else "") for row, count in rows]
    return ", ".join(shown) or "no row"


ROWS = Shape(rows_of, show_rows)


def reading(student, steps, key, *time):
    """The case of one read after some steps."""
    right = Model(steps)
    call = f"at({', '.join(map(json.dumps, (key, *time)))})"

    def ask():
        return played(student, steps)[0].at(key, *time)

    return Case(trace(steps, call), right.at(key, *time or [right.upper - 1]), ask, ROWS)


def epochs_of(most):
    """Short histories of one row: it is inserted, deleted, or nothing happens."""
    for length in range(1, most + 1):
        for steps in itertools.product((PUT, TAKE, NOTHING), repeat=length):
            counts = itertools.accumulate(sum(diff for _, diff in changes) for _, changes in steps)
            if PUT in steps and all(count >= 0 for count in counts):
                yield list(steps)


def watched(most):
    """The same with a reader: a handle at the last complete epoch, before the first insert or after any other."""
    for steps in epochs_of(most):
        for place in range(len(steps)):
            yield [*steps[:place], ("handle", "a", place), *steps[place:]]


def readable(steps):
    """The epochs that can be read after some steps."""
    return range(Model(steps).since, Model(steps).upper)


def attribute(student, steps, name):
    """The case of reading since or upper after some steps."""

    def ask():
        return played(student, steps)[0].get(name)

    return Case(trace(steps, name), getattr(Model(steps), name), ask)


@check("upper", task=1)
def upper(student):
    """upper is 1 in a new arrangement, and larger by 1 after each insert, also if nothing has changed."""
    yield attribute(student, [], "upper")
    for steps in epochs_of(2):
        yield attribute(student, steps, "upper")


@check("read", task=1)
def read(student):
    """at(key) returns the rows with this key, each once with its count, and no row whose diffs add up to 0."""
    other, pea = (("Nut", 7), 1), (("Pea", 5), 1)
    yield reading(student, [], "Nut")
    for changes, most in (([(NUT, 1), (NUT, -1), pea], 2), ([(NUT, 1), other, (NUT, -1)], 3)):
        for history in histories(changes, most):
            yield reading(student, [("insert", epoch) for epoch in history], "Nut")
    yield reading(student, [PUT, ("insert", [pea, other])], "Pea")
    yield reading(student, [PUT], "Pea")


@check("past", task=2, rule=12)
def past(student):
    """A reader with a handle can read every epoch from the time of its handle on, whatever is inserted later."""
    for steps in watched(3):
        yield from (reading(student, steps, "Nut", time) for time in readable(steps))
        yield reading(student, steps, "Nut")
    rows = (NUT, ("Nut", 7), ("Pea", 5))
    for order in itertools.permutations(rows):
        steps = [("handle", "a", 0), *(("insert", [(row, 1)]) for row in order)]
        yield from (reading(student, steps, key, time) for key in ("Nut", "Pea") for time in (1, 2))


def moves(model):
    """What can happen next to an arrangement with up to two readers."""
    now, free = model.upper - 1, "b" if "a" in model.handles else "a"
    yield PUT
    if len(model.handles) < 2:
        yield from (("handle", free, time) for time in sorted({model.since, now}))
    for name, time in model.handles.items():
        if time < now:
            yield ("advance", name, now)
        yield ("close", name)


def readers(most):
    """Short histories of up to two readers."""
    found = [[]]
    for _ in range(most):
        found = [[*steps, step] for steps in found for step in moves(Model(steps))]
        yield from found
    yield [("handle", "a", 0), ("handle", "b", 0), ("close", "a"), PUT, ("handle", "c", 1)]
    yield [("handle", "a", 0), PUT, PUT, ("handle", "b", 2), ("advance", "a", 1)]


@check("handles", task=2, rule=13)
def handles(student):
    """since is the time of the slowest open handle, or the last complete epoch if no handle is open."""
    for steps in readers(4):
        yield attribute(student, steps, "since")


def refused(ask):
    """What ask() returns, or that it raised ValueError."""
    try:
        answer = ask()
    except NoValueError as failed:
        if "ValueError" in failed.answer.types:
            return "ValueError"
        raise
    return f"no error; it returned {answer!r}"


def calling(student, steps, method, *args):
    """The case of a call that must be refused."""
    handles = Model(steps).handles
    call = f"{method}({', '.join(arg if arg in handles else json.dumps(arg) for arg in args)})"

    def ask():
        made, handles = played(student, steps)
        return refused(lambda: getattr(made, method)(*(handles.get(arg, arg) for arg in args)))

    return Case(trace(steps, call), "ValueError", ask, REFUSED)


REFUSED = Shape(lambda value: value.partition(";")[0], str)  # what was returned instead of an error does not count


@check("refusals", task=2, rule=12)
def refusals(student):
    """A read, a handle or a move outside of the allowed epochs raises ValueError, and changes nothing."""
    hold = ("handle", "a", 0)
    yield calling(student, [], "at", "Nut", 1)
    for time in (0, 2):
        yield calling(student, [PUT], "at", "Nut", time)
    for time in (0, 2):
        yield calling(student, [PUT], "handle", time)
    yield calling(student, [hold, PUT], "advance", "a", 2)
    yield calling(student, [hold, PUT, ("advance", "a", 1)], "advance", "a", 0)
    yield calling(student, [hold, PUT, ("handle", "b", 1)], "advance", "b", 0)
    yield calling(student, [hold, PUT, ("advance", "a", 1)], "at", "Nut", 0)
    yield calling(student, [hold, PUT, ("close", "a")], "at", "Nut", 0)
    yield calling(student, [hold, PUT, PUT, ("advance", "a", 1)], "handle", 0)
    yield calling(student, [hold, PUT, TAKE, ("close", "a")], "at", "Nut", 1)
    yield since_after(student, [PUT], "handle", 0)
    yield since_after(student, [hold, PUT, ("advance", "a", 1)], "advance", "a", 0)
    yield since_after(student, [hold, PUT], "advance", "a", 2)


def since_after(student, steps, method, *args):
    """The case of reading since after a call that must be refused."""

    def ask():
        made, handles = played(student, steps)
        refused(lambda: getattr(made, method)(*(handles.get(arg, arg) for arg in args)))
        return made.get("since")

    shown = f"{method}({', '.join(map(str, args))}), ValueError"
    return Case(trace(steps, shown, "since"), Model(steps).since, ask)


@check("compacted", task=3, rule=12, needs=("past",))
def compacted(student):
    """compact() changes no answer: every epoch from since on returns the same rows as before."""
    for steps in watched(3):
        yield from (reading(student, [*steps, COMPACT], "Nut", time) for time in readable(steps))
    for steps in watched(2):
        yield from (reading(student, [*steps, COMPACT, PUT], "Nut", time) for time in readable([*steps, PUT]))


def batches_of(saved):
    """The batches as (lower, upper, entries), checked."""
    if type(saved) is not list:
        raise UnlikeError("save() returns a list of batches")
    for batch in saved:
        if type(batch) is not list or [type(part) for part in batch] != [int, int, list]:
            raise UnlikeError("a batch is (lower, upper, entries)")
        for entry in batch[2]:
            if type(entry) is not list or [type(part) for part in entry] != [list, int, int]:
                raise UnlikeError("an entry is (row, time, diff)")
    return saved


def joined_epochs(saved):
    """The epochs that the batches cover, where adjacent batches count as one."""
    found = []
    for lower, upper, _ in batches_of(saved):
        if found and found[-1][1] == lower:
            found[-1][1] = upper
        else:
            found.append([lower, upper])
    return found


def show_epochs(saved):
    return "epochs " + ", ".join(f"[{lower}, {upper})" for lower, upper in joined_epochs(saved)) if saved else "nothing"


EPOCHS = Shape(joined_epochs, show_epochs)


@check("contiguous", task=3, rule=11)
def contiguous(student):
    """The batches cover every epoch from 1 up to, but not including, upper once, also an epoch without changes."""
    for steps in epochs_of(3):
        for made in (steps, [*steps[:-1], COMPACT, *steps[-1:]], [("handle", "a", 0), *steps]):
            if made[0] != COMPACT:
                yield saved_epochs(student, made)


def saved_epochs(student, steps):
    """The case of the epochs that save() covers after some steps."""
    upper = Model(steps).upper
    right = [(1, upper, [])] if upper > 1 else []
    return Case(trace(steps, "save()"), right, lambda: played(student, steps)[0].save(), EPOCHS)


def number_of_batches(saved):
    return saved if type(saved) is str else f"{len(saved)} batches"


@check("few", task=3, rule=11)
def few(student):
    """The number of batches grows like the logarithm of the number of entries. This is advice, without points."""
    for epochs in (16, 32, 64, 128):
        yield few_batches(student, epochs)


def few_batches(student, epochs):
    """The case of the number of batches after so many epochs."""
    most = 2 * epochs.bit_length()
    right = f"at most {most} batches"

    def ask():
        changes = [("insert", [(("Nut", n), 1)]) for n in range(epochs)]
        return played(student, changes)[0].save()

    def like(saved):
        return most if saved == right else max(most, len(batches_of(saved)))

    return Case(f"{epochs} epochs, one new row in each | save()", right, ask, Shape(like, number_of_batches))


def folded(since):
    """The shape of what save() returns after compact(). Every epoch up to since counts as since."""

    def like(saved):
        return [
            [lower, upper, sorted(([row, max(time, since), diff] for row, time, diff in entries), key=repr)]
            for lower, upper, entries in batches_of(saved)
        ]

    return Shape(like, show_batches)


def show_batches(saved):
    shown = []
    for lower, upper, entries in saved:
        listed = [f"{text([[(tuple(row), diff)]])} at {time}" for row, time, diff in entries]
        shown.append(f"[{lower}, {upper}): " + (", ".join(listed) or "no entry"))
    return " | ".join(shown) or "no batch"


@check("cancelled", task=3, rule=3)
def cancelled(student):
    """compact() leaves one batch: one entry for each row and epoch that readers can tell apart, none if it is 0."""
    for steps in itertools.chain(epochs_of(3), watched(3)):
        for end in ([], [("advance", "a", Model(steps).upper - 1)]):
            if not end or ("handle", "a", 0) in steps:
                yield saved_entries(student, [*steps, *end, COMPACT])


def saved_entries(student, steps):
    """The case of the entries that save() returns after compact(), the last of the steps."""
    model = Model(steps)
    right = [(1, model.upper, model.fewest())]
    return Case(trace(steps, "save()"), right, lambda: played(student, steps)[0].save(), folded(model.since))


RESTART = ("restart",)


@check("load", task=3, needs=("read",), cpu=10)
def load(student):
    """After load(), the arrangement answers and goes on as the saved one would, without its handles."""
    yield reading(student, [PUT, RESTART], "Nut")
    yield reading(student, [("insert", [(("Nut", n), 1) for n in range(1, 6)]), PUT, RESTART, PUT], "Nut")
    steps = [("handle", "a", 0), PUT, TAKE, COMPACT, RESTART]
    yield attribute(student, steps, "since")
    yield reading(student, [*steps, PUT], "Nut")
    yield attribute(student, [PUT, NOTHING, RESTART], "upper")


class Tables:
    """The three tables, and look() as DeltaJoin is given it."""

    def __init__(self):
        self.entries, self.now = [], 0

    def insert(self, epoch):
        self.now += 1
        self.entries += [(table, row, self.now, diff) for table in TABLES for row, diff in epoch[table]]

    def look(self, table, key, time):
        if table not in TABLES:
            raise RefusedError(f"there is no table {table!r}; the tables are info, visit and price")
        if type(time) is not int or not self.now - 1 <= time <= self.now:
            raise RefusedError(
                f"{table}: epoch {time!r} cannot be read: since is {self.now - 1}, upper is {self.now + 1}"
            )
        total = Counter()
        for name, row, when, diff in self.entries:
            if name == table and row[0] == key and when <= time:
                total[row] += diff
        return [(row, count) for row, count in total.items() if count]


def joins(student, history, again=False):
    """The case of a history of three tables. `again`: the process is restarted before every epoch but the first."""

    def ask():
        tables = Tables()
        join, answers = student.new("DeltaJoin", look=tables.look), []
        for time, epoch in enumerate(history, 1):
            if again and time > 1:
                student.restart()
                join = student.new("DeltaJoin", look=tables.look)
            tables.insert(epoch)
            answers.append(join.step(time, epoch))
        return answers

    shown = [text([[((table, *row), diff) for table in TABLES for row, diff in epoch[table]]]) for epoch in history]
    return Case((" | restart | " if again else " | ").join(shown), view_changes(history, joined), ask, each(BAG))


def joined(epochs):
    """The rows of the join after some epochs, each with its count."""
    info, visit, price = ([change for epoch in epochs for change in epoch[table]] for table in TABLES)
    rows = Counter()
    for (a, left), (b, middle), (c, right) in itertools.product(info, visit, price):
        if a[0] == b[0] == c[0]:
            rows[a[0], a[1], b[1], c[1]] += left * middle * right
    return rows


INFO, VISIT, PRICE = ("info", ("Nut", "Fruit")), ("visit", ("Nut", 5)), ("price", ("Nut", 60))
ALL = (INFO, VISIT, PRICE)
PEA = (("info", ("Pea", "Vegetable")), ("visit", ("Pea", 7)), ("price", ("Pea", 20)))


def epoch_of(*changes):
    """An epoch of changes such as ((table, row), diff)."""
    return {table: [(row, diff) for (name, row), diff in changes if name == table] for table in TABLES}


@check("half-join", task=4, rule=1)
def half_join(student):
    """If one table changes, each change meets the rows of its product in the other two tables."""
    for order in itertools.permutations(ALL):
        yield joins(student, [epoch_of((one, 1)) for one in order])
    for order in ((INFO, INFO, VISIT, PRICE), (PRICE, VISIT, VISIT, INFO), (PRICE, PRICE, INFO, VISIT)):
        yield joins(student, [epoch_of((one, 1)) for one in order])
    coming = [epoch_of((one, 1)) for one in ALL]
    for one in ALL:
        yield joins(student, [*coming, epoch_of((one, -1))])
    for one in ALL:
        yield joins(student, [*coming, epoch_of((one, 1))])
    for one, other in itertools.product(ALL, repeat=2):
        yield joins(student, [*coming, epoch_of((one, 1)), epoch_of((other, -1))])
    for one in (("info", ("Nut", "Food")), ("visit", ("Nut", 7)), ("visit", ("Pea", 5)), ("price", ("Nut", 80))):
        yield joins(student, [*coming, epoch_of((one, 1))])
        yield joins(student, [epoch_of((one, 1)), *coming])
    yield joins(student, [*coming, epoch_of((PRICE, -1), (("price", ("Nut", 80)), 1))])
    both = [epoch_of((one, 1), (other, 1)) for one, other in zip(ALL, PEA, strict=True)]
    yield joins(student, both)


def groupings(changes):
    """All ways to distribute changes over fewer epochs than there are changes, with the fewest epochs first."""
    for count in range(1, len(changes)):
        for places in itertools.product(range(count), repeat=len(changes)):
            if len(set(places)) == count:
                yield [[one for one, at in zip(changes, places, strict=True) if at == n] for n in range(count)]


@check("delta", task=4, rule=14)
def delta(student):
    """If several tables change in one epoch, each joined row is counted once."""
    for groups in groupings(ALL):
        yield joins(student, [epoch_of(*((one, 1) for one in group)) for group in groups])
    first = epoch_of(*((one, 1) for one in ALL))
    for size in (2, 3):
        for some in itertools.combinations(ALL, size):
            yield joins(student, [first, epoch_of(*((one, -1) for one in some))])
            yield joins(student, [first, epoch_of(*((one, 1) for one in some))])
    food, again, dear = ("info", ("Nut", "Food")), ("visit", ("Nut", 7)), ("price", ("Nut", 80))
    yield joins(student, [epoch_of(*((one, 1) for one in (*ALL, *PEA)))])
    yield joins(student, [first, epoch_of((food, 1), (again, 1))])
    yield joins(student, [first, epoch_of((VISIT, -1), (dear, 1))])
    yield joins(student, [first, epoch_of((INFO, -1), (food, 1), (PRICE, -1), (dear, 1))])
    yield joins(student, [epoch_of((INFO, 1), (VISIT, 1), (VISIT, -1), (PRICE, 1)), epoch_of((VISIT, 1), (again, 1))])


KEY, HANDLE, TIME = "[A-Z][A-Za-z]*", "[a-z]", r"\d{1,4}"


def a_row(row):
    """A row of an arrangement."""
    if not (found := row.groups(f"({KEY}) ({NUMBER})")):
        raise row.wrong("a row is a key and a number, such as Nut 5")
    return str(found[0]), int(found[1])


def a_table_row(row):
    """A row of one of the three tables."""
    if found := row.groups(f"(info) ({KEY}) ({WORD})") or row.groups(f"(visit|price) ({KEY}) ({NUMBER})"):
        table, key, value = found
        return str(table), (str(key), str(value) if table == "info" else int(value))
    raise row.wrong("a row of a table is such as info Nut Fruit, visit Nut 5 or price Nut 60")


def a_call(step, model):
    """A call as (method, argument, ...), and whether it is allowed now; None if it is none of these."""
    if found := step.groups(f'at\\("({KEY})"(?:, ({TIME}))?\\)'):
        times = [int(found[1])] if found[1] else []
        return ("at", str(found[0]), *times), not times or model.since <= times[0] < model.upper
    if found := step.groups(rf"handle\(({TIME})\)"):
        return ("handle", int(found[0])), model.since <= int(found[0]) < model.upper
    if found := step.groups(rf"(advance|close)\(({HANDLE})(?:, ({TIME}))?\)"):
        method, name, time = found
        times = [int(time)] if time else []
        if name not in model.handles:
            raise name.wrong("there is no such open handle")
        if (method == "advance") == bool(times):
            return (str(method), str(name), *times), not times or model.handles[name] <= times[0] < model.upper
    return None


def a_step(step, model, rows):
    """A step of a history, which must be allowed."""
    if step == "save, restart, load":
        return RESTART
    if step == "compact()":
        if model.upper == 1:
            raise step.wrong("compact() is not called before the first insert")
        return COMPACT
    name = step.groups(rf"({HANDLE}) = (.*)")
    call, allowed = a_call(name[1] if name else step, model) or (None, True)
    if call is None and not name:
        return ("insert", rows.epoch(step, a_row))
    if not allowed:
        raise step.wrong("this call must be refused, so it can only be the last")
    if bool(name) != (call is not None and call[0] == "handle") or call[0] == "at":
        raise step.wrong(
            "this must be the last step" if call and call[0] == "at" else "write a handle as a = handle(0)"
        )
    if name and name[0] in model.handles:
        raise step.wrong(f"{name[0]} is open already")
    return ("handle", str(name[0]), call[1]) if name else call


def reader(line, solution):
    """Read a history of Arrangement (a = handle(0) | +Nut 5 | at("Nut", 1)) or of DeltaJoin (+info Nut Fruit).

    A history goes on in another process only if it says so:
    +Nut 5 | save, restart, load | at("Nut")    an Arrangement that is saved and loaded
    +info Nut Fruit | restart | +visit Nut 5    a new DeltaJoin over the same tables, between all epochs
    """
    steps, rows, done = line.parts("|"), Rows(), []
    if many := line.groups(r"(\d{1,3}) epochs, one new row in each \| save\(\)"):
        return lambda student: few_batches(student, int(many[0]))
    if line.groups(r".*\b(info|visit|price)\b.*"):
        again = len(steps) > 1 and steps[1] == "restart"
        if again and any((step == "restart") != at % 2 for at, step in enumerate(steps)):
            raise line.wrong("restart must stand between all epochs, or between none")
        history = [epoch_of(*rows.epoch(step, a_table_row)) for step in (steps[::2] if again else steps)]
        return lambda student: joins(student, history, again)
    *steps, last = steps
    refuses = last == "since" and steps and steps[-1].groups("(.*), ValueError")
    for step in steps[:-1] if refuses else steps:
        done.append(a_step(step, Model(done), rows))
    if last in ("since", "upper") and not refuses:
        return lambda student: attribute(student, done, str(last))
    if last == "save()":
        return lambda student: (saved_entries if done[-1:] == [COMPACT] else saved_epochs)(student, done)
    call, allowed = a_call(refuses[0] if refuses else last, Model(done)) or (None, True)
    if allowed and call and call[0] == "at" and not refuses:
        return lambda student: reading(student, done, *call[1:])
    if allowed:
        raise last.wrong("the last step must be at(...), since, upper, save(), or a call that must be refused")
    return lambda student: (since_after if refuses else calling)(student, done, *call)
