"""The bounds of every type: as MIN and MAX, in the order of read() and of Changes, with NULLs beside them."""

import datetime
import itertools
from typing import Any

import pandas as pd
import pytest
from places import ENGINES, IN_BINS, make, partial

import sharedstate_lite as ss

BIG = 2**63 - 1
BOUNDS: dict[str, list[Any]] = {
    "BIGINT": [-BIG, -BIG + 1, 0, BIG - 1, BIG],
    "INT": [-(2**31), 0, 2**31 - 1],
    "DOUBLE": [-1.7976931348623157e308, -5e-324, 0.0, 5e-324, 1.7976931348623157e308],
    "BOOLEAN": [False, True],
    "STRING": ["", "\0", "\uffff", "\U0010ffff"],
    "DATE": [datetime.date.min, datetime.date.max],
    "TIMESTAMP": [datetime.datetime.min, datetime.datetime.max],
}
"""Type -> values at its bounds, in order."""
VIEWS = {
    "both": "SELECT s, MIN(x) AS lo, MAX(x) AS hi FROM a GROUP BY s",
    "least": "SELECT s, MIN(x) AS lo FROM a GROUP BY s",
    "behind": "SELECT s, MAX(i) AS m, MIN(x) AS lo FROM a GROUP BY s",
    "filtered": "SELECT s, MIN(x) AS lo FROM a WHERE i > 0 GROUP BY s",
    "whole": "SELECT MIN(x) AS lo, MAX(x) AS hi FROM a",
    "plain": "SELECT s, x FROM a",
}


def plain(values: Any) -> list[Any]:
    """Values of a column as Python's own, None for NULL."""
    return [
        None if v is None or v is pd.NA or v is pd.NaT else getattr(v, "to_pydatetime", lambda v=v: v)() for v in values
    ]


def started(label: str, kind: str) -> ss.Engine:
    """An engine over all views, their keys filled."""
    catalog = ss.Catalog(a=f"s STRING, x {kind}, i INT")
    engine: ss.Engine = make(label, [catalog.view(f"CREATE VIEW {name} AS {sql}") for name, sql in VIEWS.items()])
    for view in engine.views.values() if partial(label) else []:
        engine.read(view.name, "p" if view.key else ())
    return engine


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
@pytest.mark.parametrize("kind", BOUNDS)
def test_extremes_at_the_bounds_of_a_type(label: str, kind: str) -> None:
    """Of any two values at the bounds, or NULL, MIN and MAX are right as they come and as they go (once NULL)."""
    values = [*BOUNDS[kind], None]
    with started(label, kind) as engine:

        def seen(there: list[Any]) -> None:
            some = [v for v in there if v is not None]
            lo, hi = (min(some), max(some)) if some else (None, None)
            wanted = {"both": [lo, hi], "least": [lo], "behind": [1, lo], "filtered": [lo], "whole": [lo, hi]}
            for name, row in wanted.items():
                found = engine.read(name, "p" if engine.views[name].key else ())
                assert plain(found.iloc[0, -len(row) :]) == row, (name, there)

        pairs = (
            itertools.combinations_with_replacement(values, 2)
            if label in ENGINES
            else zip(values, reversed(values), strict=True)
        )
        for x, y in pairs:
            for value, diff, there in ((x, 1, [x]), (y, 1, [x, y]), (x, -1, [y])):
                engine.step({"a": [(("p", value, 1), diff)]})
                seen(there)
            engine.step({"a": [(("p", y, 1), -1)]})


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
@pytest.mark.parametrize("kind", BOUNDS)
def test_order_at_the_bounds_of_a_type(label: str, kind: str) -> None:
    """read() and Changes put the greatest value last but for NULL."""
    values = [*BOUNDS[kind], None]
    with started(label, kind) as engine:
        out = engine.step({"a": [(("p", value, 1), 1) for value in reversed(values)]})["plain"]
        assert plain(out.to_pandas()["x"]) == values
        assert plain(engine.read("plain")["x"]) == values
        gone = engine.step({"a": [(("p", value, 1), -1) for value in values]})["plain"]
        assert plain(gone.to_pandas()["x"]) == values


@pytest.mark.parametrize("label", ENGINES)
def test_the_limit_of_a_sum_is_of_one_group(label: str) -> None:
    """Groups that are large only together are summed (they were refused); one of 2**31 rows is not."""
    catalog = ss.Catalog(a="s STRING, x INT")
    engine = make(label, [catalog.view("CREATE VIEW v AS SELECT s, SUM(x) AS t FROM a GROUP BY s")])
    for key in "pq" if partial(label) else "":
        engine.read("v", key)
    most = 2**31 - 1
    engine.step({"a": [(("p", 2), most), (("q", 3), most)]})
    assert engine.read("v")["t"].tolist() == [2 * most, 3 * most]
    with pytest.raises(ss.RowError, match="more than 2..31 rows"):
        engine.step({"a": [(("p", 1), 1)]})


@pytest.mark.parametrize("label", ENGINES)
def test_the_greatest_diff(label: str) -> None:
    """A diff of 2**62 - 1 is below 2**62, alone; two that add up to more say so."""
    catalog = ss.Catalog(a="s STRING")
    engine = make(label, [catalog.view("CREATE VIEW v AS SELECT s FROM a")])
    most = 2**62 - 1
    for diff in (most, -most):
        engine.step({"a": [(("p",), diff)]})
    with pytest.raises(ss.RowError, match="add up to 2..62 or more"):
        engine.step({"a": [(("p",), most), (("q",), 1)]})
