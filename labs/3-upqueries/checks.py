"""The checks of lab 3.

Some checks call the methods of one operator in turn, and compare the messages that it returns. The others connect
operators with lines, choose which message is delivered next, and compare what the view shows in the end with the rows
of the tables, counted from scratch. A trace such as "Count: change Nut +1" says who is called, with which message.
"""

import itertools
import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial

from grader.lab import Case, NoValueError, Shape, UnlikeError, check

MOST = 1000  # orders that a check tries at most
FEW = 10  # messages that a method returns
LONGEST = 60  # steps of an order
EXAMPLES = {
    "question": ("question", "Nut"),
    "answer": ("answer", "Nut", 2),
    "change": ("change", "Nut", 1),
    "evict": ("evict", "Nut"),
}
OF_UNION = {"question": ("question", "left", "Nut")}
OF_MAX = {"answer": ("answer", "Nut", [2]), "change": ("change", "Nut", 2, 1)}


def words(call):
    """A call or a message as text, such as "change Nut +1"."""
    *first, last = call
    signed = call[0] in ("change", "write") and type(last) is int
    return " ".join(map(str, [*first, f"{last:+}" if signed else last]))


def like_messages(cls, call, told):
    """What a call has returned: what goes up and what goes down. Changes in a row have no order, and may cancel."""
    name = f"{cls}.{call[0]}"
    examples = {**EXAMPLES, **{"Union": OF_UNION, "Max": OF_MAX}.get(cls, {})}
    if type(told) is not list:
        raise UnlikeError(f"{name} must return a list of messages; if there are none, []")
    if told and type(told[0]) is str:
        like = examples.get(told[0], examples["evict"])
        raise UnlikeError(f"{name} must return a list of messages, also if there is only one: [{like}]")
    if len(told) >= FEW:
        raise UnlikeError(f"{name} must return fewer than {FEW} messages")
    up, down = [], []
    for message in told:
        kind = message[0] if type(message) is list and message else None
        if type(kind) is not str or kind not in examples:
            raise UnlikeError(f"{name} must return a list of messages such as {', '.join(map(str, examples.values()))}")
        like = examples[kind]
        if list(map(form, message)) != list(map(form, like)):
            raise UnlikeError(f"{name} must return messages such as {like}; {misfit(message, like)}")
        (up if kind == "question" else down).append(message)
    runs = []
    for kind, group in itertools.groupby(down, key=lambda message: message[0]):
        if kind == "change":
            total = Counter()
            for _, *row, diff in group:
                total[tuple(row)] += diff
            runs += [[kind, *row, diff] for row, diff in sorted(total.items()) if diff]
        else:
            runs += group
    return [sorted(up), runs]


def misfit(message, example):
    """Why a message does not look like the example."""
    if len(message) != len(example):
        return f"a message of this kind has {len(example)} parts"
    n = [form(part) == form(like) for part, like in zip(message, example, strict=True)].index(False)
    wanted = {str: "a short text", int: "an int below a million"}.get(form(example[n]), "a short list of ints")
    return f"part {n + 1} of a message of this kind is {wanted}"


def form(value):
    """The type of a value that is not too large: str, int, or "ints" for a list of int."""
    if type(value) is list:
        return "ints" if len(value) < FEW and all(form(one) is int for one in value) else None
    small = len(value) < 50 if type(value) is str else type(value) is int and abs(value) < 1_000_000
    return type(value) if small else None


def methods(student, cls, *cases):
    """Cases of one operator. Each is a list of (call, the messages that it returns)."""
    for case in cases:
        calls = [call for call, _ in case]
        right = [list(told) for _, told in case]
        trace = " | ".join(f"{cls}: {words(call)}" for call in calls)
        shape = Shape(partial(like_answers, cls, calls), show_messages)
        yield Case(trace, right, partial(student.calls, cls, calls), shape)


def like_answers(cls, calls, answers):
    return [like_messages(cls, call, told) for call, told in zip(calls, answers, strict=False)]


def show_messages(answers):
    return " | ".join(", ".join(map(words, told)) or "nothing" for told in answers)


READ, ASKED = ("question", "Nut"), [("question", "Nut")]
GONE = ("evict", "Nut"), [("evict", "Nut")]
MORE, LESS = ("change", "Nut", +1), ("change", "Nut", -1)


def told(n, key="Nut"):
    """An answer to Count, and what it returns."""
    return ("answer", key, n), [("answer", key, n)]


@check("table", task=1)
def table(student):
    """The table sends every change down, and its answer is the number of rows."""
    write, delete = (("write", "Nut", +1), [MORE]), (("write", "Nut", -1), [LESS])
    yield from methods(
        student,
        "Table",
        [write],
        [(("question", "Nut", 0), [("answer", "Nut", 0)])],
        [write, delete],
        [write, (("question", "Nut", 1), [("answer", "Nut", 1)])],
        [write, (("question", "Pea", 0), [("answer", "Pea", 0)])],
        [write, write, delete, (("question", "Nut", 1), [("answer", "Nut", 1)])],
    )


@check("hole.drops", task=1, rule=17)
def drops(student):
    """A change of a hole is dropped: it is not stored and not sent down."""
    pea = [(("question", "Pea"), [("question", "Pea")]), told(2, "Pea")]
    yield from methods(
        student,
        "Count",
        [(MORE, [])],
        [(LESS, [])],
        [(MORE, []), (MORE, [])],
        [(MORE, []), (READ, ASKED)],
        [(READ, ASKED), (MORE, [])],
        [*pea, (MORE, [])],
    )


@check("miss", task=1, rule=16)
def miss(student):
    """A question for a hole goes up. Its answer fills the key, which is then kept up to date and answered from here."""
    filled = [(READ, ASKED), told(2)]
    yield from methods(
        student,
        "Count",
        [(READ, ASKED)],
        filled,
        [*filled, (MORE, [MORE])],
        [*filled, (LESS, [LESS])],
        [*filled, (READ, [("answer", "Nut", 2)])],
        [*filled, (MORE, [MORE]), (READ, [("answer", "Nut", 3)])],
        [*filled, (LESS, [LESS]), (MORE, [MORE]), (LESS, [LESS]), (READ, [("answer", "Nut", 1)])],
        [*filled, (("question", "Pea"), [("question", "Pea")])],
    )


@check("empty", task=1, rule=16)
def empty(student):
    """A key with 0 rows is filled, too: it is not asked for again, and its changes are applied."""
    filled = [(READ, ASKED), told(0)]
    yield from methods(
        student,
        "Count",
        filled,
        [*filled, (READ, [("answer", "Nut", 0)])],
        [*filled, (MORE, [MORE])],
        [(READ, ASKED), told(1), (LESS, [LESS]), (READ, [("answer", "Nut", 0)])],
        [(READ, ASKED), told(1), (LESS, [LESS]), (MORE, [MORE])],
    )


@check("once", task=1, rule=16)
def once(student):
    """If two readers ask for the same hole, one question goes up, and one answer goes down."""
    pea = ("question", "Pea")
    yield from methods(
        student,
        "Count",
        [(READ, ASKED), (READ, [])],
        [(READ, ASKED), (READ, []), (READ, [])],
        [(READ, ASKED), (READ, []), told(2)],
        [(READ, ASKED), (pea, [pea]), (READ, []), (pea, [])],
        [(READ, ASKED), (pea, [pea]), told(2), (pea, []), told(1, "Pea")],
    )


@dataclass(frozen=True)
class Node:
    """An operator of a graph: its class, the operator below, and its side if that is a union."""

    cls: str
    below: str = "view"
    side: str = ""


def sided(name, cls, below):
    """One operator for each side of a union."""
    return {f"{side} {name}": Node(cls, below.format(side), side) for side in ("left", "right")}


COUNT = {"Table": Node("Table", "Count"), "Count": Node("Count")}
CHAIN = {"Table": Node("Table", "Count 1"), "Count 1": Node("Count", "Count 2"), "Count 2": Node("Count")}
MAX = {"Table": Node("values", "Max"), "Max": Node("Max")}  # its table is not the student's: it has values
UNION = {**sided("Table", "Table", "Union"), "Union": Node("Union")}
DEEP = {**sided("Table", "Table", "{} Count"), **sided("Count", "Count", "Union"), "Union": Node("Union")}


class BrokenError(Exception):
    """An operator has returned something that cannot be delivered."""


class World:
    """The operators of a graph, and the messages that are on their way. A message to the view arrives at once."""

    def __init__(self, student, graph):
        self.student, self.graph = student, graph
        self.known = {}  # (class, calls) -> what the last of these calls returns
        self.calls = {}  # operator -> its calls so far
        self.lines = {}  # (sender, receiver) -> calls on their way, oldest first
        self.rows = Counter()  # (table, key) or (table, key, value) -> how many rows there are
        self.view = {}  # filled key -> Counter of its values; a number of rows is the count of the value None
        self.waits = {}  # key that a reader waits for -> the rows that there were when the first reader asked
        self.log = ()

    def copy(self):
        other = World(self.student, self.graph)
        other.known, other.calls, other.lines, other.log = self.known, dict(self.calls), dict(self.lines), self.log
        other.rows, other.waits = self.rows.copy(), dict(self.waits)
        other.view = {key: values.copy() for key, values in self.view.items()}
        return other

    def turns(self):
        """The lines on which a message can be delivered."""
        return [line for line, calls in self.lines.items() if calls]

    def deliver(self, line):
        """Deliver the oldest message of a line."""
        call, *left = self.lines[line]
        self.lines[line] = tuple(left)
        self.act(line[1], call)

    def act(self, name, call):
        """An operator is called, or the view is read."""
        kind, key, *rest = call
        cls = "view" if name == "view" else self.graph[name].cls
        if kind == "question" and cls == "Table":
            call = (*call, self.waits.get(key, self.rows)[name, key])
        self.log = (*self.log, f"{name}: {words(call)}")
        if kind == "write":
            self.rows[(name, key, *rest[:-1])] += rest[-1]
        if cls == "view":
            if key not in self.view:
                self.waits.setdefault(key, self.rows.copy())
                (above,) = (above for above, node in self.graph.items() if node.below == "view")
                self.send("view", above, ("question", key))
        elif cls == "values":
            values = [value for (_, at, value), n in self.rows.items() if at == key for _ in range(n)]
            self.route(name, [["change", *call[1:]] if kind == "write" else ["answer", key, values]])
        else:
            self.calls[name] = (*self.calls.get(name, ()), call)
            told = self.told(cls, self.calls[name])
            try:
                like_messages(cls, call, told)
            except UnlikeError as unlike:
                raise BrokenError(f"{name} has returned {repr(told)[:200]}; {unlike}") from None
            self.route(name, told)

    def told(self, cls, calls):
        """What the student's operator returns to the last of these calls. Each history is asked for once."""
        asked = cls, repr(calls)
        if asked not in self.known:
            try:
                self.known[asked] = self.student.calls(cls, calls)[-1]
            except NoValueError as failed:
                self.known[asked] = failed
        if isinstance(self.known[asked], NoValueError):
            raise self.known[asked]
        return self.known[asked]

    def route(self, name, told):
        """Send on what an operator has returned."""
        node = self.graph[name]
        for kind, *rest in told:
            if kind == "question":
                *side, key = rest
                above = [n for n, up in self.graph.items() if up.below == name and side in ([], [up.side])]
                if not above:
                    raise BrokenError(
                        f"{name} asks {words((kind, *rest))}, but it has no operator above that could answer"
                    )
                self.send(name, above[0], (kind, key))
            elif node.below == "view":
                self.show(kind, *rest)
            else:
                side = [node.side] if self.graph[node.below].cls == "Union" else []
                self.send(name, node.below, (kind, *side, *rest))

    def send(self, sender, receiver, call):
        self.lines[sender, receiver] = (*self.lines.get((sender, receiver), ()), call)

    def show(self, kind, key, *rest):
        """A message arrives at the view."""
        if kind == "evict":
            self.view.pop(key, None)
        elif kind == "change":
            if key in self.view:
                self.view[key][rest[0] if rest[1:] else None] += rest[-1]
        else:
            values = Counter(rest[0] if isinstance(rest[0], list) else {None: rest[0]})
            self.view.setdefault(key, values)
            self.waits.pop(key, None)

    def settle(self):
        """Deliver everything, the oldest line first."""
        for _ in range(LONGEST):
            if not self.turns():
                return
            self.deliver(self.turns()[0])
        raise BrokenError(f"after {LONGEST} deliveries, there are still messages on their way")

    def end(self, key):
        """What the view shows in the end. A hole is read again."""
        self.settle()
        if key not in self.view and key not in self.waits:
            self.act("view", ("read", key))
            self.settle()
        if key not in self.view:
            return "has no answer"
        if self.graph is not MAX:
            return self.view[key][None]
        found = [(value, n) for value, n in sorted(self.view[key].items()) if n]
        return [value if n == 1 else f"{value} (x {n})" for value, n in found]

    def right(self, key):
        """What the view must show in the end: the rows of all tables."""
        found = Counter()
        for (_, at, *value), n in self.rows.items():
            if at == key:
                found[value[0] if value else None] += n
        return ([max(found.elements())] if +found else []) if self.graph is MAX else found[None]


def orders(world, actions):
    """Yield every order of the actions and of the deliveries: the world at the end, and what has ended it early."""
    turns = world.turns() if len(world.log) < LONGEST else []
    if not turns and not actions:
        yield world, None
    for line in [None] * bool(actions) + turns:
        after = world.copy()
        try:
            after.act(*actions[0]) if line is None else after.deliver(line)
        except (BrokenError, NoValueError) as error:
            yield after, error
        else:
            yield from orders(after, actions[1:] if line is None else actions)


def drawn_orders(most, world, actions):
    """Yield so many orders, drawn at random."""
    for n in range(most):
        draw, after, left = random.Random(f"{n} {actions}"), world.copy(), list(actions)
        try:
            while (left or after.turns()) and len(after.log) < LONGEST:
                line = draw.choice([*after.turns(), *[None] * bool(left)])
                after.act(*left.pop(0)) if line is None else after.deliver(line)
        except (BrokenError, NoValueError) as error:
            yield after, error
        else:
            yield after, None


def one_by_one(world, actions):
    """Yield the only order in which everything is delivered before the next action."""
    try:
        for action in actions:
            world.act(*action)
            world.settle()
    except (BrokenError, NoValueError) as error:
        yield world, error
    else:
        yield world, None


def at_the_end(world, error, keys):
    """What the view shows for each key, or what has ended the order early."""
    try:
        return error or [[key, world.end(key)] for key in keys]
    except (BrokenError, NoValueError) as failed:
        return failed


def answer(shown):
    """What was shown, as the answer to a case."""
    if isinstance(shown, NoValueError):
        raise shown
    return str(shown) if isinstance(shown, BrokenError) else shown


def show_ends(shown):
    if isinstance(shown, str):
        return shown
    return "view: " + ", ".join(f"{key} {seen}" for key, seen in shown)


ENDS = Shape(lambda shown: shown, show_ends)


def races(student, graph, scripts, before=(), every=orders, shape=lambda right: ENDS):
    """Cases for every order of each script, shortest first: what the view shows in the end, for each key.

    The actions in ``before`` come first, one by one.
    """
    empty, left = World(student, graph), MOST
    for script in scripts:
        if not possible([*before, *script]):
            continue
        ((start, error),) = one_by_one(empty.copy(), before)
        keys = sorted({key for _, (_, key, *_) in (*before, *script)})
        found = []
        for world, early in [(start, error)] if error else itertools.islice(every(start, script), left):
            found.append((world, at_the_end(world, early, keys)))
            if isinstance(found[-1][1], NoValueError) and found[-1][1].answer.kind != "error":
                found = found[-1:]  # the process has ended, or hangs: no other order can be tried
                break
        left -= len(found)
        for world, seen in sorted(found, key=lambda one: len(one[0].log)):
            right = [[key, world.right(key)] for key in keys]
            log = world.log if len(world.log) < LONGEST else (*world.log[:12], "...")
            yield Case(" | ".join(log), right, partial(answer, seen), shape(right))


def at_least(right):
    """The shape of answers that are right if no number is too small."""

    def like(shown):
        if isinstance(shown, str):
            return shown
        return [[key, min(n, most) if type(n) is int else n] for (key, n), (_, most) in zip(shown, right, strict=True)]

    return Shape(like, show_ends)


def scripts(actions, most):
    """All scripts of at most so many actions, by length."""
    for length in range(1, most + 1):
        yield from itertools.product(actions, repeat=length)


def possible(script):
    """No row is deleted that is not there."""
    rows = Counter()
    for table, (kind, *row, last) in script:
        if kind == "write":
            rows[(table, *row)] += last
            if rows[(table, *row)] < 0:
                return False
    return True


def read(key="Nut"):
    return "view", ("read", key)


def write(diff, *value, key="Nut", table="Table"):
    return table, ("write", key, *value, diff)


def evict(operator, key="Nut"):
    return operator, ("evict", key)


@check("evict", task=2, rule=19, needs=("table", "hole.drops", "miss", "empty"))
def evicts(student):
    """An evicted key is a hole again, in the operator and in all operators below."""
    actions = [read(), write(+1), evict("Count")]
    yield from races(student, COUNT, scripts(actions, 3), every=one_by_one)
    filled = [(READ, ASKED), told(2)]
    pea = [(("question", "Pea"), [("question", "Pea")]), told(1, "Pea")]
    yield from methods(
        student,
        "Count",
        [GONE],
        [*filled, GONE],
        [*filled, GONE, (MORE, [])],
        [*filled, GONE, (READ, ASKED), told(3), (MORE, [MORE])],
        [*filled, *pea, GONE, (("question", "Pea"), [("answer", "Pea", 1)])],
    )
    yield from races(student, CHAIN, scripts([read(), write(+1), evict("Count 1")], 3), every=one_by_one)


@check("evict.asked", task=2, rule=19, needs=("once", "evict"))
def evicts_while_it_waits(student):
    """If a key is evicted while its question is on its way, the answer still fills it. No second question goes up."""
    yield from methods(
        student,
        "Count",
        [(READ, ASKED), GONE, told(2)],
        [(READ, ASKED), GONE, (READ, [])],
        [(READ, ASKED), GONE, told(2), (MORE, [MORE])],
    )


@check("lost", task=3, rule=18, needs=("evict", "evict.asked"))
def lost(student):
    """In every order, the answer contains the changes that were sent before it: no change is lost."""
    yield from races(student, COUNT, scripts([read(), write(+1), evict("Count")], 3), shape=at_least)


@check("exact", task=3, rule=18)
def exact(student):
    """In every order, the answer contains the changes that were sent before it, insertions and deletions, once each."""
    yield from races(student, COUNT, scripts([read(), write(+1), write(-1), evict("Count")], 3))


FIRST = ("answer", "Nut", [2, 1]), [("answer", "Nut", [2])]
FILL = [(READ, ASKED), FIRST]


def value(value, diff):
    return "change", "Nut", value, diff


VALUES = [write(+1, 1), write(+1, 2), read()]  # before the races of Max
WRITES = [write(-1, 2), write(+1, 2), write(+1, 3), read()]


@check("max.filled", task=4, rule=16)
def max_filled(student):
    """Max fills holes as Count does, and a change of a filled key is sent down only if the largest value changes."""
    none = [(READ, ASKED), (("answer", "Nut", []), [("answer", "Nut", [])])]
    yield from methods(
        student,
        "Max",
        [(value(2, +1), [])],
        [(READ, ASKED), (READ, [])],
        FILL,
        none,
        [*FILL, (READ, [("answer", "Nut", [2])])],
        [*none, (READ, [("answer", "Nut", [])])],
        [(READ, ASKED), (("answer", "Nut", [0]), [("answer", "Nut", [0])]), (READ, [("answer", "Nut", [0])])],
        [*none, (value(3, +1), [value(3, +1)])],
        [*none, (value(-1, +1), [value(-1, +1)])],
        [*FILL, (value(3, +1), [value(2, -1), value(3, +1)])],
        [*FILL, (value(1, +1), [])],
        [*FILL, (value(2, +1), [])],
        [*FILL, (value(1, -1), [])],
        [*FILL, (value(3, +1), [value(2, -1), value(3, +1)]), (READ, [("answer", "Nut", [3])])],
    )


@check("max.reread", task=4, rule=21)
def max_reread(student):
    """If the last largest value is deleted, one question goes up. Then changes go down, and an answer if asked for."""
    lost = [*FILL, (value(2, -1), ASKED)]
    yield from methods(
        student,
        "Max",
        lost,
        [(READ, ASKED), (("answer", "Nut", [2, 2]), [("answer", "Nut", [2])]), (value(2, -1), [])],
        [*lost, (("answer", "Nut", [1]), [value(2, -1), value(1, +1)])],
        [*lost, (("answer", "Nut", []), [value(2, -1)])],
        [*lost, (("answer", "Nut", [1, 2]), [])],
        [*lost, (value(3, +1), [])],
        [*lost, (value(3, +1), []), (("answer", "Nut", [1, 3]), [value(2, -1), value(3, +1)])],
        [*lost, (READ, []), (("answer", "Nut", [1]), [value(2, -1), value(1, +1), ("answer", "Nut", [1])])],
        [*FILL, (value(2, +1), []), (value(2, -1), []), (value(2, -1), ASKED)],
        [*FILL, (value(3, +1), [value(2, -1), value(3, +1)]), (value(3, -1), ASKED)],
    )
    yield from races(student, MAX, scripts(WRITES, 3), VALUES)


@check("max.evict", task=4, rule=19, needs=("max.filled", "max.reread"))
def max_evict(student):
    """An evicted key is a hole again. A question is not taken back: its answer goes to who asked, without changes."""
    lost, one = [*FILL, (value(2, -1), ASKED)], ("answer", "Nut", [1])
    yield from methods(
        student,
        "Max",
        [GONE],
        [(READ, ASKED), GONE, FIRST],
        [(READ, ASKED), GONE, (READ, [])],
        [*FILL, GONE, (value(3, +1), []), (READ, ASKED)],
        [*lost, GONE],
        [*lost, GONE, (one, [])],
        [*lost, GONE, (READ, [])],
        [*lost, GONE, (READ, []), (one, [one])],
        [*lost, (READ, []), GONE, (one, [one])],
    )
    every = scripts([*WRITES, evict("Max")], 3)
    yield from races(student, MAX, (script for script in every if evict("Max") in script), VALUES)


BOTH = [("question", "left", "Nut"), ("question", "right", "Nut")]


def half(side, n):
    return "answer", side, "Nut", n


def moved(side, diff):
    """A change that arrives from one side, and what the union returns."""
    return ("change", side, "Nut", diff), [("change", "Nut", diff)]


@check("union.halves", task=5, rule=22, needs=("table", "lost"))
def halves(student):
    """A union sends each change down, and one answer for both inputs. A change is added to the half of its input."""
    three = [("answer", "Nut", 3)]
    yield from methods(
        student,
        "Union",
        [(READ, BOTH)],
        [(READ, BOTH), (half("left", 2), [])],
        [(READ, BOTH), (half("left", 2), []), (half("right", 1), three)],
        [(READ, BOTH), (half("right", 2), []), (half("left", 1), three)],
        [(READ, BOTH), (half("right", 0), []), (half("left", 0), [("answer", "Nut", 0)])],
        [(READ, BOTH), (half("left", 2), []), (half("right", 1), three), (READ, BOTH)],
        [moved("left", +1)],
        [(READ, BOTH), (READ, [])],
        [(READ, BOTH), (half("left", 1), []), moved("left", +1), (half("right", 1), three)],
        [(READ, BOTH), (half("left", 2), []), moved("right", +1), (half("right", 1), three)],
        [(READ, BOTH), moved("left", +1), (half("left", 2), []), (half("right", 1), three)],
    )
    actions = [read(), write(+1, table="left Table"), write(+1, table="right Table")]
    yield from races(student, UNION, scripts(actions, 2))


@check("union.evict", task=5, rule=22, needs=("exact",))
def union_evict(student):
    """If a side evicts the key of a half that the union holds, the union asks this side again."""
    gone, again = ("evict", "left", "Nut"), [("evict", "Nut"), ("question", "left", "Nut")]
    left = [(READ, BOTH), (half("left", 2), [])]
    yield from methods(
        student,
        "Union",
        [(gone, [("evict", "Nut")])],
        [(READ, BOTH), (gone, [("evict", "Nut")])],
        [(READ, BOTH), (half("right", 2), []), (gone, [("evict", "Nut")])],
        [*left, (gone, again)],
        [*left, (gone, again), (half("right", 1), [])],
        [*left, (gone, again), (half("right", 1), []), (half("left", 2), [("answer", "Nut", 3)])],
    )
    actions = [read(), evict("left Count"), write(+1, table="left Table")]
    yield from races(student, DEEP, [actions], every=partial(drawn_orders, 200))


GRAPHS = (COUNT, CHAIN, MAX, UNION, DEEP)
CALLS = {
    "Table": ("write Nut +1", "question Nut 1"),
    "Count": ("change Nut +1", "question Nut", "answer Nut 2", "evict Nut"),
    "Max": ("change Nut 2 +1", "question Nut", "answer Nut [2, 1]", "evict Nut"),
    "Union": ("change left Nut +1", "question Nut", "answer left Nut 2", "evict left Nut"),
    "view": ("read Nut",),
    "values": ("write Nut 2 +1", "question Nut"),
}


def parts_of(call):
    """A call such as "change Nut 2 +1" as ("change", "Nut", 2, 1). Raises ValueError."""
    words = re.findall(r"\[[^]]*\]|[^ ]+", call)
    return tuple(json.loads(word.lstrip("+")) if word[0] in "[+-0123456789" else word for word in words)


def call_of(text, cls):
    """The call of an operator of this class."""
    try:
        call = parts_of(text)
    except ValueError:
        call = ()
    likes = [parts_of(like) for like in CALLS[cls]]
    fits = [like for like in likes if list(map(form, like)) == list(map(form, call)) and like[0] == call[0]]
    if not fits or (len(fits[0]) > 2 and fits[0][1] == "left" and call[1] not in ("left", "right")):
        raise text.wrong(f"write a call of {cls} such as {' or '.join(CALLS[cls])}")
    if call[0] in ("change", "write") and abs(call[-1]) != 1:
        raise text.wrong("one row is inserted (+1) or deleted (-1)")
    return call


def called(cls, steps, solution):
    """The cases of an operator that is called with what can happen, which depends on its messages."""
    operator, asked, rows, had, made = solution.new(cls), Counter(), {}, {}, []
    for text in steps:
        call = call_of(text, cls)
        kind, *row, last = call
        at = call[1 : 3 if cls == "Union" else 2]
        if kind in ("change", "write") and (cls == "Table" or at in rows):
            rows.setdefault(at, Counter())[tuple(row)] += last
            if rows[at][tuple(row)] < 0:
                raise text.wrong("a deletion of what is not there")
            had.setdefault(at, {0}).add(rows[at].total())
        elif kind == "question" and cls == "Table" and last not in had.get(at, {0}):
            raise text.wrong(f"there were never {last} rows")
        elif kind == "answer":
            if not asked[at]:
                raise text.wrong("an answer without a question")
            if type(last) is int and last < 0:
                raise text.wrong("there are never fewer than 0 rows")
            asked[at] -= 1
            rows[at] = Counter((*row, one) for one in last) if cls == "Max" else Counter({tuple(row): last})
        made.append((call, operator.all([call])[0]))
        asked.update(tuple(message[1:]) for message in made[-1][1] if message[0] == "question")
    return lambda student: next(methods(student, cls, made))


def played(student, graph, steps):
    """The world after some steps. What is not on its way with the student's code is left out."""
    world = World(student, graph)
    for name, call in steps:
        words_of = [part for part in call if type(part) is str]
        near = [line for line in world.turns() if line[1] == name]
        near = [line for line in near if [part for part in world.lines[line][0] if type(part) is str] == words_of]
        if near:
            world.deliver(near[0])
        elif call[0] in ("read", "write") or call[0] == "evict" and len(call) == 2:
            world.act(name, call)
    return world


def raced(named):
    """The case of an order of actions and deliveries."""
    names = {str(name) for name, _ in named}
    graphs = [graph for graph in GRAPHS if names <= {*graph, "view"}]
    if not graphs:
        raise named[0][0].wrong(f"no graph of this lab has {', '.join(sorted(names))} together")
    values = any(name == "Table" and re.fullmatch(r"write \S+ \S+ \S+", text) for name, text in named)
    graph = MAX if values and MAX in graphs else graphs[0]
    steps, keys, rows = [], set(), World(None, graph)
    for name, text in named:
        cls = "view" if name == "view" else graph[name].cls
        call = call_of(text, cls)
        keys.add(call[2] if cls == "Union" and call[0] != "question" else call[1])
        steps.append((str(name), call))
        if call[0] == "write":
            rows.rows[name, *call[1:-1]] += call[-1]
            if rows.rows[name, *call[1:-1]] < 0:
                raise text.wrong("a deletion of what is not there")
    keys = sorted(keys)
    right_rows = [[key, rows.right(key)] for key in keys]

    def ask(student):
        try:
            world = played(student, graph, steps)
            return [[key, world.end(key)] for key in keys]
        except BrokenError as broken:
            return str(broken)

    trace = " | ".join(f"{name}: {words(call)}" for name, call in steps)
    return lambda student: Case(trace, right_rows, partial(ask, student), ENDS)


def reader(line, solution):
    """Read calls of one operator (Max: question Nut | Max: answer Nut [2, 1]), or an order of all (view: read Nut)."""
    steps = line.parts("|")
    if len(steps) > 1 and steps[-1] == "...":  # an order without an end
        steps.pop()
    named = [step.groups(r"([A-Za-z]+(?: [A-Za-z0-9]+)?): (.*)") for step in steps]
    for step, found in zip(steps, named, strict=True):
        if not found:
            raise step.wrong("write who is called, and how, such as Count: question Nut")
    (cls, text), *_ = named
    if {name for name, _ in named} == {cls} and cls in ("Table", "Count", "Max", "Union"):
        return called(str(cls), [text for _, text in named], solution)
    return raced(named)
