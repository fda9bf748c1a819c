"""The contract of the engines over the bins of partial state: bad input, forms of input, values, keys, the graph."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from partial_rehearsal import PartialRehearsal

import sharedstate_lite as ss

_spec = importlib.util.spec_from_file_location("contract", Path(__file__).parents[2] / "engine" / "test_contract.py")
assert _spec is not None and _spec.loader is not None
contract: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(contract)
FIRST: Any = {"info": [(("a", "F"), 1), (("b", "G"), 1)], "visit": [(("a", "x", 1), 2), (("b", "y", 5), 1)]}


def made(*sql: str) -> list[Any]:
    """A partial engine over bins and one in process, over the same views."""
    catalog = ss.Catalog(**contract.RELATIONS)
    views = [catalog.view(f"CREATE VIEW v{n} AS {text}") for n, text in enumerate(sql)]
    return [PartialRehearsal(views, lose=2), ss.engine("partial", views)]


@pytest.mark.parametrize("case", contract.BAD)
def test_bad_input_is_the_in_process_error(case: str) -> None:
    """A refused epoch raises the error of one process, word for word, and changes nothing."""
    data, error, _ = contract.BAD[case]
    sql = {
        "a sum past BIGINT": "SELECT s, SUM(b) AS total FROM every GROUP BY s",
        "an overflow in an expression": "SELECT product, length + 1 AS more FROM visit",
    }.get(case, contract.RESULT)
    told = []
    for engine in made(sql):
        engine.step(FIRST)
        for key in ("F", "a", "x", "s", None):
            engine.read("v0", key=(key,))
        before = engine.epoch, engine.read("v0").to_json(), engine.filled("v0")
        with pytest.raises(error) as caught:
            engine.step(data)
        told.append(str(caught.value))
        assert (engine.epoch, engine.read("v0").to_json(), engine.filled("v0")) == before
        assert engine.step({})["v0"].to_pandas().empty
    assert told[0] == told[1]


@pytest.mark.parametrize("form", contract.GOOD)
def test_every_form_of_input_is_taken(form: str) -> None:
    """Pairs, frames, tables and Changes give the same change."""
    there, here = made(contract.RESULT)
    for engine in (there, here):
        engine.step(FIRST)
        engine.read("v0", key="F")
    assert there.step({"VISIT": contract.GOOD[form]}) == here.step({"VISIT": contract.GOOD[form]})


def test_values_and_keys() -> None:
    """Values of every type and NULL come back with the contract's dtypes; keys are checked as in process."""
    there, here = made(contract.EVERY, "SELECT d, COUNT(*) AS n FROM every GROUP BY d")
    rows = [(contract.VALUES, 1), ((None,) * 7, 2), (("s", 1, 1, -0.0, True, None, None), 1)]
    for engine in (there, here):
        engine.step({"every": rows})
    for key in ((contract.VALUES[there.views["v0"].key[0]],), (None,)):
        assert there.read("v0", key=key).equals(here.read("v0", key=key))
    for key in (0.0, -0.0, float("nan"), (None,), 5.5):
        assert there.read("v1", key=key).equals(here.read("v1", key=key))
    for view in ("v0", "v1"):
        assert there.read(view).equals(here.read(view))
        assert there.read(view).dtypes.equals(here.read(view).dtypes)
    for key in ((1, 2), True):
        told = []
        for engine in (there, here):
            with pytest.raises(ss.Error) as caught:
                engine.read("v1", key=key)
            told.append(str(caught.value))
        assert told[0] == told[1]


def test_what_is_refused_and_what_is_shown() -> None:
    """Other times, wrong evictions and a closed engine are refused; graph and state are the in-process ones."""
    there, here = made(contract.RESULT)
    for engine in (there, here):
        engine.step(FIRST)
        engine.read("v0", key="F")
        assert engine.read("v0", at=1).equals(engine.read("v0"))
        for wrong in ({"key": "F", "n": 1}, {"n": -1}, {"n": True}):
            with pytest.raises(ss.ViewError, match="evict"):
                engine.evict("v0", **wrong)
        with pytest.raises(ss.TimeError, match="shared"):
            engine.read("v0", at=0)
        with pytest.raises(ss.ViewError, match="no partial operator"):
            engine.filled("unknown")
    assert [f.drop(columns="tables", errors="ignore").to_json() for f in there.graph()] == [
        f.drop(columns="tables", errors="ignore").to_json() for f in here.graph()
    ]
    for name in ("visit[product]", "info[category]", "v0"):
        assert there.state(name).equals(here.state(name))
    assert set(here.state().operator) - {"info[product]"} <= set(there.state().operator)
    there.close()
    with pytest.raises(ss.Error, match="closed"):
        there.step({})


def test_a_relation_that_no_view_uses_is_stored() -> None:
    """Its rows can be retracted, and a retraction of an absent row is refused as in process."""
    row, told = ("s", 1, 1, 0.5, True, None, None), []
    for engine in made(contract.RESULT):
        engine.step({"every": [(row, 1)]})
        engine.step({"every": [(row, -1)]})
        with pytest.raises(ss.RowError) as caught:
            engine.step({"every": [(row, -1)]})
        told.append(str(caught.value))
    assert told[0] == told[1]
