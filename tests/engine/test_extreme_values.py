"""The smallest and largest values of every type, with NULL: in MIN and MAX, and in the order of read() and Changes."""

import datetime
import itertools
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest
from places import ENGINES, make, partial

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
LABELS = ["full", "shared", "partial"]
VIEWS = {
    "both": "SELECT s, MIN(x) AS lo, MAX(x) AS hi FROM a GROUP BY s",
    "least": "SELECT s, MIN(x) AS lo FROM a GROUP BY s",
    "behind": "SELECT s, MAX(i) AS m, MIN(x) AS lo FROM a GROUP BY s",
    "filtered": "SELECT s, MIN(x) AS lo FROM a WHERE i > 0 GROUP BY s",
    "whole": "SELECT MIN(x) AS lo, MAX(x) AS hi FROM a",
    "plain": "SELECT s, x FROM a",
}


def plain(values: Any) -> list[Any]:
    """Values of a column as Python values, None for NULL."""
    return [
        None if v is None or v is pd.NA or v is pd.NaT else getattr(v, "to_pydatetime", lambda v=v: v)() for v in values
    ]


def started(label: str, kind: str, views: Iterable[str] = VIEWS, keys: Iterable[str] = ("p",)) -> ss.Engine:
    """An engine over views, with these keys filled."""
    catalog = ss.Catalog(a=f"s STRING, x {kind}, i INT")
    engine: ss.Engine = make(label, [catalog.view(f"CREATE VIEW {name} AS {VIEWS[name]}") for name in views])
    for view in engine.views.values() if partial(label) else []:
        for key in keys if view.key else [()]:
            engine.read(view.name, key)
    return engine


def pairs(label: str, kind: str) -> list[tuple[Any, Any]]:
    """All pairs of values at the bounds, NULL included; in bins each value once."""
    values = [*BOUNDS[kind], None]
    if label in ENGINES:
        return list(itertools.combinations_with_replacement(values, 2))
    return list(zip(values, reversed(values), strict=True))


def extremes(there: Iterable[Any]) -> tuple[Any, Any]:
    """MIN and MAX of some values, NULL ignored."""
    some = [v for v in there if v is not None]
    return (min(some), max(some)) if some else (None, None)


@pytest.mark.parametrize("label", [*LABELS, "shared in bins"])
@pytest.mark.parametrize("kind", BOUNDS)
def test_extremes_at_the_bounds_of_a_type(label: str, kind: str) -> None:
    """MIN and MAX of many groups are right while two values are inserted and deleted."""
    groups = {f"p{n}": pair for n, pair in enumerate(pairs(label, kind))}
    with started(label, kind, ["both", "least", "behind", "filtered"], groups) as engine:
        for turn, diff, there in ((0, 1, [0]), (1, 1, [0, 1]), (0, -1, [1]), (1, -1, [])):
            engine.step({"a": [((key, pair[turn], 1), diff) for key, pair in groups.items()]})
            wanted: dict[str, dict[str, list[Any]]] = {name: {} for name in engine.views}
            for key, pair in groups.items() if there else ():
                lo, hi = extremes(pair[n] for n in there)
                for name, row in (("both", [lo, hi]), ("least", [lo]), ("behind", [1, lo]), ("filtered", [lo])):
                    wanted[name][key] = row
            for name, rows in wanted.items():
                found = engine.read(name)
                columns = [plain(found[column]) for column in found.columns]
                assert {key: row for key, *row in zip(*columns, strict=True)} == rows, (name, there)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", BOUNDS)
def test_extremes_of_everything_at_the_bounds_of_a_type(label: str, kind: str) -> None:
    """MIN and MAX without groups are right, for one pair after the other."""
    with started(label, kind, ["whole"]) as engine:
        for x, y in pairs(label, kind):
            for value, diff, there in ((x, 1, [x]), (y, 1, [x, y]), (x, -1, [y]), (y, -1, [])):
                engine.step({"a": [(("p", value, 1), diff)]})
                found = engine.read("whole")
                assert [tuple(plain(found.iloc[0]))] == [extremes(there)], there


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", BOUNDS)
def test_order_at_the_bounds_of_a_type(label: str, kind: str) -> None:
    """read() and Changes sort values in ascending order, NULL last."""
    values = [*BOUNDS[kind], None]
    with started(label, kind) as engine:
        out = engine.step({"a": [(("p", value, 1), 1) for value in reversed(values)]})["plain"]
        assert plain(out.to_pandas()["x"]) == values
        assert plain(engine.read("plain")["x"]) == values
        gone = engine.step({"a": [(("p", value, 1), -1) for value in values]})["plain"]
        assert plain(gone.to_pandas()["x"]) == values


@pytest.mark.parametrize("label", LABELS)
def test_the_limit_of_a_sum_is_of_one_group(label: str) -> None:
    """A group of fewer than 2**31 rows is summed, whatever other groups hold; a larger one is refused."""
    catalog = ss.Catalog(a="s STRING, x INT")
    engine = make(label, [catalog.view("CREATE VIEW v AS SELECT s, SUM(x) AS t FROM a GROUP BY s")])
    for key in "pq" if partial(label) else "":
        engine.read("v", key)
    most = 2**31 - 1
    engine.step({"a": [(("p", 2), most), (("q", 3), most)]})
    assert engine.read("v")["t"].tolist() == [2 * most, 3 * most]
    with pytest.raises(ss.RowError, match="2..31 rows or more"):
        engine.step({"a": [(("p", 1), 1)]})
