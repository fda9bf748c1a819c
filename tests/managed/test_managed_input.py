"""What is refused: wrong declarations, values, callbacks and rows. State is then as before the call."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sharedstate_lite import managed as m
from sharedstate_lite.errors import Error, RowError, StateError
from sharedstate_lite.managed.declare import declared
from sharedstate_lite.managed.events import BatchKeys

START = datetime(2024, 1, 1)
VISIT = m.source("visit", "k STRING, t TIMESTAMP, x INT", key="k", time="t", delay="10 seconds")


def second(n: float) -> datetime:
    """The moment n seconds after the start."""
    return START + timedelta(seconds=n)


def operator(body: dict[str, Any], out: str = "k STRING, x INT") -> m.Operator:
    """An operator with these attributes, and a row() that does nothing unless there is another one."""
    rows = {} if {"row", "rows"} & set(body) else {"row": lambda self, key, row, out: None}
    kind = type("Mine", (m.Operator,), {"out": out, **rows, **body})
    return kind()


# --- declarations ------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "rule"),
    [
        (lambda: m.Value("LIST<FOO>"), "FOO is not a type"),
        (lambda: m.Map("LIST<INT>", "INT"), "the key of a Map is one of the seven scalar types"),
        (lambda: m.Array("INT", 0), "the length of an ARRAY is a whole number from 1"),
        (lambda: m.Value("INT", default="a"), "the default of a Value: 'a' is no INT"),
        (lambda: m.Array("INT", 2, default=1.5), "the default of an Array: 1.5 is no INT"),
        (lambda: m.Value("INT", ttl="soon"), "'soon' is not a duration"),
        (lambda: m.Map("STRING", "INT", ttl=timedelta(0)), "an entry would expire when it is written"),
        (lambda: m.Ordered("time TIMESTAMP"), "each row has its event time as `time`"),
        (lambda: m.Reducing("BIGINT", "median"), "the reducer 'median' is not sum, min or max"),
        (lambda: m.Reducing("BIGINT", 3), "the reducer 3 is not sum, min or max"),
        (lambda: m.Reducing("STRING", "sum"), "the reducer sum does not apply to value STRING"),
        (lambda: m.Reducing("STRUCT<a: INT>", {"b": "sum"}), "is not sum, min or max"),
        (lambda: m.Aggregating("DOUBLE", object()), "lacks create, add, merge, result"),
        (lambda: m.Aggregating("DOUBLE", m.Mean, acc="FOO"), "FOO is not a type"),
        (lambda: m.Task("INT", spread="split"), "spread='split' divides entries, so it needs a MAP or a LIST"),
        (lambda: m.Task("LIST<INT>", spread="some"), "spread='some' is unknown"),
    ],
)
def test_a_wrong_state_is_refused_where_it_is_declared(declare: Any, rule: str) -> None:
    """The error is raised in the class's body."""
    with pytest.raises(StateError, match=rule.replace("(", r"\(")):
        declare()


TWICE = m.Value("INT")


def both(self: Any, batch: Any, out: Any) -> None:
    """A callback."""


async def later(self: Any, key: Any, row: Any, out: Any) -> None:
    """A callback that has to be awaited."""


def items(self: Any, key: Any, row: Any, out: Any) -> Any:
    """A callback that yields what it should emit."""
    yield key


def constructed(self: Any) -> None:
    """An __init__ that declares a state."""
    self.last = m.Value("INT")


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"row": both, "rows": both}, "Mine defines both of row() and rows()"),
        ({"row": None}, "Mine defines neither of row() and rows()"),
        ({"quiet": m.Timer()}, "Mine.quiet is a timer without a callback; define on_quiet"),
        ({"on_quiet": both}, "Mine.on_quiet is the callback of a timer that is not declared"),
        ({"watermark": m.Value("INT")}, "Mine.watermark: a state cannot have this name"),
        ({"on_x": m.Value("INT")}, "Mine.on_x: a state cannot have this name"),
        ({"k": m.Value("INT")}, "Mine.k has the name of a column of the key"),
        ({"K": m.Value("INT")}, "Mine.K has the name of a column of the key"),
        ({"a": m.Value("INT"), "A": m.List("INT")}, "Mine.a has the name of a column of the key or of another state"),
        ({"__init__": constructed}, "Mine.last was declared outside the body of its class, for example in __init__"),
        ({"row": later}, "Mine.row is a coroutine or a generator"),
        ({"rows": later}, "Mine.rows is a coroutine or a generator"),
        ({"row": items}, "Mine.row is a coroutine or a generator"),
        ({"quiet": m.Timer(), "on_quiet": later}, "Mine.on_quiet is a coroutine or a generator"),
        ({"n": m.Value}, "Mine.n is a class; declare a state with its type"),
        ({"order": "random"}, "the order 'random' is unknown"),
        ({"rows": both, "order": "event"}, "order='event' interleaves rows and timers, so it needs row()"),
        ({"key": "nothing"}, "the key nothing is not a column"),
        ({"out": "k FOO"}, "FOO is not a type"),
    ],
)
def test_a_wrong_operator_is_refused_before_any_row(body: dict[str, Any], rule: str) -> None:
    """`m.run` reads the class, and names the operator, the state and the rule."""
    with pytest.raises(StateError) as caught:
        m.run(operator(body), VISIT)
    assert rule in str(caught.value)


def test_one_object_is_one_state() -> None:
    """Two names for one declaration would be one state with two names."""
    with pytest.raises((StateError, RuntimeError)) as caught:
        operator({"a": TWICE, "b": TWICE})
    assert "are one object" in str(caught.value.__cause__ or caught.value)


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        (lambda: m.run(m.Operator, VISIT), "is not an operator; pass an object"),
        (lambda: m.run([], VISIT), "a run needs at least one operator"),
        (lambda: m.run(operator({}), "visit"), "a source that m.source"),
        (lambda: m.run([operator({}), operator({})], VISIT), "Mine has no key; set key"),
        (lambda: m.run([operator({}), operator({"key": "k"})], VISIT), "two operators named Mine"),
        (lambda: m.run(operator({}), VISIT, workers=0), "workers=0"),
        (lambda: m.run(operator({}), VISIT, workers=9, bins=8), "cannot rescale 8 bins to 9 workers"),
        (lambda: m.run(operator({}), VISIT, bins=6), "a power of 2"),
        (lambda: m.run(operator({}), VISIT, store="shoebox"), "store 'shoebox' does not exist"),
        (lambda: m.run(operator({}), VISIT, keep=0), "keep=0"),
        (lambda: m.source("v", "k STRING", key="q"), "the key q is not a column"),
        (lambda: m.source("v", "k LIST<INT>", key="k"), "the key k is not a column with a scalar type"),
        (lambda: m.source("v", "k STRING, t INT", key="k", time="t"), "the time t is not a TIMESTAMP column"),
        (lambda: m.source("v", "k STRING", key="k", late="keep"), "late='keep' is unknown"),
    ],
)
def test_a_wrong_run_or_source_is_refused(start: Any, rule: str) -> None:
    """The error says what is wrong, and what there is."""
    with pytest.raises(StateError) as caught:
        start()
    assert rule in str(caught.value)


@pytest.mark.parametrize("state", [m.Value("INT", ttl="1 hour"), m.Timer()])
def test_what_needs_time_is_refused_without_time(state: Any) -> None:
    """A time to live and a timer need event time; so does order="event"."""
    timeless = m.source("visit", "k STRING", key="k")
    with pytest.raises(StateError, match="Mine.s needs event time"):
        m.run(operator({"s": state, **({"on_s": both} if isinstance(state, m.Timer) else {})}), timeless)
    with pytest.raises(StateError, match="Mine.order='event' needs event time"):
        m.run(operator({}), timeless, order="event")


def test_states_are_inherited() -> None:
    """An operator has the states of its bases, and may replace one."""

    class Base(m.Operator):
        a = m.Value("INT")
        b = m.Value("INT")

        def row(self, key: Any, row: Any, out: Any) -> None: ...

    class Derived(Base):
        b = m.List("INT")  # type: ignore[assignment]

    found = declared(Derived())
    assert {name: type(state) for name, state in found.states.items()} == {"a": m.Value, "b": m.List}


# --- values and callbacks ------------------------------------------------------


class Careless(m.Operator):
    """Does what the row says."""

    out = "k STRING, x INT"
    deed: Any = None
    n = m.Value("INT", default=0)
    names = m.List("STRING")
    by = m.Map("STRING", "INT")
    three = m.Array("INT", 3)
    kept = m.Value("STRUCT<ids: LIST<INT>>")
    recent = m.Ordered("x INT")
    alarm = m.Timer()
    held: Any = None

    def row(self, key: Any, row: Any, out: Any) -> Any:
        """Count, then do it."""
        self.n.set(self.n.get() + 1)
        if row["x"] == 99:
            return self.deed(self, out)
        return None

    def on_alarm(self, key: Any, at: datetime, out: Any) -> None:
        """Set it to the same time again."""
        self.alarm.set(at)


@pytest.mark.parametrize(
    ("deed", "rule"),
    [
        (lambda op, out: op.n.set("a"), "Careless.n, key 'b': 'a' is no INT"),
        (lambda op, out: op.n.set(2**31), "Careless.n, key 'b': 2147483648 is out of the range of INT"),
        (lambda op, out: op.by.put(None, 1), "Careless.by, key 'b': the key of a MAP cannot be NULL"),
        (lambda op, out: op.by.get(3), "Careless.by, key 'b': 3 is no STRING"),
        (lambda op, out: op.three.set(3, 1), "Careless.three, key 'b': there is no position 3"),
        (lambda op, out: op.names.set("abc"), "Careless.names, key 'b': 'abc' is no LIST<STRING>"),
        (lambda op, out: op.kept.set({"id": []}), "Careless.kept, key 'b': {'id': []} is no STRUCT<ids: LIST<INT>>"),
        (lambda op, out: op.recent.add(1, 2), "Careless.recent, key 'b': (1, 2) is no STRUCT<x: INT>"),
        (lambda op, out: op.recent.range("now"), "Careless.recent, key 'b': 'now' is no time; pass a datetime"),
        (lambda op, out: op.alarm.set(None), "Careless.alarm, key 'b': a timer needs a time"),
        (lambda op, out: op.alarm.set(5), "Careless.alarm, key 'b': 5 is no TIMESTAMP"),
        (
            lambda op, out: op.alarm.set(second(-50)),
            "Careless.alarm, key 'b': on_alarm has set the timer to its own time",
        ),
        (lambda op, out: op.n.set(op.held, 1), "these keys are not those of the current batch"),
        (lambda op, out: out("b"), "Careless: out('b',) has 1 values; its columns are k, x"),
        (lambda op, out: out("b", "c"), "Careless: out column x INT: 'c' is no INT"),
        (lambda op, out: out.add({"k": ["b"], "x": [1]}), "out.add() was called outside rows()"),
        (lambda op, out: setattr(op, "n", 5), "write self.n.set(5)"),
        (lambda op, out: setattr(op, "by", {"a": 1}), "write self.by.put(key, {'a': 1})"),
        (lambda op, out: setattr(op, "three", 0), "write self.three.set(position, 0)"),
        (lambda op, out: setattr(op, "recent", (1,)), "write self.recent.add((1,))"),
        (lambda op, out: ("b", 1), "Careless.row has returned ('b', 1), which nothing would read; emit rows with out("),
        (lambda op, out: 1 / 0, "Careless.row, key 'b': ZeroDivisionError: division by zero; the epoch was undone"),
    ],
)
@pytest.mark.parametrize("store", ["dict", "columns"])
def test_a_wrong_callback_undoes_the_epoch(store: str, deed: Any, rule: str) -> None:
    """The error names operator, state and key. Nothing of the epoch remains, and the run goes on."""
    careless = Careless()
    careless.deed, careless.held = deed, BatchKeys(np.empty((1, 0), dtype=np.int64), np.empty(0, dtype=np.int64), None)
    run = m.run(careless, VISIT, store=store, workers=2)
    run.step([("a", second(0), 1), ("b", second(0), 1)])
    before = run.state().drop(columns="bytes")
    with pytest.raises(StateError) as caught:
        run.step([("a", second(20), 1), ("c", second(20), 1), ("b", second(20), 99)])
    assert rule in str(caught.value)
    pd.testing.assert_frame_equal(run.state().drop(columns="bytes"), before)
    assert (run.epoch, run.watermark, run.read("n", key="a"), run.read("n", key="c")) == (1, second(-10), 1, None)
    run.step([("a", second(1), 1)])
    assert (run.epoch, run.read("n", key="a")) == (2, 2)


def test_an_assignment_to_a_state_says_which_method_to_call() -> None:
    """Before a run, and for the kinds of state that Careless has not."""
    body = {"total": m.Reducing("INT", "sum"), "mean": m.Aggregating("DOUBLE", m.Mean)}
    mine = operator({**body, "offset": m.Task("LIST<INT>", spread="split")})
    for name, said in (("total", "total.add(3)"), ("mean", "mean.add(3)"), ("offset", "offset.set(3)")):
        with pytest.raises(StateError, match=f"an assignment does not change; write self.{re.escape(said)}"):
            setattr(mine, name, 3)
    mine.other = 3  # type: ignore[attr-defined]
    assert mine.other == 3  # type: ignore[attr-defined]


def test_rows_that_returns_something_is_refused() -> None:
    """As row() is."""
    run = m.run(operator({"rows": lambda self, batch, out: batch["x"] + 1}), VISIT)
    with pytest.raises(StateError, match="Mine.rows has returned"):
        run.step([("a", second(0), 1)])
    assert run.epoch == 0


def test_the_cause_of_an_error_is_the_callbacks_exception() -> None:
    """So a debugger shows the user's line."""
    run = m.run(operator({"row": lambda self, key, row, out: {}["missing"]}), VISIT)
    with pytest.raises(StateError, match="KeyError: 'missing'") as caught:
        run.step([("a", second(0), 1)])
    assert isinstance(caught.value.__cause__, KeyError)


def test_control_c_undoes_the_epoch() -> None:
    """KeyboardInterrupt passes through, and leaves no trace."""
    deeds = iter([None, KeyboardInterrupt()])

    class Stopped(m.Operator):
        n = m.Value("INT", default=0)

        def row(self, key: Any, row: Any, out: Any) -> None:
            self.n.set(self.n.get() + 1)
            if deed := next(deeds, None):
                raise deed

    run = m.run(Stopped(), VISIT)
    with pytest.raises(KeyboardInterrupt):
        run.step([("a", second(0), 1), ("a", second(0), 1)])
    assert run.read("n", key="a") is None and run.epoch == 0
    run.step([("a", second(0), 1)])
    assert run.read("n", key="a") == 1


def test_state_outside_a_callback_is_refused() -> None:
    """Neither a declaration nor the states and the output of a finished epoch can be used."""
    kept: dict[str, Any] = {}

    class Leaks(m.Operator):
        out = "k STRING"
        n = m.Value("INT")
        offset = m.Task("LIST<INT>", spread="split")

        def row(self, key: Any, row: Any, out: Any) -> None:
            kept.update(n=self.n, out=out, offset=self.offset)
            self.n.set(1)

    with pytest.raises(StateError, match="state n was used outside its operator"):
        Leaks().n.get()
    run = m.run(Leaks(), VISIT)
    run.step([("a", second(0), 1)])
    for use in (kept["n"].get, lambda: kept["n"].set(2), lambda: kept["out"]("a"), kept["offset"].get):
        with pytest.raises(StateError, match="outside|there is no current key"):
            use()
    assert run.read("n", key="a") == 1


def test_rows_refuses_what_needs_one_key() -> None:
    """A state without keys has no key there. Keys of another batch and columns of another size are refused."""
    old: list[Any] = []
    deeds = [
        lambda op, batch, out: op.n.get(),
        lambda op, batch, out: op.n.set(old[0], 1),
        lambda op, batch, out: op.n.set(batch.keys, [1, 2, 3]),
        lambda op, batch, out: out("a"),
        lambda op, batch, out: out.add({"k": ["a"]}),
        lambda op, batch, out: out.add({"k": ["a"], "x": [1], "y": [1]}),
        lambda op, batch, out: out.add({"k": ["a"], "x": [1]}),
        lambda op, batch, out: batch["nothing"],
        lambda op, batch, out: op.n.set(batch.keys, ["a", "b"]),
        lambda op, batch, out: op.total.add(batch.keys, [2**62, 2**62]),
        lambda op, batch, out: op.total.add(batch.keys, [-(2**62), -(2**62) - 9]),
        lambda op, batch, out: op.small.add(batch.keys, [2**31 - 1, 1]),
        lambda op, batch, out: op.real.add(batch.keys, [1.7e308, 1.7e308]),
    ]

    class Columns(m.Operator):
        out = "k STRING, x INT"
        n = m.Value("INT")
        total = m.Reducing("BIGINT", "sum")
        small = m.Reducing("INT", "sum")
        real = m.Reducing("DOUBLE", "sum")

        def rows(self, batch: Any, out: Any) -> None:
            old.append(batch.keys)
            deeds[len(old) - 2](self, batch, out) if len(old) > 1 else self.total.add(batch.keys, 1)

    run = m.run(Columns(), VISIT)
    run.step([("a", second(0), 1), ("a", second(0), 1)])
    for _ in deeds:
        with pytest.raises(Error):
            run.step([("a", second(0), 1), ("a", second(0), 1)])
    assert run.epoch == 1 and run.read("total", key="a") == 2 and run.read("n", key="a") is None


class Sums(m.Operator):
    """Adds a number to sums of three types."""

    small = m.Reducing("INT", "sum")
    large = m.Reducing("BIGINT", "sum")
    pair = m.Reducing("STRUCT<n: INT, top: INT>", {"n": "sum", "top": "max"})

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Add one."""
        self.small.add(row["x"])
        self.large.add(row["x"] * 2**32)
        self.pair.add((row["x"], row["x"]))


class SumsOfColumns(Sums):
    """The same, with columns."""

    row = None  # type: ignore[assignment]

    def rows(self, batch: Any, out: Any) -> None:
        """Add all."""
        self.small.add(batch.keys, batch["x"])
        self.large.add(batch.keys, batch["x"].astype("Int64") * 2**32)
        self.pair.add(batch.keys, {"n": batch["x"], "top": batch["x"]})


@pytest.mark.parametrize("kind", [Sums, SumsOfColumns])
def test_only_the_last_sum_of_an_epoch_has_to_be_in_range(kind: type[Sums]) -> None:
    """Not what is added up on the way, in row() as in rows() (rule 32). If the last one is not, the epoch is undone."""
    run, most = m.run(kind(), VISIT), 2**31 - 1
    run.step([("a", second(0), x) for x in (most, 1, -5)])
    for _ in range(2):
        read = [run.read(state, key="a") for state in ("small", "large", "pair")]
        assert read == [most - 4, (most - 4) * 2**32, {"n": most - 4, "top": most}]
        with pytest.raises(StateError, match=f"{kind.__name__}.small.* out of (the )?range.* INT"):
            run.step([("b", second(0), 1), ("a", second(0), 5)])
    assert run.epoch == 1 and run.read("small", key="b") is None
    run.step([("a", second(0), 4)])
    assert run.read("small", key="a") == most


@pytest.mark.parametrize("kind", ["STRUCT<n: BIGINT, w: STRING>", "STRUCT<n: BIGINT, w: LIST<STRING>>"])
@pytest.mark.parametrize("form", [dict, pd.DataFrame, lambda columns: pd.DataFrame(columns).astype({"n": "Int64"})])
def test_columns_of_a_struct_may_have_missing_numbers(kind: str, form: Any) -> None:
    """A None in a whole-number column stays None in each kind of state. A single value is repeated."""
    words: list[Any] = ["p", "q", "r"] if "LIST" not in kind else [["p"], [], None]

    class Kept(m.Operator):
        best = m.Reducing(kind, lambda a, b: b)
        last = m.Value(kind)
        by = m.Map("INT", kind)
        twice = m.Value(kind)

        def rows(self, batch: Any, out: Any) -> None:
            columns = form({"n": [5, None, 2**53], "w": words})
            self.best.add(batch.keys, columns)
            self.last.set(batch.keys, columns)
            self.by.put(batch.keys, batch["x"], columns)
            self.twice.set(batch.keys, {"n": 1, "w": words})

    run = m.run(Kept(), VISIT)
    run.step([(key, second(0), 3) for key in "abc"])
    wanted = [{"n": n, "w": w} for n, w in zip([5, None, 2**53], words, strict=True)]
    for state in ("best", "last"):
        assert run.read(state)[state].tolist() == wanted
    assert run.read("by")["by"].tolist() == [{3: each} for each in wanted]
    assert run.read("twice", key="a") == {"n": 1, "w": words[0]}


def test_keys_and_columns_of_a_batch_come_as_slices_and_arrays() -> None:
    """A slice of keys, and what ``.values`` and an index of pandas are."""

    class Sliced(m.Operator):
        n = m.Value("INT")
        s = m.Value("STRING")

        def rows(self, batch: Any, out: Any) -> None:
            self.n.set(batch.keys[0:2], batch["x"].values[0:2])
            self.s.set(batch.keys[1:], pd.Index(batch["k"])[1:])

    run = m.run(Sliced(), VISIT)
    run.step([("a", second(0), 1), ("b", second(0), 2), ("c", second(0), 3)])
    assert run.read("n").values.tolist() == [["a", 1], ["b", 2]]
    assert run.read("s").values.tolist() == [["b", "b"], ["c", "c"]]


def test_values_handed_out_are_copies() -> None:
    """Changing a list that get() returned changes nothing; set() stores a copy too."""
    lists: list[list[int]] = []

    class Copies(m.Operator):
        ids = m.Value("LIST<INT>", default=[])
        by = m.Map("STRING", "LIST<INT>")

        def row(self, key: Any, row: Any, out: Any) -> None:
            mine = self.ids.get()
            mine.append(row["x"])
            self.ids.set(mine)
            mine.append(100)
            self.ids.get().append(200)
            self.by.put("a", mine)
            self.by.items()[0][1].append(300)
            lists.append(self.ids.get())

    run = m.run(Copies(), VISIT)
    run.step([("a", second(0), 1), ("a", second(0), 2)])
    assert lists == [[1], [1, 2]] and run.read("by", key="a") == {"a": [1, 2, 100]}


# --- rows and time ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([("a", second(0))], "visit: row 0 is ('a', "),
        ([{"k": "a", "t": second(0)}], "visit: row 0 is {'k': 'a'"),
        ("abc", "cannot read rows from str"),
        ([("a", second(0), "x")], "column x INT"),
        ([(1, second(0), 1)], "column k STRING"),
        (pd.DataFrame({"k": ["a"], "t": [second(0)]}), "the column x is missing or unknown"),
        (
            pd.DataFrame({"k": ["a"], "t": [second(0)], "x": [1]}).set_index(["k", "t"]),
            "the frame's index has k, t, so call reset_index() first",
        ),
        (
            pd.DataFrame({"k": ["a"], "t": [second(0)], "x": [1], "X": [2]}),
            "two of the columns k, t, x, X have one name",
        ),
        ([("a", second(0), 60.5)], "60.500000 is not a whole number"),
        ([("a", second(0), 1), (3, second(0), 1)], "column k STRING: all values must be texts"),
        (pd.DataFrame({"k": ["a"], "t": [second(0)], "x": [1], "y": [1]}), "the column y is missing or unknown"),
        (pd.DataFrame({"k": ["a"], "t": [second(0)], "x": [1], "diff": [-1]}), "row 0 has the diff -1"),
    ],
)
def test_wrong_rows_are_refused(rows: Any, rule: str) -> None:
    """The error names the source, the row or the column, and the rule."""
    run = m.run(operator({"n": m.Reducing("INT", "sum")}), VISIT)
    with pytest.raises(RowError) as caught:
        run.step(rows)
    assert rule in str(caught.value) and run.epoch == 0


def test_rows_come_as_tables_tuples_or_dicts() -> None:
    """All forms of the same rows are the same; a column of diffs may only insert."""
    frame = pd.DataFrame({"x": [1, 2], "K": ["a", "b"], "t": [second(0), second(1)]})
    forms = [
        frame,
        frame.assign(diff=1),
        pa.Table.from_pandas(frame, preserve_index=False),
        pa.RecordBatch.from_pandas(frame, preserve_index=False),
        [("a", second(0), 1), ["b", second(1), 2]],
        [{"k": "a", "t": "2024-01-01 00:00:00", "x": 1}, {"k": "b", "t": second(1), "x": 2}],
    ]
    echo = {"row": lambda self, key, row, out: out(row.k, row[2] + row["x"])}
    for rows in forms:
        assert m.run(operator(echo), VISIT).step(rows).values.tolist() == [["a", 2], ["b", 4]]


def test_late_rows_are_refused_or_counted() -> None:
    """A row earlier than the watermark, and one without a time, are late. One at the watermark is not."""
    strict = m.run(operator({}), VISIT)
    strict.step([("a", second(20), 1)])
    late = "is earlier than the watermark 2024-01-01 00:00:10; declare a longer delay, or late='drop'"
    for row, why in ((("a", second(9), 2), late), (("a", None, 2), "has no time; set its t, or late='drop'")):
        with pytest.raises(RowError, match="visit: row 1 .*" + why):
            strict.step([("a", second(10), 1), row])
    assert strict.epoch == 1 and strict.late == 0
    loose = m.source("visit", "k STRING, t TIMESTAMP, x INT", key="k", time="t", delay="10 seconds", late="drop")
    run = m.run(operator({"row": lambda self, key, row, out: out(key, row["x"])}), loose)
    assert run.watermark is None
    assert len(run.step([("a", second(20), 1), ("a", second(1), 2)])) == 2  # the watermark is that of the epoch's start
    assert run.watermark == second(10)
    assert run.step([("a", second(9), 1), ("a", second(10), 2), ("b", None, 3)])["x"].tolist() == [2]
    assert run.late == 2


def test_the_watermark_only_moves_forward() -> None:
    """`advance` to an earlier time, or without time, is refused."""
    run = m.run(operator({}), VISIT)
    run.advance(second(5))
    for wrong in (second(4), "2024-01-01", None):
        with pytest.raises(StateError, match="advance"):
            run.advance(wrong)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="the source has no time"):
        m.run(operator({}), m.source("v", "k STRING", key="k")).advance(second(1))
    assert (run.epoch, run.watermark) == (1, second(5))


def test_a_closed_run_is_refused() -> None:
    """After close(), and after its with block, a run does nothing more."""
    with m.run(operator({}), VISIT) as run:
        run.step([])
    for use in (run.step, run.state, lambda: run.read("n")):
        with pytest.raises(StateError, match="this run is closed"):
            use()


def test_unknown_names_are_refused() -> None:
    """A state, a relation or a key that is not declared is named, with those that are."""
    run = m.run(operator({"n": m.Value("INT")}), VISIT)
    for use, rule in (
        (lambda: run.read("q"), "no states are named 'q'; the states are Mine.n"),
        (lambda: run.state("q"), "there is no relation 'q'; the relations are n"),
        (lambda: run.read("n", key=("a", "b")), "has 2 values, not 1: k"),
        (lambda: run.rescale(3, migration="quick"), "there is no migration 'quick'"),
        (lambda: run.rescale(0), "cannot rescale 256 bins to 0 workers"),
        (lambda: run.rescale(257), "cannot rescale 256 bins to 257 workers"),
    ):
        with pytest.raises(Error) as caught:
            use()
        assert rule in str(caught.value)
