"""The generated shop: what every epoch guarantees, and that it is a function of its parameters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from sharedstate_lite.data import SCHEMA, Spec, declaration, generate
from sharedstate_lite.data.folder import checksum
from sharedstate_lite.data.rows import changes
from sharedstate_lite.data.schedule import Schedule
from sharedstate_lite.errors import Error

SMALL: dict[str, Any] = {"visits": 3000, "products": 40, "users": 30, "categories": 5, "epochs": 12, "seed": 3}


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table, diffs last."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Small shops of every kind, with many equal rows."""
    epochs = draw(st.integers(1, 9))
    categories = draw(st.integers(1, 4))
    deletes = draw(st.floats(0, 1))
    several = epochs > 1
    return Spec(
        visits=draw(st.integers(epochs, 400)),
        products=draw(st.integers(1, 20)),
        users=draw(st.integers(1, 5)),
        categories=categories,
        skew=draw(st.floats(0, 3)),
        deletes=deletes if several else 0,
        updates=draw(st.floats(0, 1 - deletes)) if several else 0,
        moves=draw(st.floats(0, 1)) if several and categories > 1 else 0,
        epochs=epochs,
        seed=draw(st.integers(0, 2**64 - 1)),
    )


@given(specs())
def test_every_epoch_is_a_netted_valid_change(spec: Spec) -> None:
    """Retractions are of rows that were there when the epoch began; no row has both signs; diffs are +1 and -1."""
    held: dict[str, Counter[tuple[Any, ...]]] = {"info": Counter(), "visit": Counter()}
    for epoch in range(1, spec.epochs + 1):
        for relation, table in changes(spec, epoch).items():
            gone, come = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
            for *row, diff in rows(table):
                assert diff in (-1, 1)
                (gone if diff < 0 else come)[tuple(row)] += 1
            assert not gone.keys() & come.keys()
            assert gone <= held[relation]
            held[relation] = held[relation] - gone + come
    assert held["info"].total() == spec.products == len({product for product, _ in held["info"]})
    schedule = Schedule(spec)
    went = sum(len(schedule.going(epoch)[0]) for epoch in range(1, spec.epochs + 1))
    assert held["visit"].total() == spec.visits - went


@given(specs())
def test_a_visit_comes_once_changes_once_at_most_and_goes_after(spec: Spec) -> None:
    """Each visit has one birth, at most one change after it, and at most one end after both."""
    schedule = Schedule(spec)
    birth: dict[int, int] = {}
    change: dict[int, int] = {}
    end: dict[int, int] = {}
    for epoch in range(1, spec.epochs + 1):
        going, changed = schedule.going(epoch)
        for visit, before in zip(going.tolist(), changed.tolist(), strict=True):
            assert visit not in end and birth[visit] < epoch and (visit in change) == before
            end[visit] = epoch
        for visit in schedule.changing(epoch).tolist():
            assert visit not in change and visit not in end and birth[visit] < epoch
            change[visit] = epoch
        for visit in schedule.coming(epoch).tolist():
            assert visit not in birth
            birth[visit] = epoch
    assert sorted(birth) == list(range(spec.visits))


@pytest.mark.parametrize(("visits", "epochs"), [(40_000, 40), (2000, 1500)])
def test_shares_hold_over_all_visits(visits: int, epochs: int) -> None:
    """Deletes, updates and moves are the shares that were asked for, also in epochs of one visit or two."""
    spec = Spec(visits=visits, epochs=epochs, deletes=0.2, updates=0.1, moves=0.25, products=1000)
    schedule = Schedule(spec)
    some = range(1, epochs + 1)
    went = sum(len(schedule.going(epoch)[0]) for epoch in some)
    changed = sum(len(schedule.changing(epoch)) for epoch in some)
    # A visit of the last epoch can neither go nor change, and one that goes at once not change.
    assert abs(went / visits - 0.2) < 0.03 and abs(changed / visits - 0.1) < 0.02
    assert sum(len(schedule.moving(epoch)) for epoch in some) == 250


def test_the_share_of_deletes_is_steady() -> None:
    """Between the first and the last few epochs of a stream, deletes are within a third of their share of each."""
    spec = Spec(visits=100_000, epochs=100, deletes=0.1, updates=0.1)
    for epoch in range(10, 85):
        assert abs(len(Schedule(spec).going(epoch)[0]) / 1000 - 0.1) < 0.034, epoch
        assert abs(len(Schedule(spec).changing(epoch)) / 1000 - 0.1) < 0.034, epoch


def test_old_visits_go_too() -> None:
    """Some of what goes in the last epoch came in the first half of them."""
    spec = Spec(visits=100_000, epochs=100)
    going, _ = Schedule(spec).going(100)
    assert 0 < (going < 50_000).sum() < len(going) / 4


def test_changes_are_spread_over_the_epochs() -> None:
    """What goes from a block does not all go at once: every later epoch has deletes, updates and moves."""
    for epoch, tables in generate(visits=20_000, epochs=20, products=2000, categories=50, moves=0.5, deletes=0.3):
        for relation, table in tables.items():
            retractions = sum(1 for *_, diff in rows(table) if diff < 0)
            assert (retractions > 0) == (epoch > 1), (relation, epoch)


def test_the_same_parameters_give_the_same_rows_for_ever() -> None:
    """The rows of a seed do not change between machines or versions of the kit."""
    sums = {epoch: {name: checksum(table) for name, table in tables.items()} for epoch, tables in generate(**SMALL)}
    assert sums[1] == {"info": "8aacf1d15e710d84a0138703bd4bfc57", "visit": "fabe62ff528f6a519b2a95220c3dee74"}
    assert sums[12] == {"info": "533ea5f6f95f665a7bca29d71533a7ac", "visit": "940596e318e1be0ded92447edbd72b3c"}


def test_an_epoch_can_be_made_alone() -> None:
    """Any epoch, made without the others, is the one that comes in its turn."""
    spec = Spec.make(**SMALL)
    for epoch, tables in generate(**SMALL):
        assert {name: table.equals(tables[name]) for name, table in changes(spec, epoch).items()} == {
            "info": True,
            "visit": True,
        }


@pytest.mark.parametrize("other", [{"seed": 4}, {"skew": 0.5}, {"visits": 3001}, {"users": 31}])
def test_other_parameters_give_other_rows(other: dict[str, Any]) -> None:
    """Every parameter counts."""
    one, two = (dict(generate(**parameters))[12]["visit"] for parameters in (SMALL, {**SMALL, **other}))
    assert not one.equals(two)


def test_tables_have_the_schema_of_the_seed() -> None:
    """The generated relations are declared as the seed's are, with INT lengths and int64 diffs."""
    tables = next(generate(**SMALL))[1]
    assert {name: declaration(table) for name, table in tables.items()} == SCHEMA
    assert all(table.schema.field("diff").type == pa.int64() for table in tables.values())
    assert all(column.null_count == 0 for table in tables.values() for column in table.columns)


def test_the_view_moves_with_the_changes() -> None:
    """The shopping view over the shop has an answer for each category, and deletes of maxima change it."""
    before: dict[str, int] = {}
    fell = 0
    held: dict[str, list[pa.Table]] = {"info": [], "visit": []}
    for _, tables in generate(**{**SMALL, "deletes": 0.9}):
        for name, table in tables.items():
            held[name].append(table)
        info, visit = pa.concat_tables(held["info"]), pa.concat_tables(held["visit"])
        now = dict(
            duckdb.sql(
                """SELECT category, MAX(length) FROM
                   (SELECT product, category FROM info GROUP BY ALL HAVING SUM(diff) > 0)
                   JOIN (SELECT product, "user", length FROM visit GROUP BY ALL HAVING SUM(diff) > 0) USING (product)
                   GROUP BY category"""
            ).fetchall()
        )
        assert info.num_rows and visit.num_rows and set(now) <= {f"c{n}" for n in range(5)}
        fell += sum(now[category] < length for category, length in before.items())
        before = now
    assert len(before) == 5 and fell >= 3


@pytest.mark.parametrize(
    ("given", "retracted", "left"),
    [
        ({"visits": 20_000, "products": 50, "users": 20, "epochs": 5, "deletes": 1, "updates": 0}, None, 4000),
        ({"visits": 20_000, "products": 50, "users": 20, "epochs": 5}, 2023, None),
        ({"visits": 1000, "epochs": 2}, 72, None),
    ],
)
def test_what_the_page_says_of_shares_is_so(given: dict[str, Any], retracted: int | None, left: int | None) -> None:
    """The visits of the last epoch neither go nor change, and equal rows cancel: docs/data.md has these numbers."""
    diffs = Counter[int]()
    for _, tables in generate(**given):
        diffs.update(tables["visit"]["diff"].to_pylist())
    assert retracted in (None, diffs[-1]) and left in (None, diffs[1] - diffs[-1])


BAD: list[tuple[dict[str, Any], str]] = [
    ({"visits": -1}, "visits=-1"),
    ({"visits": 0}, "visits=0"),
    ({"visits": 10.0}, "visits=10.0"),
    ({"visits": True}, "visits=True"),
    ({"products": 0}, "products=0"),
    ({"users": -3}, "users=-3"),
    ({"categories": 0}, "categories=0"),
    ({"epochs": 0}, "epochs=0"),
    ({"seed": -1}, "seed=-1"),
    ({"skew": -0.1}, "skew=-0.1"),
    ({"skew": float("nan")}, "skew=nan"),
    ({"skew": float("inf")}, "skew=inf"),
    ({"deletes": 1.1}, "deletes=1.1"),
    ({"updates": -0.5}, "updates=-0.5"),
    ({"moves": 2}, "moves=2"),
    ({"deletes": 0.6, "updates": 0.5}, "add up to at most 1"),
    ({"visits": 10, "epochs": 11}, "epochs=11"),
    ({"visits": 10, "epochs": 1, "deletes": 0.1}, "epochs=1"),
    ({"categories": 1, "moves": 0.1}, "categories=1"),
    ({"visits": None}, "visits=None: it must be a whole number"),
    ({"deletes": None}, "deletes=None: it must be a fraction from 0 to 1"),
    ({"visit": 10}, "visit: no such parameter"),
]


@pytest.mark.parametrize(("given", "named"), BAD)
def test_parameters_that_cannot_be_are_refused_before_any_row(given: dict[str, Any], named: str) -> None:
    """A wrong parameter is one error that names it, at the call."""
    with pytest.raises(Error) as caught:
        generate(**given)
    assert named in str(caught.value)


def test_shares_that_were_not_asked_for_give_way() -> None:
    """One epoch, one category or very few visits need no other option to be given."""
    assert Spec.make(visits=10, epochs=1).deletes == 0
    assert Spec.make(categories=1).moves == 0
    assert (Spec.make(visits=5).epochs, Spec.make(visits=1).epochs) == (5, 1)
    assert sum(tables["visit"].num_rows for _, tables in generate(visits=1)) == 1
