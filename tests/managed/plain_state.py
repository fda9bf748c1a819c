"""Every kind of state as plain Python: what rule 29 compares the kit with.

`EVERYTHING` declares one state of each kind. `ACTIONS` has, for each method of a state, how an operator calls it and
what a model in dicts and lists does. Nothing here uses the kit's own types, stores or buffers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from sharedstate_lite import managed as m

START = datetime(2024, 1, 1)
SHORT, LONG = timedelta(seconds=5), timedelta(seconds=9)


def second(n: float) -> datetime:
    """The moment n seconds after the start."""
    return START + timedelta(seconds=n)


class Everything(m.Operator):
    """One state of each kind. A row says which action to take; its result is emitted as text."""

    out = "k STRING, what STRING"
    actions: list[tuple[Any, ...]] = []
    """What the rows of a test mean, by their number."""

    whole = m.Value("STRUCT<n: BIGINT, delays: LIST<INT>>")
    brief = m.Value("INT", ttl="5 seconds", default=7)
    tail = m.List("MAP<STRING, INT>")
    queue = m.List("STRING", ttl="9 seconds")
    routes = m.Map("INT", "LIST<ARRAY<STRING, 2>>")
    fading = m.Map("STRING", "STRUCT<at: TIMESTAMP, ok: BOOLEAN>", ttl="5 seconds")
    hours = m.Array("DOUBLE", 3, default=0.5)
    recent = m.Ordered("x INT, s STRING", ttl="9 seconds")
    total = m.Reducing("BIGINT", "sum")
    sides = m.Reducing("STRUCT<low: INT, high: DOUBLE>", {"low": "min", "high": "max"}, ttl="5 seconds")
    words = m.Reducing("STRING", lambda a, b: min(a, b))
    mean = m.Aggregating("DOUBLE", m.Mean)
    alarm = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Take one action."""
        state, method, arguments = self.actions[row["action"]]
        if state == "raise":
            raise RuntimeError(method)
        out(key, repr(ACTIONS[state, method].call(getattr(self, state), *arguments)))

    def on_alarm(self, key: Any, at: datetime, out: Any) -> None:
        """Say what is there, and count it."""
        self.total.add(1000)
        out(key, repr(("alarm", at, self.total.get(), self.brief.get())))


class Model:
    """The state of all keys: ``cells[state][key]`` is a value or a container; ``expiry`` says when an entry goes."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[Any, Any]] = {}
        self.expiry: dict[tuple[Any, ...], datetime] = {}
        self.key: Any = None
        self.time = START

    def copy(self) -> Model:
        """A copy that shares nothing."""
        return copy.deepcopy(self)

    def of(self, state: str, empty: Callable[[], Any]) -> Any:
        """The container of the current key."""
        return self.cells.setdefault(state, {}).setdefault(self.key, empty())

    def remember(self, state: str, entry: Any, ttl: timedelta) -> None:
        """An entry was written now."""
        self.expiry[state, self.key, entry] = self.time + ttl

    def expire(self, watermark: datetime) -> None:
        """Remove the entries whose expiry the watermark has reached."""
        for (state, key, entry), at in list(self.expiry.items()):
            if at <= watermark:
                del self.expiry[state, key, entry]
                cell = self.cells[state].get(key)
                if entry == () or cell is None:
                    self.cells[state].pop(key, None)
                else:
                    cell.pop(entry, None)

    def hides(self, state: str, entry: Any, now: datetime) -> bool:
        """Whether an entry has expired for a timer that is called later than the entry's expiry."""
        return self.expiry.get((state, self.key, entry), datetime.max) <= now

    def view(self, state: str, key: Any) -> Any:
        """What ``run.read(state, key)`` must return."""
        found = self.cells.get(state, {}).get(key)
        if found is None or found == {}:
            return None
        if state in ("tail", "queue"):
            return [found[at] for at in sorted(found)]
        if state in ("routes", "fading"):
            return dict(sorted(found.items()))
        if state == "hours":
            return [found.get(at, 0.5) for at in range(3)]
        if state == "recent":
            return [{"time": at, "x": x, "s": s} for (at, _), (x, s) in sorted(found.items(), key=lambda e: e[0])]
        if state == "mean":
            return found[0] / found[1]
        return found[0] if state in ("whole", "brief") else found


class Action(NamedTuple):
    """How an operator calls a method, what the model does, and the arguments that can occur."""

    call: Callable[..., Any]
    model: Callable[..., Any]
    arguments: st.SearchStrategy[tuple[Any, ...]]


def _value_get(name: str, default: Any) -> Callable[..., Any]:
    return lambda model: copy.deepcopy(model.cells.get(name, {}).get(model.key, [default])[0])


def _value_set(name: str, ttl: timedelta | None = None) -> Callable[..., Any]:
    def do(model: Model, value: Any) -> None:
        model.cells.setdefault(name, {})[model.key] = [copy.deepcopy(value)]
        if ttl is not None:
            model.remember(name, (), ttl)

    return do


def _clear(name: str) -> Callable[..., Any]:
    def do(model: Model) -> None:
        model.cells.get(name, {}).pop(model.key, None)
        for each in [each for each in model.expiry if each[:2] == (name, model.key)]:
            del model.expiry[each]

    return do


def by_key(value: Any) -> Any:
    """A map in the order of its keys, as the kit returns it."""
    return dict(sorted(value.items())) if isinstance(value, dict) else copy.deepcopy(value)


def _append(name: str, ttl: timedelta | None = None) -> Callable[..., Any]:
    def do(model: Model, value: Any) -> None:
        cell = model.of(name, dict)
        at = max(cell, default=-1) + 1
        cell[at] = by_key(value)
        if ttl is not None:
            model.remember(name, at, ttl)

    return do


def _set_list(model: Model, values: list[Any]) -> None:
    model.cells.setdefault("tail", {})[model.key] = dict(enumerate(map(by_key, values)))


def _listed(name: str) -> Callable[..., Any]:
    return lambda model: copy.deepcopy(
        [value for _, value in sorted(model.cells.get(name, {}).get(model.key, {}).items())]
    )


def _put(name: str, ttl: timedelta | None = None) -> Callable[..., Any]:
    def do(model: Model, key: Any, value: Any) -> None:
        model.of(name, dict)[key] = copy.deepcopy(value)
        if ttl is not None:
            model.remember(name, key, ttl)

    return do


def _remove(name: str) -> Callable[..., Any]:
    def do(model: Model, key: Any) -> None:
        model.of(name, dict).pop(key, None)
        model.expiry.pop((name, model.key, key), None)

    return do


def _add_recent(model: Model, x: Any, s: Any, after: float) -> None:
    cell, at = model.of("recent", dict), model.time + timedelta(seconds=after)
    number = max((n for when, n in cell if when == at), default=-1) + 1
    cell[at, number] = (x, s)
    model.remember("recent", (at, number), LONG)


def _range(model: Model, start: float | None, end: float | None) -> Any:
    low, high = (edge if each is None else second(each) for each, edge in ((start, datetime.min), (end, datetime.max)))
    rows = sorted(model.of("recent", dict).items(), key=lambda entry: entry[0])
    return [{"time": at, "x": x, "s": s} for (at, _), (x, s) in rows if low <= at < high]


def _drop_until(model: Model, end: float) -> None:
    for entry in [entry for entry in model.of("recent", dict) if entry[0] < second(end)]:
        del model.of("recent", dict)[entry]
        del model.expiry["recent", model.key, entry]


def _add_total(model: Model, value: int | None) -> None:
    if value is not None:
        cell = model.cells.setdefault("total", {})
        cell[model.key] = cell.get(model.key, 0) + value


def _add_sides(model: Model, value: dict[str, Any]) -> None:
    cell = model.cells.setdefault("sides", {})
    there = cell.get(model.key)
    if there is None:
        cell[model.key] = dict(value)
    else:
        lows = [each for each in (there["low"], value["low"]) if each is not None]
        highs = [each for each in (there["high"], value["high"]) if each is not None]
        cell[model.key] = {"low": min(lows, default=None), "high": max(highs, default=None)}
    model.remember("sides", (), SHORT)


def _add_word(model: Model, value: str) -> None:
    cell = model.cells.setdefault("words", {})
    cell[model.key] = min(cell.get(model.key, value), value)


def _add_mean(model: Model, value: float) -> None:
    cell = model.cells.setdefault("mean", {})
    total, n = cell.get(model.key, (0.0, 0))
    cell[model.key] = (total + value, n + 1)


def _get(name: str) -> Callable[..., Any]:
    return lambda model: copy.deepcopy(model.view(name, model.key))


def _arm(model: Model, after: float) -> None:
    model.cells.setdefault("alarm", {})[model.key] = model.time + timedelta(seconds=after)


NONE = st.just(())
INTS = st.none() | st.integers(-5, 5)
TEXT = st.none() | st.sampled_from(["", "a", "é", "NULL"])
SMALL = st.sampled_from([0, 1, 2])
SECONDS = st.none() | st.integers(0, 40)
WHOLE = st.none() | st.builds(
    lambda n, delays: {"n": n, "delays": delays}, INTS, st.none() | st.lists(INTS, max_size=3)
)
PAIRS = st.none() | st.lists(st.none() | st.lists(TEXT, min_size=2, max_size=2), max_size=2)
MAPS = st.none() | st.dictionaries(st.sampled_from("ab"), INTS, max_size=2)
FADING = st.none() | st.builds(
    lambda at, ok: {"at": at, "ok": ok}, st.none() | st.just(second(0.5)), st.none() | st.booleans()
)
HALVES = st.sampled_from([-1.5, 0.0, 0.25, 3.0])

ACTIONS: dict[tuple[str, str], Action] = {
    ("whole", "get"): Action(lambda s: s.get(), _value_get("whole", None), NONE),
    ("whole", "set"): Action(lambda s, v: s.set(v), _value_set("whole"), st.tuples(WHOLE)),
    ("whole", "exists"): Action(lambda s: s.exists(), lambda model: model.key in model.cells.get("whole", {}), NONE),
    ("whole", "clear"): Action(lambda s: s.clear(), _clear("whole"), NONE),
    ("brief", "get"): Action(lambda s: s.get(), _value_get("brief", 7), NONE),
    ("brief", "set"): Action(lambda s, v: s.set(v), _value_set("brief", SHORT), st.tuples(INTS)),
    ("tail", "get"): Action(lambda s: s.get(), _listed("tail"), NONE),
    ("tail", "set"): Action(lambda s, v: s.set(v), _set_list, st.tuples(st.lists(MAPS, max_size=3))),
    ("tail", "append"): Action(lambda s, v: s.append(v), _append("tail"), st.tuples(MAPS)),
    ("tail", "clear"): Action(lambda s: s.clear(), _clear("tail"), NONE),
    ("queue", "get"): Action(lambda s: s.get(), _listed("queue"), NONE),
    ("queue", "append"): Action(lambda s, v: s.append(v), _append("queue", LONG), st.tuples(TEXT)),
    ("routes", "get"): Action(
        lambda s, k: s.get(k, "no"), lambda model, k: model.of("routes", dict).get(k, "no"), st.tuples(SMALL)
    ),
    ("routes", "put"): Action(lambda s, k, v: s.put(k, v), _put("routes"), st.tuples(SMALL, PAIRS)),
    ("routes", "remove"): Action(lambda s, k: s.remove(k), _remove("routes"), st.tuples(SMALL)),
    ("routes", "items"): Action(lambda s: s.items(), lambda model: sorted(model.of("routes", dict).items()), NONE),
    ("fading", "put"): Action(
        lambda s, k, v: s.put(k, v), _put("fading", SHORT), st.tuples(st.sampled_from("ab"), FADING)
    ),
    ("fading", "in"): Action(
        lambda s, k: (k in s, len(s)),
        lambda model, k: (k in model.of("fading", dict), len(model.of("fading", dict))),
        st.tuples(st.sampled_from("ab")),
    ),
    ("hours", "set"): Action(lambda s, at, v: s.set(at, v), _put("hours"), st.tuples(SMALL, st.none() | HALVES)),
    ("hours", "get"): Action(
        lambda s, at: s.get(at), lambda model, at: model.of("hours", dict).get(at, 0.5), st.tuples(SMALL)
    ),
    ("recent", "add"): Action(
        lambda s, x, tag, after: s.add(x, tag, at=s.scope.op.now + timedelta(seconds=after)),
        _add_recent,
        st.tuples(INTS, TEXT, SMALL),
    ),
    ("recent", "range"): Action(
        lambda s, a, b: s.range(*(None if e is None else second(e) for e in (a, b))),
        _range,
        st.tuples(SECONDS, SECONDS),
    ),
    ("recent", "drop"): Action(lambda s, end: s.drop_until(second(end)), _drop_until, st.tuples(st.integers(0, 40))),
    ("total", "add"): Action(lambda s, v: s.add(v), _add_total, st.tuples(INTS)),
    ("total", "get"): Action(lambda s: s.get(), _get("total"), NONE),
    ("total", "clear"): Action(lambda s: s.clear(), _clear("total"), NONE),
    ("sides", "add"): Action(
        lambda s, v: s.add(v),
        _add_sides,
        st.tuples(st.builds(lambda low, high: {"low": low, "high": high}, INTS, st.none() | HALVES)),
    ),
    ("sides", "get"): Action(lambda s: s.get(), _get("sides"), NONE),
    ("words", "add"): Action(lambda s, v: s.add(v), _add_word, st.tuples(st.sampled_from(["x", "é", "aa"]))),
    ("mean", "add"): Action(lambda s, v: s.add(v), _add_mean, st.tuples(HALVES)),
    ("mean", "get"): Action(lambda s: s.get(), _get("mean"), NONE),
    ("alarm", "set"): Action(
        lambda s, after: s.set(s.scope.op.now + timedelta(seconds=after)), _arm, st.tuples(st.integers(-3, 12))
    ),
    ("alarm", "clear"): Action(lambda s: s.clear(), _clear("alarm"), NONE),
}

STATES = sorted({state for state, _ in ACTIONS})


@st.composite
def actions(draw: Any) -> tuple[Any, ...]:
    """One action: a state, a method, and arguments. Rarely one that raises."""
    if draw(st.integers(0, 30)) == 0:
        return ("raise", "on purpose", ())
    name = draw(st.sampled_from(sorted(ACTIONS)))
    return (*name, draw(ACTIONS[name].arguments))


@st.composite
def epochs(draw: Any) -> list[list[tuple[Any, float, tuple[Any, ...]]]]:
    """Epochs of rows (key, seconds, action). Time advances, with disorder of up to 3 seconds."""
    out, clock = [], 0.0
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            clock += draw(st.sampled_from([0, 0.5, 2]))
            rows.append((draw(st.sampled_from(["A", "B", None])), max(0.0, clock - draw(SMALL)), draw(actions())))
        out.append(rows)
        clock += draw(st.sampled_from([0, 0, 6]))
    return out
