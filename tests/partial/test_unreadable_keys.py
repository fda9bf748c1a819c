"""A key whose answer cannot be computed, such as a SUM that exceeds BIGINT: partial state finds out when it is read."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from places import make
from support import tuples

import sharedstate_lite as ss

LARGE = 2**62
PLACES = pytest.mark.parametrize("label", ["partial", "partial in bins"])


def totals(label: str) -> Any:
    """An engine over the sums of two groups."""
    catalog = ss.Catalog(t="k STRING, day DATE, a BIGINT")
    return make(label, [catalog.view("CREATE VIEW v AS SELECT k, day, SUM(a) AS total FROM t GROUP BY k, day")])


DAY = date(2024, 1, 31)
KEY = ("x", DAY)
TWO: Any = {"t": [(("x", DAY, LARGE), 1), (("x", DAY, LARGE + 1), 1)]}


@pytest.mark.parametrize("label", ["full", "shared", "full in bins", "shared in bins"])
def test_full_and_shared_refuse_a_sum_that_overflows(label: str) -> None:
    """They compute every key, so the step raises."""
    with totals(label) as engine:
        with pytest.raises(ss.RowError, match="^a SUM exceeds the range of BIGINT"):
            engine.step(TWO)
        assert engine.epoch == 0


@PLACES
def test_a_sum_that_overflows_at_a_hole_is_found_by_a_read(label: str) -> None:
    """The step is taken; the read raises, names the key, and can be repeated after a step that removes the cause."""
    with totals(label) as engine:
        engine.read("v", ("y", None))
        engine.step(TWO)
        for _ in range(2):
            with pytest.raises(ss.RowError) as caught:
                engine.read("v", KEY)
            assert str(caught.value) == (
                "view v: key ('x', datetime.date(2024, 1, 31)) cannot be read: a SUM exceeds the range of BIGINT "
                "(64 bits); CAST its argument AS DOUBLE. No step was lost, and the other keys can be read"
            )
        assert (engine.epoch, engine.filled("v")) == (1, [("y", None)])
        engine.step({"t": [(("y", None, 3), 1), (("x", DAY, 5), 1)]})
        assert tuples(engine.read("v", ("y", None))) == [("y", None, 3)]
        engine.step({"t": [(("x", DAY, LARGE), -1)]})
        assert tuples(engine.read("v", KEY)) == [(*KEY, LARGE + 6)]
        with pytest.raises(ss.RowError, match="^a SUM exceeds the range of BIGINT"):
            engine.step({"t": [(("x", DAY, LARGE), 1)]})
        assert tuples(engine.read("v", KEY)) == [(*KEY, LARGE + 6)]


def test_a_read_on_a_paused_engine_names_its_key() -> None:
    """The message that cannot be delivered belongs to the read, so the error names the read's key."""
    with totals("partial") as engine:
        engine.step(TWO)
        engine.pause()
        answer = engine.read("v", KEY)
        with pytest.raises(ss.RowError, match=r"^view v: key \('x', .* cannot be read: .*this call and all calls"):
            engine.resume()
        with pytest.raises(ss.RowError, match="rolled back"):
            answer.result()
        assert engine.messages() == []
        engine.resume()
        assert engine.epoch == 1


def test_lookups_of_several_keys_name_them() -> None:
    """On Spark, a lookup reads several keys at once, and the error names the first three."""
    with totals("partial in bins") as engine:
        engine.step(TWO)
        wanted = [(k, DAY) for k in "axyz"]
        with pytest.raises(ss.RowError, match=r"^view v: one of the keys \('a', .*\('x', .*\('y', .*, \.\.\. can"):
            engine.lookup("v", wanted)
        assert engine.lookup("v", [(k, DAY) for k in "ay"]).empty
