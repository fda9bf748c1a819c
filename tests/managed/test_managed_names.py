"""Columns, keys, states and fields may have any name, or are refused where they are declared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from any_names import ALL, INTERNAL, SOME, columns_of, states_of

from sharedstate_lite import managed as m
from sharedstate_lite.errors import Error, StateError
from sharedstate_lite.managed.declare import RESERVED
from sharedstate_lite.managed.stores import KINDS, create
from sharedstate_lite.storage.encoding import Dictionary

START = datetime(2024, 1, 1)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each store that this machine has."""
    found: str = request.param
    try:
        if found in ("postgres", "inside"):
            request.getfixturevalue("server")
        store = create(found)
        store.open("names", [], Dictionary(), 8)
        store.close()
    except Error as error:
        pytest.skip(str(error))
    return found


def names_of(kind: str) -> tuple[str, ...]:
    """All names for the default store. The other ones differ in what is internal."""
    return ALL if kind == "columns" else SOME


def test_the_names_are_those_that_mean_something() -> None:
    """Each once, whatever its case: those of the kit, of Python, SQL and pandas."""
    assert len(set(map(str.lower, ALL))) == len(ALL) > 800
    assert {*INTERNAL, "class", "group", "print", "append", "Reducing", "iloc", "rescale"} <= set(ALL)
    assert set(INTERNAL) < set(SOME) and len(SOME) < 70


def test_columns_and_keys_may_have_any_name(kind: str, tmp_path: Path) -> None:
    """Of sources, keys and what is emitted: the same rows come out, and timers are called. Also after a restart."""
    names = names_of(kind)
    given = ", ".join(f"{name} INT" for name in names)
    source = m.source("s", f"{given}, time_1 TIMESTAMP", key=INTERNAL, time="time_1")
    rows = [[*(2_000 * n + at for at in range(len(names))), START + timedelta(minutes=n)] for n in range(4)]
    keys = [tuple(row[: len(INTERNAL)]) for row in rows]
    with m.run(columns_of(names), source, store=kind, workers=2, bins=8) as run:
        run.step(rows[:1])
        run.step(pd.DataFrame(rows[1:2], columns=[*names, "time_1"]))
        found = run.step([dict(zip([*names, "time_1"], rows[2], strict=True))])
        assert (tuple(found), found.values.tolist()) == (names, [rows[2][:-1]])
        run.rescale(1)
        run.checkpoint(tmp_path / "saved")
    with m.restore(tmp_path / "saved", columns_of(names)) as run:
        found = run.step([[*rows[3][:-1], START + timedelta(minutes=11)]])
        called = [[*keys[n], *[10 + n] * (len(names) - len(INTERNAL))] for n in (0, 1)]
        assert found.values.tolist() == [rows[3][:-1], *called]
        assert [run.read("Columns.state_1", key=key) for key in keys] == [0, 2_000, 4_000, 6_000]
        assert run.read("Again.state_1", key=keys[3]) == rows[3][names.index("count")]
        assert run.read("state_2", key=keys[0]) == {1: {"value": 0, "items": [1, 2]}}
        quoted = run.sql('SELECT "value", "select", "excluded", state_2[1].value AS v FROM live.state_2 ORDER BY ALL')
        at = [INTERNAL.index(name) for name in ("value", "select", "excluded")]
        assert quoted.values.tolist() == [[*(key[i] for i in at), key[0]] for key in keys]
        assert [len(run.state(each)) for each in ("Columns.state_1", "state_2", "state_2.items")] == [4, 4, 8]
        run.advance(START + timedelta(hours=2))
        assert run.state()["rows"].tolist() == [0, 0, 0, 0, 4]


def test_a_state_may_have_any_name(kind: str, tmp_path: Path) -> None:
    """Each state has its own value, in Python and in SQL, if its name is not refused."""
    names = [name for name in names_of(kind) if name not in RESERVED and not name.startswith("on_")]
    made = states_of(names)
    with m.run(made, m.source("s", "k_1 STRING, x INT", key="k_1"), store=kind, bins=8) as run:
        run.step([("a", 5)])
        run.checkpoint(tmp_path / "saved")
    with m.restore(tmp_path / "saved", made, workers=2) as run:
        assert [run.read(name, key="a") for name in names] == list(range(5, 5 + len(names)))
        some = names[:40]
        text = " UNION ALL ".join(f'SELECT k_1, "{name}" AS x FROM live."{name}"' for name in some)
        assert run.sql(text).values.tolist() == [["a", 5 + at] for at in range(len(some))]


@pytest.mark.parametrize("name", [*RESERVED, "on_x", "_x"])
def test_names_of_an_operator_are_refused(name: str) -> None:
    """At the declaration, in one sentence."""
    made = type("Named", (m.Operator,), {"row": lambda self, key, row, out: None} | {name: m.Value("INT")})
    with pytest.raises(
        StateError, match=f"^Named.{name}: a state cannot have this name, which is reserved; rename it$"
    ):
        m.run(made(), m.source("s", "k_1 STRING", key="k_1"))


def fields_of(names: Sequence[str], by_row: bool) -> m.Operator:
    """An operator that writes a struct with these fields to each kind of state."""
    whole = "STRUCT<" + ", ".join(f"{name}: INT" for name in names) + ">"

    class Fields(m.Operator):
        value = m.Value(whole)
        tail = m.List(whole)
        by = m.Map("STRING", whole)
        recent = m.Ordered(", ".join(f"{name} INT" for name in names if name != "time"))
        most = m.Reducing(whole, dict.fromkeys(names, "max"))
        inner = m.Value(f"STRUCT<value: MAP<INT, {whole}>>")

    def row(self: Any, key: Any, row: Any, out: Any) -> None:
        struct = {name: row["x"] + at for at, name in enumerate(names)}
        self.value.set(struct)
        self.by.put("value", struct)
        self.most.add(struct)
        self.inner.set({"value": {1: struct}})
        self.tail.append(struct)
        self.recent.add(*(x for name, x in struct.items() if name != "time"))

    def rows(self: Any, batch: Any, out: Any) -> None:
        columns = {name: batch["x"] + at for at, name in enumerate(names)}
        structs = pd.DataFrame(columns).to_dict("records")
        self.value.set(batch.keys, columns)
        self.by.put(batch.keys, "value", pd.DataFrame(columns))
        self.most.add(batch.keys, columns)
        self.inner.set(batch.keys, {"value": [{1: struct} for struct in structs]})
        for at in self.each(batch.keys):
            self.tail.append(structs[at])
            self.recent.add(*(x for name, x in structs[at].items() if name != "time"))

    made: m.Operator = type("Made", (Fields,), {"row": row} if by_row else {"rows": rows})()
    return made


@pytest.mark.parametrize("by_row", [True, False])
def test_a_field_of_a_struct_may_have_any_name(by_row: bool, kind: str) -> None:
    """Read as it was written. A row of Ordered has its time as `time`, so only this field is refused there."""
    names = names_of(kind)
    source = m.source("s", "k_1 STRING, x INT, t TIMESTAMP", key="k_1", time="t")
    with m.run(fields_of(names, by_row), source, store=kind, bins=8) as run:
        run.step([("a", 5, START), ("b", 7, START)])
        for key, first in (("a", 5), ("b", 7)):
            struct = {name: first + at for at, name in enumerate(names)}
            assert [run.read(state, key=key) for state in ("value", "most")] == [struct, struct]
            assert [run.read(state, key=key) for state in ("tail", "by")] == [[struct], {"value": struct}]
            assert run.read("inner", key=key) == {"value": {1: struct}}
            assert run.read("recent", key=key) == [struct | {"time": START}]
        found = run.sql("SELECT unnest(value) FROM live.value WHERE k_1 = 'a'")
        assert (tuple(found), found.values.tolist()) == (names, [list(range(5, 5 + len(names)))])


def test_names_that_python_reserves_are_refused_for_columns() -> None:
    """`row.__class__` would be the class of the row."""
    made = type("Named", (m.Operator,), {"out": "k_1 STRING, __class__ INT", "row": lambda self, key, row, out: None})
    with pytest.raises(StateError, match="^Named: Python reserves the name of the column __len__; rename it$"):
        m.run(made(), m.source("s", "k_1 STRING, __len__ INT", key="k_1"))
    after = type("After", (m.Operator,), {"key": "k_1", "row": lambda self, key, row, out: None})
    with pytest.raises(StateError, match="^After: Python reserves the name of the column __class__; rename it$"):
        m.run([made(), after()], m.source("s", "k_1 STRING", key="k_1"))
