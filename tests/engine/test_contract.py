"""The interface of the engines: inputs, outputs, errors, and the state after a refused call."""

import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from places import make, partial

import sharedstate_lite as ss

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
    "every": "s STRING, i INT, b BIGINT, d DOUBLE, t BOOLEAN, day DATE, at TIMESTAMP",
    "unused": "x INT",
}
RESULT = "SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) GROUP BY category"
EVERY = "SELECT s, i, b, d, t, day, at FROM every"
KINDS = ["full", "shared", "partial"]
every_kind = pytest.mark.parametrize("kind", KINDS)
also_in_bins = pytest.mark.parametrize("kind", [*KINDS, "full in bins", "shared in bins", "partial in bins"])


def made(kind: str, *sql: str, **options: Any) -> Any:
    """An engine over views v0, v1, ... (default: the view of the first example), in one process or in bins."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW v{n} AS {text}") for n, text in enumerate(sql or (RESULT,))]
    return make(kind, views) if "in bins" in kind else ss.engine(kind, views, **options)


def start(engine: ss.Engine) -> ss.Engine:
    """The engine after one epoch, with keys filled under partial state."""
    engine.step({"info": [(("a", "F"), 1), (("b", "G"), 1)], "visit": [(("a", "x", 1), 2), (("b", "y", 5), 1)]})
    if engine.kind == "partial":
        for view in engine.views:
            engine.read(view, key="F")
    return engine


def fingerprint(engine: ss.Engine) -> list[Any]:
    """Everything that an engine shows."""
    state = engine.state()
    rows = [engine.state(name).to_json(date_format="iso") for name in state["operator"]]
    return [
        engine.epoch,
        state.to_json(date_format="iso"),
        rows,
        [engine.read(view).to_json(date_format="iso") for view in engine.views],
    ]


GOOD: dict[str, Any] = {
    "pairs": [(("a", "z", 9), 1)],
    "frame": pd.DataFrame({"length": [9], "product": ["a"], "user": ["z"], "diff": [1]}),
    "frame with time": pd.DataFrame({"product": ["a"], "user": ["z"], "length": [9.0], "time": [7], "diff": [1]}),
    "table": pa.table({"product": ["a"], "user": ["z"], "length": [9], "diff": [1]}),
    "dictionary": pa.table(
        {"PRODUCT": pa.array(["a"]).dictionary_encode(), "user": ["z"], "length": pa.array([9], pa.int8()), "diff": [1]}
    ),
    "changes": ss.Changes.from_pandas(pd.DataFrame({"product": ["a"], "user": ["z"], "length": [9], "diff": [1]})),
}


@also_in_bins
@pytest.mark.parametrize("form", GOOD)
def test_every_form_of_input_is_the_same_change(kind: str, form: str) -> None:
    """Pairs, frames, Arrow tables and Changes of one row emit the same change."""
    engine = start(made(kind))
    out = engine.step({"VISIT": GOOD[form]})["v0"]
    assert out.kinds() == ["-U", "+U"]
    assert out.to_pandas()["max_length"].tolist() == [1, 9]
    assert out.to_pandas()["time"].tolist() == [2, 2]


BAD: dict[str, tuple[Any, type[ss.Error], str]] = {
    "no relation of that name": ({"visits": []}, ss.RelationError, "visits"),
    "a relation twice": ({"visit": [], "Visit": []}, ss.RelationError, "twice"),
    "no mapping": ([], ss.RelationError, "relation: rows"),
    "no rows": ({"visit": "rows"}, ss.RowError, "visit"),
    "a row without a diff": ({"visit": [("a", "x", 1)]}, ss.RowError, "row 0"),
    "too few values": ({"visit": [(("a", "x"), 1)]}, ss.RowError, "2 values"),
    "a diff of zero": ({"visit": [(("a", "x", 1), 0)]}, ss.RowError, "diff 0"),
    "a fraction for a diff": ({"visit": [(("a", "x", 1), 0.5)]}, ss.RowError, "0.5"),
    "a bool for a diff": ({"visit": [(("a", "x", 1), True)]}, ss.RowError, "True"),
    "a fraction for an INT": (
        {"visit": [(("a", "x", 1.5), 1)]},
        ss.RowError,
        "length INT: .*1.50* is not a whole number",
    ),
    "a bool for an INT": (
        {"visit": [(("a", "x", True), 1)]},
        ss.RowError,
        "length INT: expected int32 values, got bool",
    ),
    "a string for an INT": (
        {"visit": [(("a", "x", "1"), 1)]},
        ss.RowError,
        "length INT: expected int32 values, got str",
    ),
    "out of INT's range": ({"visit": [(("a", "x", 2**31), 1)]}, ss.RowError, "out of range"),
    "out of BIGINT's range": (
        {"every": [(("s", 1, 2**63, 1.0, True, None, None), 1)]},
        ss.RowError,
        "b BIGINT: .*too large",
    ),
    "an infinite DOUBLE": ({"every": [(("s", 1, 1, float("inf"), True, None, None), 1)]}, ss.RowError, "infinite"),
    "a number for a STRING": (
        {"info": [((1, "F"), 1)]},
        ss.RowError,
        "product STRING: expected string values, got int64",
    ),
    "a number for a BOOLEAN": (
        {"every": [(("s", 1, 1, 1.0, 1, None, None), 1)]},
        ss.RowError,
        "expected bool values, got int64",
    ),
    "a row that is not there": ({"visit": [(("a", "q", 1), -1)]}, ss.RowError, r"\('a', 'q', 1\)"),
    "more copies than there are": (
        {"visit": [(("a", "x", 1), -3)]},
        ss.RowError,
        r"its multiplicity would be -1 \(stored: 2, this epoch: -3\)",
    ),
    "good rows beside a bad one": ({"info": [(("c", "F"), 1)], "visit": [(("a", "q", 1), -1)]}, ss.RowError, "visit"),
    "a column too many": (
        {"info": pd.DataFrame({"product": ["a"], "category": ["F"], "x": [1], "diff": [1]})},
        ss.RowError,
        "x",
    ),
    "a column too few": ({"info": pd.DataFrame({"product": ["a"], "diff": [1]})}, ss.RowError, "category"),
    "no diff column": ({"info": pd.DataFrame({"product": ["a"], "category": ["F"]})}, ss.RowError, "diff"),
    "two times": (
        {"info": pd.DataFrame({"product": ["a", "b"], "category": ["F", "F"], "diff": [1, 1], "time": [1, 2]})},
        ss.TimeError,
        "the column time contains 1, 2",
    ),
    "a sum past BIGINT": ({"every": [(("s", 1, 2**62, 1.0, True, None, None), 4)]}, ss.RowError, "BIGINT"),
    "an overflow in an expression": ({"visit": [(("a", "x", 2**31 - 1), 1)]}, ss.RowError, "INT"),
}


@also_in_bins
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_error_and_state_is_as_before(kind: str, case: str) -> None:
    """A refused epoch raises one error with relation and reason, the same in bins, and leaves the engine as before."""
    data, error, text = BAD[case]
    engine = prepared(kind, case)
    before = fingerprint(engine)
    with pytest.raises(error, match=text) as found:
        engine.step(data)
    assert fingerprint(engine) == before
    assert engine.step({})["v0"].to_pandas().empty
    if "in bins" in kind:
        with pytest.raises(error) as expected:
            prepared(kind.split()[0], case).step(data)
        assert str(found.value) == str(expected.value)


def prepared(kind: str, case: str) -> Any:
    """The engine that the case is given to, after one epoch."""
    sums, numbers = "SELECT s, SUM(b) AS total FROM every GROUP BY s", "SELECT product, length + 1 AS more FROM visit"
    view = {"a sum past BIGINT": sums, "an overflow in an expression": numbers}.get(case)
    if view is None:
        return start(made(kind))
    engine = made(kind, view)
    engine.step({})
    if partial(kind):
        engine.read("v0", key="s" if view == sums else "a")
    return engine


@every_kind
def test_an_interrupt_leaves_state_as_before(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of an epoch, after the base table was written, rolls the epoch back."""
    import sharedstate_lite.kernels.aggregate

    engine = start(made(kind))
    before = fingerprint(engine)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sharedstate_lite.kernels.aggregate.ReduceState, "reduce_core", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.step({"visit": [(("a", "z", 9), 1)]})
    monkeypatch.undo()
    assert fingerprint(engine) == before
    assert engine.step({"visit": [(("a", "z", 9), 1)]})["v0"].to_pandas()["max_length"].tolist() == [1, 9]


@also_in_bins
def test_an_epoch_is_netted_before_it_is_judged(kind: str) -> None:
    """A retraction may stand before its insertion in one epoch; rows that cancel store and emit nothing."""
    engine = start(made(kind))
    before = fingerprint(engine)[1:]
    assert len(engine.step({"visit": [(("q", "q", 9), -1), (("q", "q", 9), 1)]})["v0"]) == 0
    assert fingerprint(engine)[1:] == before


VALUES = (
    "é\U0001f600",
    -(2**31),
    -(2**63) + 1,
    1e-300,
    True,
    datetime.date(1066, 10, 14),
    datetime.datetime(1, 1, 1, 0, 0, 0, 1),
)


@also_in_bins
def test_values_of_every_type_come_back(kind: str) -> None:
    """The extremes of each type, and NULL, are read back unchanged, with the documented dtypes."""
    engine = made(kind, EVERY)
    if partial(kind):
        for key in (VALUES[0], None):
            engine.read("v0", key=(key,))
    engine.step({"every": [(VALUES, 1), ((None,) * 7, 2)]})
    frame = engine.read("v0")
    dtypes = ["string", "Int32", "Int64", "Float64", "boolean", "date32[day][pyarrow]", "timestamp[us][pyarrow]"]
    assert [str(d) for d in frame.dtypes] == dtypes
    assert [str(d) for d in engine.read("v0", key="nowhere").dtypes] == dtypes
    assert frame.iloc[0].tolist()[:6] == list(VALUES[:6])
    assert frame["at"].array.__arrow_array__()[0].as_py() == VALUES[6]
    assert frame.iloc[1:].isna().all().all()
    assert len(frame) == 3
    assert frame.index.equals(pd.RangeIndex(3))


@also_in_bins
def test_minus_zero_and_nan(kind: str) -> None:
    """-0.0 is 0.0, and NaN is NULL, in input and in groups."""
    engine = made(kind, "SELECT d, COUNT(*) AS n FROM every GROUP BY d")
    if partial(kind):
        for key in (0.0, None):
            engine.read("v0", key=(key,))
    rows = [(("s", 1, 1, d, True, None, None), 1) for d in (0.0, -0.0, float("nan"), None)]
    engine.step({"every": rows})
    assert engine.read("v0", key=-0.0)["n"].tolist() == [2]
    assert engine.read("v0", key=float("nan"))["n"].tolist() == [2]


@also_in_bins
def test_point_reads(kind: str) -> None:
    """A key is a tuple or a scalar, NULL matches NULL, an absent key is empty; wrong keys raise."""
    engine = made(kind, "SELECT product, user, COUNT(*) AS n FROM visit GROUP BY product, user")
    engine.step({"visit": [(("a", "x", 1), 2), (("b", "y", 5), 1)]})
    engine.step({"visit": [((None, "x", 1), 1)]})
    assert engine.read("v0", key=("a", "x"))["n"].tolist() == [2]
    assert engine.read("v0", key=(None, "x"))["n"].tolist() == [1]
    assert engine.read("v0", key=("a", "nobody")).empty
    for key, error in ((("a",), ss.ViewError), ("a", ss.ViewError), (("a", 5), ss.RowError)):
        with pytest.raises(error):
            engine.read("v0", key=key)
    with pytest.raises(ss.ViewError, match="v9"):
        engine.read("v9")


@every_kind
def test_install_and_drop(kind: str) -> None:
    """Installing a view installs the views that it reads; names, catalogs and dependent views are checked."""
    engine = start(made(kind))
    catalog = engine.catalog
    below = catalog.view("CREATE VIEW below AS SELECT product, MAX(length) AS m FROM visit GROUP BY product")
    above = catalog.view("CREATE VIEW above AS SELECT product, m FROM below WHERE m > 1")
    out = engine.install(above)
    assert len(out) == (0 if kind == "partial" else 1)
    assert set(engine.views) == {"v0", "below", "above"}
    assert set(engine.step({})) == set(engine.views)
    with pytest.raises(ss.ViewError, match="above"):
        engine.drop("below")
    with pytest.raises(ss.ViewError, match="already installed"):
        engine.install(below)
    engine.drop("above")
    engine.drop(below)
    assert set(engine.views) == {"v0"}
    with pytest.raises(ss.ViewError, match="another catalog"):
        engine.install(ss.Catalog(**RELATIONS).view("CREATE VIEW w AS SELECT x FROM unused"))
    with pytest.raises(ss.ViewError):
        ss.engine(kind, [below, below])
    assert set(ss.engine(kind, [below, above]).views) == {"below", "above"}


@every_kind
def test_a_relation_that_no_view_uses(kind: str) -> None:
    """Its rows are checked and stored, and a view that is installed later has them."""
    engine = made(kind)
    engine.step({"unused": [((1,), 2)]})
    with pytest.raises(ss.RowError):
        engine.step({"unused": [((2,), -1)]})
    engine.step({"unused": [((1,), -1), ((3,), 1)]})
    engine.install(engine.catalog.view("CREATE VIEW late AS SELECT x FROM unused"))
    for key in (1, 3):
        assert engine.read("late", key=key)["x"].tolist() == [key]


@every_kind
def test_times(kind: str) -> None:
    """Full and partial state answer for the last epoch; shared state for since <= t < upper."""
    engine = start(made(kind))
    assert not engine.read("v0", at=1).empty
    with pytest.raises(ss.TimeError):
        engine.read("v0", at=2)
    engine.step({})
    with pytest.raises(ss.TimeError):
        engine.read("v0", at=1)
    with engine.handle() as hold:
        engine.step({"visit": [(("a", "z", 9), 1)]})
        assert hold.time == 2
        if kind == "shared":
            assert engine.read("v0", key="F", at=2)["max_length"].tolist() == [1]
        else:
            with pytest.raises(ss.TimeError):
                engine.read("v0", at=2)
    with pytest.raises(ss.TimeError):
        engine.read("v0", at=2)


def test_options_are_checked() -> None:
    """An unknown strategy, join or option raises an error that names it."""
    cases: list[tuple[str, dict[str, Any]]] = [
        ("whole", {}),
        ("full", {"join": "delta"}),
        ("shared", {"join": "multi"}),
        ("partial", {"join": "delta"}),
        ("full", {"max_rows": 3}),
        ("partial", {"max_rows": -1}),
        ("partial", {"max_bytes": 1.5}),
        ("partial", {"without": {"rule19"}}),
    ]
    for kind, options in cases:
        with pytest.raises(ss.ViewError):
            made(kind, **options)
    for views in ([], "v0", None):
        with pytest.raises(ss.ViewError):
            ss.engine("full", views)  # type: ignore[arg-type]


@also_in_bins
def test_evict_is_for_partial_state(kind: str) -> None:
    """evict raises on full and shared state; evicting a hole is no error."""
    engine = start(made(kind))
    if partial(kind):
        assert engine.evict("v0", key="nowhere") == {}
        assert engine.evict("v0")["v0"] == [("F",)]
        for wrong in ({"key": "F", "n": 1}, {"n": -1}, {"n": True}):
            with pytest.raises(ss.ViewError, match="evict"):
                engine.evict("v0", **wrong)
    else:
        with pytest.raises(ss.ViewError, match="only the partial engine evicts"):
            engine.evict("v0", key="F")


def test_partial_refuses_a_key_it_cannot_trace() -> None:
    """Partial state refuses a computed key, an aggregate, and the right side of a LEFT JOIN; others accept them."""
    for sql, column in (
        ("SELECT length + 1 AS more, user FROM visit", "more"),
        ("SELECT v.user, i.product FROM info i LEFT JOIN visit v ON i.product = v.product", "user"),
    ):
        for kind in ("partial", "partial in bins"):
            with pytest.raises(ss.ViewError, match=column):
                made(kind, sql)
        for kind in ("full", "shared"):
            made(kind, sql)


@every_kind
def test_the_shape_of_state(kind: str) -> None:
    """state() has its columns and the bill of each piece; state(operator) shows rows with their diffs."""
    engine = start(made(kind))
    state = engine.state()
    assert list(state.columns) == ["operator", "relation", "key", "rows", "bytes", "kind", "bill"]
    durable = state["bill"].str.contains("durable")
    assert set(state[durable]["relation"]) == {"info", "visit"}
    assert set(state["bill"]) <= {"durable", "durable + working", "working", "cached"}
    assert set(state["kind"]) <= {"base", "index", "join", "aggregate", "arrangement", "reader"}
    assert state["operator"].is_unique
    assert all(isinstance(key, tuple) for key in state["key"])
    base = state[durable & (state.relation == "visit")].iloc[0]
    assert base["kind"] == ("arrangement" if kind == "shared" else "base")
    rows = engine.state(base["operator"])
    assert rows["diff"].tolist() == [2, 1]
    with pytest.raises(ss.ViewError, match="nothing"):
        engine.state("nothing")


@also_in_bins
def test_a_closed_engine_says_so(kind: str) -> None:
    """After close() every call raises Error; closing twice is no error."""
    with start(made(kind)) as engine:
        assert "engine" in repr(engine)
        assert "<table" in engine._repr_html_()
    engine.close()
    for call in (lambda: engine.step({}), lambda: engine.read("v0"), engine.state, engine.compact):
        with pytest.raises(ss.Error, match="closed"):
            call()
