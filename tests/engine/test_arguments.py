"""Wrong arguments of engines: each raises one short error that says what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from places import ENGINES, IN_BINS, make

import sharedstate_lite as ss


def view() -> ss.View:
    """A view of one relation."""
    return ss.Catalog(r="k STRING, n INT").view("CREATE VIEW v AS SELECT k, MAX(n) AS m FROM r GROUP BY k")


@pytest.mark.parametrize("views", [[None], [view(), None], ["v"]])
def test_an_engine_takes_views_alone(views: list[Any]) -> None:
    """Anything but a view among the views raises ViewError, None included."""
    with pytest.raises(ss.ViewError, match=f"made by catalog.view.*, not {type(views[-1]).__name__}$"):
        ss.engine("full", views)


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_a_view_is_read_by_its_name_at_a_number(label: str) -> None:
    """A view object as a name, and a time that is no integer, raise a short error; numpy integers are valid."""
    it = view()
    with make(label, [it]) as engine:
        engine.step({"r": [(("a", 1), 1)]})
        for odd in (it, None, 3):
            with pytest.raises(ss.ViewError, match="^there is no view named .*; installed views: v$"):
                engine.read(odd, key="a")
        for at in (np.array([0, 1]), "1", 1.0, [1], True):
            with pytest.raises(ss.TimeError) as caught:
                engine.read("v", key="a", at=at)
            assert len(str(caught.value)) < 200
        assert engine.read("v", key="a", at=np.int64(1))["m"].tolist() == [1]


@pytest.mark.parametrize("label", ENGINES)
def test_more_rows_than_a_frame_holds(label: str) -> None:
    """A read of more than 100 million rows names the view and the call to use instead; the engine goes on."""
    with make(label, [ss.Catalog(r="k STRING, n INT").view("CREATE VIEW v AS SELECT k, n FROM r")]) as engine:
        engine.step({"r": [(("a", 1), 2**31 - 1), ((None, 2), 1)]})
        with pytest.raises(ss.Error, match=r"^view v has 2147483647 rows, .*; call state\('v'\)"):
            engine.read("v", key="a")
        assert engine.read("v", key=(None,))["n"].tolist() == [2]


@pytest.mark.parametrize("odd", [None, 3, ["v"], {"v"}, "w"])
def test_the_filled_keys_of_no_operator(odd: Any) -> None:
    """An unknown operator raises ViewError with the list of operators."""
    engine = make("partial", [view()])
    with pytest.raises(ss.ViewError, match="^there is no partial operator named .*; partial operators: v.group1, v$"):
        engine.filled(odd)
