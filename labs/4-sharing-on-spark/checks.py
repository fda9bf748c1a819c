"""The checks of lab 4. The right answers are recomputed from all calls so far.

In the checks of async code, the student's code runs on an event loop in its own process. It waits only for functions of
this file, and when all of it waits, ``next`` says which wait ends. So everything that is counted is counted here.
"""

import itertools
from functools import partial

from grader.lab import Case, Shape, UnlikeError, awaited, check


def sequences(items, most):
    """All sequences of at most so many items, by length."""
    for length in range(1, most + 1):
        yield from itertools.product(items, repeat=length)


def in_turn(names, most):
    """Those sequences in which the names appear in their order for the first time: no two mean the same."""
    return (each for each in sequences(names, most) if [*dict.fromkeys(each)] == [*names[: len(set(each))]])


# Dedup


def new_ids(calls):
    """What add_new returns for each of (part, attempt, ids)."""
    first, received, answers = {}, set(), []
    for part, attempt, ids in calls:
        for id in ids:
            first.setdefault(id, part)
        new = [id for id in dict.fromkeys(ids) if first[id] == part and (attempt, id) not in received]
        received |= {(attempt, id) for id in new}
        answers.append(new)
    return answers


def words(values):
    return " ".join(map(str, values)) or "nothing"


ADDED = Shape(lambda answers: answers, lambda answers: " | ".join(map(words, answers)))


def adds(student, chosen):
    for calls in chosen:
        trace = " | ".join(f"part {part}, attempt {attempt}: {words(ids)}" for part, attempt, ids in calls)
        yield Case(trace, new_ids(calls), partial(student.play, "Dedup", "add_new", calls), ADDED)


PART_0, PART_1, AGAIN = (0, 0), (1, 1), (0, 2)  # (part, attempt); the last one is another attempt of part 0


def added(attempts, ids, most):
    """Sequences of calls. Each adds some of the ids."""
    return sequences([(*attempt, list(each)) for attempt in attempts for each in ids], most)


def one_after_the_other(calls):
    """No attempt continues after a later one of its partition has begun."""
    of_0 = [attempt for part, attempt, _ in calls if part == 0]
    return of_0 == sorted(of_0)


@check("dedup", task=1)
def dedup(student):
    """An id is new once, in the partition that adds it first."""
    yield from adds(student, added([PART_0, PART_1], [[7], [8], [7, 7], [7, 8]], most=2))


@check("dedup.retry", task=1)
def retry(student):
    """If a partition is tried again, its ids are new to the new attempt, once each."""
    calls = added([PART_0, PART_1, AGAIN], [[7], [8, 7]], most=3)
    yield from adds(student, filter(one_after_the_other, calls))


@check("dedup.two-attempts", task=1)
def two_attempts(student):
    """Two attempts of a partition can run at the same time. What is new to one does not depend on the other."""
    yield from adds(student, added([PART_0, AGAIN], [[7], [8]], most=3))


# Async code


class World:
    """What the student's code waits for. A wait has a number, a name and its arguments."""

    def __init__(self):
        self.waits, self.numbers, self.faults = {}, itertools.count(), []

    def asked(self, name, *args):
        number = next(self.numbers)
        self.waits[number] = (name, *args)
        return number

    def those(self, name):
        """The numbers of the waits with this name, oldest first."""
        return [number for number, wait in self.waits.items() if wait[0] == name]

    def end(self, number, value=None, kind="end"):
        """End a wait: the answer of ``next``."""
        del self.waits[number]
        return [kind, number, value]

    def cancelled(self, number):
        self.waits.pop(number, None)

    def fault(self, text):
        if text not in self.faults and len(self.faults) < 5:
            self.faults.append(text)

    def run(self, student, cls, args, calls, *names):
        """Let calls run at the same time, and return their outcomes. ``names`` are those of async functions."""
        asks = {name: partial(self.asked, name) for name in ("begin", *names)}
        return student.together(cls, args, calls, **{**asks, "next": self.next, "cancelled": self.cancelled})


def like_outcomes(answer):
    outcomes, *found = answer
    if type(outcomes) is not list or not outcomes or not all(map(is_outcome, outcomes)):
        raise UnlikeError("the process of the code must send an outcome for each call")
    return [outcomes, *found]


def is_outcome(one):
    sizes = {"value": 2, "error": 2, "waits": 1, "cancelled": 1}
    return type(one) is list and bool(one) and type(one[0]) is str and sizes.get(one[0]) == len(one)


def show_outcomes(answer):
    outcomes, *found = answer
    shown = "; ".join(map(show_outcome, outcomes))
    return "; ".join([shown, *(text for texts in found for text in texts)])


def show_outcome(outcome):
    kind, *rest = outcome
    if kind == "value" and type(rest[0]) is list:
        return words(rest[0])
    return {"value": "{}", "error": "ConnectionError: {}", "waits": "waits for ever"}.get(kind, kind).format(*rest)


OUTCOMES = Shape(like_outcomes, show_outcomes)


class Calls(World):
    """The calls of in_order for these rows. They end in an order that is given."""

    def __init__(self, rows, in_flight, ends, fails=()):
        super().__init__()
        self.left, self.ends, self.fails, self.seen = list(rows), list(ends), fails, []
        self.call = ("in_order", awaited("call"), list(rows), in_flight)
        self.results = [*map(answer_to, rows)]

    def asked(self, name, *args):
        if name == "call":
            (row,) = args
            if row not in self.left:
                self.fault(f"{row} is called again")
            elif row != self.left[0]:
                self.fault(f"{row} begins before {self.left[0]}")
            self.left = without(row, self.left)
        return super().asked(name, *args)

    def next(self):
        if begins := self.those("begin"):
            return self.end(begins[0])
        return self.end_call() if self.those("call") else None

    def end_call(self):
        running = {self.waits[number][1]: number for number in self.those("call")}
        self.seen.append(words(running))
        row = next((row for row in self.ends if row in running), min(running))
        self.ends = without(row, self.ends)
        return self.end(running[row], *([f"no answer for {row}", "fail"] if row in self.fails else [answer_to(row)]))

    def play(self, student, with_seen=False):
        ((kind, *value),) = outcomes = self.run(student, "", [], [self.call], "call")
        if kind == "value" and self.ends:
            self.fault(f"{words(self.ends)}: not called")
        if kind == "value" and type(found := value[0]) is list and found != self.results:
            if sorted(map(str, found)) == sorted(self.results):
                self.fault("not in the order of the rows")
        return [outcomes, [*self.faults, *[f"running: {', '.join(self.seen)}"] * with_seen]]


class StoppedCalls(Calls):
    """in_order is cancelled after these ends. Another in_order begins then, so that this one has time for its end."""

    stopped = False

    def next(self):
        begins, calls = self.those("begin"), self.those("call")
        if not self.stopped and len(begins) < 2:
            self.stopped = not (self.ends and calls)
            return ["cancel", 0] if self.stopped else self.end_call()
        for number in calls:
            self.fault(f"{self.waits[number][1]} still runs")
        return self.end(begins[0]) if begins else None

    def play(self, student):
        other = (*self.call[:2], [], self.call[3])
        outcomes = self.run(student, "", [], [self.call, other], "call")
        return [outcomes[:1], self.faults]


def without(item, items):
    """The items without the first one that is equal."""
    at = items.index(item) if item in items else len(items)
    return [*items[:at], *items[at + 1 :]]


def answer_to(row):
    return f"{row}{row}"


def ends(left, in_flight, running=()):
    """All orders in which the calls of in_order can end, each with what runs before each end."""
    new = in_flight - len(running)
    running, left = (*running, *left[:new]), left[new:]
    if not running:
        yield (), ()
    for row in running:
        for order, seen in ends(left, in_flight, tuple(one for one in running if one != row)):
            yield (row, *order), (running, *seen)


def orders(student, most, fails=(), with_seen=False):
    for count, in_flight in itertools.product(range(most + 1), (1, 2, 3)):
        rows = "abc"[:count]
        if in_flight <= max(count, 1) and len(fails) <= count:
            for order, seen in ends(rows, in_flight):
                yield in_order(student, rows, in_flight, order, seen if with_seen else None, fails)


def in_order(student, rows, in_flight, order, seen=None, fails=()):
    """A case of in_order, with the order in which the calls end, and with what runs before each end."""
    failed = next((row for row in order if row in fails), None)
    outcome = ["value", [*map(answer_to, rows)]] if failed is None else ["error", f"no answer for {failed}"]
    right = [[outcome], [] if seen is None else [f"running: {', '.join(map(words, seen))}"]]
    shown = ", ".join(f"{row}{' fails' * (row in fails)}" for row in order)

    def play():
        return Calls(rows, in_flight, order, fails).play(student, seen is not None)

    return Case(f"in_flight {in_flight}, {f'ends: {shown}' if shown else 'no rows'}", right, play, OUTCOMES)


@check("order", task=2)
def order(student):
    """The results are in the order of the rows, whatever the order in which the calls end."""
    yield from orders(student, most=3)


@check("order.bound", task=2)
def bound(student):
    """As long as there are rows left, exactly in_flight calls run."""
    yield from orders(student, most=3, with_seen=True)


@check("order.error", task=2, needs=("order",))
def order_error(student):
    """If a call raises, in_order raises its exception; if several do, that of the first one."""
    for fails in ("a", "b", "ab"):
        yield from orders(student, most=2, fails=fails)


@check("order.cancelled", task=2, needs=("order",))
def order_cancelled(student):
    """If in_order is cancelled, its calls are cancelled."""
    for count, in_flight in itertools.product((1, 2, 3), (1, 2)):
        rows = "abc"[:count]
        for ended in range(count if in_flight <= count else 0):
            run = words(rows[ended : ended + in_flight])
            trace = f"in_flight {in_flight}, rows: {words(rows)}; in_order is cancelled while these run: {run}"
            play = partial(play_stopped, student, rows, in_flight, rows[:ended])
            yield Case(trace, [[["cancelled"]], []], play, OUTCOMES)


def play_stopped(student, rows, in_flight, ended):
    return StoppedCalls(rows, in_flight, ended).play(student)


class Database(World):
    """The database that connect() opens connections to. It counts connections and queries.

    ``groups`` are the calls that arrive together; a group arrives when the earlier ones have ended. ``newest``: the
    newest query ends first. ``fails``: the first query of these fails. ``refused``: so many connects fail. ``cancel``:
    the calls with these numbers are cancelled when all of the student's code waits for queries, or, if they are in
    ``connecting``, for connect().
    """

    def __init__(self, size, groups, newest=False, fails=(), refused=0, cancel=(), connecting=()):
        super().__init__()
        self.size, numbers = size, itertools.count()
        self.calls, self.groups = [*itertools.chain(*groups)], [[next(numbers) for _ in group] for group in groups]
        self.newest, self.fails, self.refused = newest, set(fails), refused
        self.cancel, self.connecting = list(cancel), list(connecting)
        self.open, self.connections, self.sent, self.most = set(), itertools.count(1), [], 0

    def asked(self, name, *args):
        if name == "query":
            self.query(*args)
        number = super().asked(name, *args)
        if (count := len(self.open) + len(self.those("connect"))) > self.size:
            self.fault(f"{count} connections are open")
        self.most = max(self.most, len(self.those("query")))
        return number

    def query(self, connection, q):
        self.sent.append(q)
        if connection not in self.open:
            self.fault(f"{q} is sent on a broken connection")
        if any(self.waits[number][1] == connection for number in self.those("query")):
            self.fault(f"{q} is sent on a connection that has not answered yet")
        if any(self.waits[number][2] == q for number in self.those("query")):
            self.fault(f"{q} is sent twice at the same time")

    def cancelled(self, number):
        wait = self.waits.get(number, ("",))
        if wait[0] == "query":
            self.open.discard(wait[1])
        super().cancelled(number)

    def next(self):
        begins = {self.waits[number][1]: number for number in self.those("begin")}
        if arriving := [call for call in self.groups[0] if call in begins] if self.groups else []:
            return self.end(begins[arriving[0]])
        if connects := self.those("connect"):
            if stopped := [call for call in self.connecting if call not in begins]:
                self.connecting.remove(stopped[0])
                return ["cancel", stopped[0]]
            if self.refused:
                self.refused -= 1
                return self.end(connects[0], "connection refused", "fail")
            self.open.add(new := next(self.connections))
            return self.end(connects[0], awaited("query", new))
        self.at_rest()
        if stopped := [call for call in self.cancel if call not in begins]:
            self.cancel.remove(stopped[0])
            return ["cancel", stopped[0]]
        if queries := self.those("query"):
            return self.answer(queries[-1 if self.newest else 0])
        if self.groups:
            self.groups.pop(0)
            return self.next()
        return None

    def answer(self, number):
        _, connection, q = self.waits[number]
        if q in self.fails:
            self.fails.remove(q)
            self.open.discard(connection)
            return self.end(number, f"{q} has lost its connection", "fail")
        return self.end(number, answer_to(q))

    def at_rest(self):
        """All of the student's code waits, and everything that can arrive has arrived."""


def arrivals(names):
    """All ways in which these can arrive: in groups, one after the other."""
    for cuts in itertools.product((False, True), repeat=len(names) - 1):
        groups = [[names[0]]]
        for cut, name in zip(cuts, names[1:], strict=True):
            if cut:
                groups.append([name])
            else:
                groups[-1].append(name)
        yield groups


class PoolsDatabase(Database):
    """Each call is one query. With ``busy``, as many queries as possible must run when nothing else happens."""

    def __init__(self, size, groups, busy=False, **more):
        super().__init__(size, groups, **more)
        self.busy, self.ended = busy, 0

    def next(self):
        told = super().next()
        self.ended += told is not None and told[0] == "cancel"
        return told

    def end(self, number, value=None, kind="end"):
        self.ended += self.waits[number][0] == "query" or kind == "fail"
        return super().end(number, value, kind)

    def at_rest(self):
        left = len(self.calls) - len(self.those("begin")) - self.ended
        possible, running = min(self.size, left), len(self.those("query"))
        if self.busy and running < possible:
            self.fault(f"{running} of {left} queries run, and {possible} could")

    def play(self, student):
        args, calls = [self.size, awaited("connect")], [("query", q) for q in self.calls]
        outcomes = self.run(student, "Pool", args, calls, "connect", "query")
        for q, outcome in zip(self.calls, outcomes, strict=False):
            if outcome[0] == "value" and q not in self.sent:
                self.fault(f"{q} was not sent")
        return [outcomes, self.faults]


def queries(student, size, groups, **more):
    """A case of Pool: queries that arrive in groups, each of which begins when the earlier ones have ended."""
    world = PoolsDatabase(size, groups, **more)
    right, shown, refused = [], [], world.refused
    for number, q in enumerate(world.calls):
        what, outcome = "", ["value", answer_to(q)]
        if refused:
            what, outcome = " (refused)", ["error", "connection refused"]
        elif q in world.fails:
            what, outcome = " (fails)", ["error", f"{q} has lost its connection"]
        elif number in world.cancel:
            what, outcome = " (cancelled)", ["cancelled"]
        elif number in world.connecting:
            what, outcome = " (cancelled in connect)", ["cancelled"]
        right.append(outcome)
        shown.append(f"{q}{what}")
        refused = max(0, refused - 1)
    names = iter(shown)
    trace = " | ".join(", ".join(next(names) for _ in group) for group in groups)
    newest = "; the newest ends first" if world.newest and len(groups) < len(world.calls) else ""
    return Case(
        f"size {size}: {trace}{newest}",
        [right, []],
        lambda: PoolsDatabase(size, groups, **more).play(student),
        OUTCOMES,
    )


@check("pool", task=3)
def pool(student):
    """Every query is answered, over at most size connections, which are kept. A connection has one query at a time."""
    for count, size in itertools.product((1, 2, 3), (1, 2)):
        for groups in arrivals("abc"[:count]):
            yield queries(student, size, groups)


@check("pool.busy", task=3)
def busy(student):
    """If there are enough queries, size of them run at the same time, whichever ends first."""
    for groups, size, newest in itertools.product(arrivals("abc"), (2, 3), (False, True)):
        if not newest or len(groups) < 3:
            yield queries(student, size, groups, busy=True, newest=newest)


@check("pool.broken", task=3)
def broken(student):
    """A connection whose query has failed is replaced. The error is that of the query alone, which is not repeated."""
    for size, count in itertools.product((1, 2), (1, 2, 3)):
        for groups in arrivals("abc"[:count]):
            for number in range(1, 2 if count == 3 else count + 1):
                yield queries(student, size, groups, fails="abc"[:number])
    yield queries(student, 2, [["a", "b"], ["c"], ["d", "e"]], fails="c")


@check("pool.place", task=3)
def place(student):
    """After a refused connect or a cancelled query, the pool answers as many queries as before."""
    for count in (2, 3):
        for refused in range(1, count):
            yield queries(student, 1, [*"abc"[:count]], refused=refused)
    yield queries(student, 1, ["a", "b"], connecting=[0])
    yield queries(student, 1, ["ab", "c"], connecting=[0])
    for groups in (["a", "b"], ["ab"], ["ab", "c"], ["abc", "d"]):
        for number in range(len(groups[0])):
            yield queries(student, 1, groups, cancel=[number])


# Cache


class Model:
    """What the calls of a cache return. It searches all that has happened."""

    def __init__(self, capacity, max_age):
        self.capacity, self.max_age = capacity, max_age
        self.loads, self.rows, self.last = {}, {}, []  # last: the keys, the most recently stored or given one last

    def use(self, key):
        self.last = [*(one for one in self.last if one != key), key]
        for old in self.last[: -self.capacity]:
            del self.rows[old]
        self.last = self.last[-self.capacity :]

    def ask(self, task, now, key):
        if key in self.loads:
            return "wait"
        if key in self.rows and now - self.rows[key][1] <= self.max_age:
            self.use(key)
            return ["value", self.rows[key][0]]
        self.loads[key] = task, now
        return "load"

    def loaded(self, task, now, key, value):
        if self.loads.get(key, (None,))[0] == task:
            self.rows[key] = value, self.loads.pop(key)[1]
            self.use(key)

    def gone(self, task):
        self.loads = {key: load for key, load in self.loads.items() if load[0] != task}


def like_answers(calls, answers):
    """Only what ask returns counts."""
    return [answer for (name, *_), answer in zip(calls, answers, strict=True) if name == "ask"]


def show_answers(answers):
    return " | ".join(f"value {one[1]}" if type(one) is list and len(one) == 2 else str(one) for one in answers)


def say(name, task, now=None, *key_and_value):
    return " ".join([task, {"ask": "asks", "loaded": "loaded", "gone": "is gone"}[name], *map(str, key_and_value)])


def cached(student, calls, capacity=9, max_age=100, with_time=False):
    """A case of the cache, which ends with the last ask. A call is (name, task, now, ...), or ("gone", task)."""
    calls = calls[: max(at for at, call in enumerate(calls, 1) if call[0] == "ask")]
    model = Model(capacity, max_age)
    right = [getattr(model, name)(*given) for name, *given in calls]
    what = [f"capacity {capacity}: "] if capacity < 9 else [f"max_age {max_age}: "] if with_time else [""]
    times = [f"at {call[2]}, " if with_time and len(call) > 2 else "" for call in calls]
    trace = what[0] + " | ".join(f"{time}{say(*call)}" for time, call in zip(times, calls, strict=True))

    def play():
        return like_answers(calls, student.new("Cache", capacity, max_age).all(calls))

    return Case(trace, like_answers(calls, right), play, Shape(lambda answers: answers, show_answers))


def possible(calls):
    """Only the task that loads a key has loaded it."""
    model = Model(9, 100)
    for name, *given in calls:
        if name == "loaded" and model.loads.get(given[2], (None,))[0] != given[0]:
            return False
        getattr(model, name)(*given)
    return calls[-1][0] == "ask"


def overlap(calls):
    """A key is asked for while one is being loaded."""
    model = Model(9, 100)
    for name, *given in calls:
        if name == "ask" and model.loads:
            return True
        getattr(model, name)(*given)
    return False


def ask(task, key="x", now=0):
    return "ask", task, now, key


def loaded(task, key="x", value=1, now=0):
    return "loaded", task, now, key, value


def got(keys, capacity):
    """The calls of a task that needs these keys one after the other, and loads what it must."""
    model, calls = Model(capacity, 100), []
    for number, key in enumerate(keys):
        calls.append(ask("A", key))
        if model.ask("A", 0, key) == "load":
            calls.append(loaded("A", key, number))
            model.loaded("A", 0, key, number)
    return calls


@check("cache", task=4)
def cache(student):
    """A value that was loaded is given to the next task, whatever the value is."""
    keys = {"x": 0, "y": None, "z": 1}
    events = [*(ask("A", key) for key in keys), *(loaded("A", *each) for each in keys.items())]
    for calls in filter(possible, sequences(events, most=4)):
        if not overlap(calls):
            yield cached(student, calls)


@check("cache.full", task=4)
def full(student):
    """If the cache is full, it forgets the value that was least recently stored or given."""
    for capacity in (1, 2):
        for keys in in_turn("xyz", most=5):
            if len(set(keys)) > capacity:
                yield cached(student, got(keys, capacity), capacity)


@check("cache.one-load", task=4)
def one_load(student):
    """A key is loaded by one task at a time, and the others wait. Tasks do not wait for other keys."""
    events = [ask("A"), ask("B"), ask("B", "y"), loaded("A"), loaded("B", "x", 2)]
    yield from (cached(student, calls) for calls in sequences(events, most=4) if possible(calls))


@check("cache.age", task=4)
def age(student):
    """The age of a value counts from the beginning of its load, not from its use. Above max_age, it is loaded again."""
    for steps in sequences((1, 6, 11), most=3):
        for slow in (0, 4):
            now, calls, model = 0, [], Model(9, 10)
            for step in (0, *steps):
                now += step
                calls.append(ask("A", "x", now))
                if model.ask("A", now, "x") == "load":
                    now += slow
                    calls += [ask("B", "x", now)] * bool(slow)
                    calls.append(loaded("A", "x", len(calls), now))
                    model.loaded("A", now, "x", len(calls))
            yield cached(student, calls, max_age=10, with_time=True)


@check("cache.gone", task=4)
def gone(student):
    """If a task fails while it loads, the next task that asks must load."""
    events = [ask("A"), ask("B"), ("gone", "A"), ("gone", "B"), loaded("A"), loaded("B", "x", 2)]
    for calls in sequences(events, most=4):
        if calls[0][1] == "A" and possible(calls):  # with A and B exchanged, it is the same case
            yield cached(student, calls)


@check("cache.late", task=4)
def late(student):
    """A value that arrives after its task has failed is ignored, unless the task loads the key again."""
    before = [ask("A"), ("gone", "A")]
    yield cached(student, [*before, loaded("A"), ask("B")])
    yield cached(student, [*before, ask("B"), loaded("A"), ask("A")])
    yield cached(student, [*before, ask("B"), loaded("A"), loaded("B", "x", 2), ask("A")])
    yield cached(student, [*before, ask("B"), loaded("B", "x", 2), loaded("A"), ask("A")])
    yield cached(student, [*before, ask("A"), loaded("A"), ask("B")])  # it loads again, so this is no late value


# Owner


class OwnersDatabase(Database):
    """Each call is the request of a task: (task, keys)."""

    def play(self, student, in_flight, right):
        calls = [("answer", task, list(keys)) for task, keys in self.calls]
        args = [awaited("connect"), self.size, in_flight]
        outcomes = self.run(student, "Owner", args, calls, "connect", "query")
        found = {"loads": f"loads: {words(sorted(self.sent))}", "at most": f"at most {self.most} at once"}
        return [outcomes, [*self.faults, *(found[what] for what in right)]]


def requests(student, size, in_flight, groups, fails=(), cancel=()):
    """A case of Owner: requests that arrive in groups. The first load of each key in ``fails`` fails."""
    world, left, outcomes, shown = OwnersDatabase(size, groups), set(fails), [], []
    for number, (task, keys) in enumerate(world.calls):
        bad = "" if number in cancel else next((key for key in keys if key in left), "")
        left -= {bad}
        outcome = ["error", f"{bad} has lost its connection"] if bad else ["value", [*map(answer_to, keys)]]
        outcomes.append(["cancelled"] if number in cancel else outcome)
        more = " (cancelled)" if number in cancel else f" (the load of {bad} fails)" if bad else ""
        shown.append(f"{task} asks {words(keys)}{more}")
    names, needed = iter(shown), [key for _, keys in world.calls for key in keys]
    again = [key for key in fails if needed.count(key) > 1]
    right = {} if cancel else {"loads": f"loads: {words(sorted([*set(needed), *again]))}"}
    if len(world.calls) == 1 and len(set(needed)) == len(needed):
        right["at most"] = f"at most {min(size, in_flight, len(needed))} at once"
    return Case(
        f"size {size}, in_flight {in_flight}: {' | '.join(', '.join(next(names) for _ in group) for group in groups)}",
        [outcomes, [*right.values()]],
        lambda: OwnersDatabase(size, groups, fails=fails, cancel=cancel).play(student, in_flight, right),
        OUTCOMES,
    )


@check("owner", task=5, needs=("order", "pool", "cache"))
def owner(student):
    """A task gets the values of its keys, in their order. Each key is loaded once, and at most in_flight at once."""
    for size, in_flight in ((1, 1), (3, 2), (2, 3)):
        for keys in in_turn("xyz", most=3):
            yield requests(student, size, in_flight, [[("A", keys)]])


@check("owner.shared", task=5, needs=("owner", "cache.one-load"))
def shared(student):
    """A key that several tasks need is loaded once, whether they ask at the same time or one after the other."""
    yield requests(student, 2, 2, [[("A", "x")], [("A", "xy")]])
    for keys in sequences("xyz", most=2):
        for groups in arrivals([("A", "xy"), ("B", keys)]):
            yield requests(student, 2, 2, groups)


@check("owner.failed", task=5, needs=("order.error", "pool.broken", "cache.gone", "owner"))
def failed(student):
    """If a load fails, the task that loads gets the exception, and one of the tasks that wait loads again."""
    for count, in_flight in itertools.product((1, 2, 3), (1, 2)):
        for groups in arrivals([(task, "x") for task in "ABC"[:count]]):
            yield requests(student, 1, in_flight, groups, fails="x")
    for groups, in_flight in itertools.product(arrivals([("A", "y"), ("B", "xy")]), (1, 2)):
        yield requests(student, 1, in_flight, groups, fails="y")


@check("owner.cancelled", task=5, needs=("order.cancelled", "pool.place", "owner"))
def cancelled(student):
    """If a request is cancelled, the tasks that wait for its loads get their values."""
    for keys_a, keys_b in (("x", "x"), ("xy", "yx")):
        for groups in arrivals([("A", keys_a), ("B", keys_b)]):
            yield requests(student, 1, 2, groups, cancel=[0])
