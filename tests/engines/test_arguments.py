"""What a caller hands an engine by mistake: one short error that says what was meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from places import ENGINES, make

import sharedstate_lite as ss


def view() -> ss.View:
    """A view of one relation."""
    return ss.Catalog(r="k STRING, n INT").view("CREATE VIEW v AS SELECT k, MAX(n) AS m FROM r GROUP BY k")


@pytest.mark.parametrize("views", [[None], [view(), None], ["v"]])
def test_an_engine_takes_views_alone(views: list[Any]) -> None:
    """None among the views, as a look-up of a name that is not there gives it, is refused like any other stranger."""
    with pytest.raises(ss.ViewError, match=f"made by catalog.view.*, not {type(views[-1]).__name__}$"):
        ss.engine("full", views)


@pytest.mark.parametrize("label", ENGINES)
def test_a_view_is_read_by_its_name_at_a_number(label: str) -> None:
    """A view itself, and a time that is no number, are told in a line; a number of numpy's is a number."""
    it = view()
    with make(label, [it]) as engine:
        engine.step({"r": [(("a", 1), 1)]})
        for odd in (it, None, 3):
            with pytest.raises(ss.ViewError, match=f"^a view goes by its name, not by a {type(odd).__name__}; .*: v$"):
                engine.read(odd, key="a")
        for at in (np.array([0, 1]), "1", 1.0, [1]):
            with pytest.raises(ss.TimeError) as caught:
                engine.read("v", key="a", at=at)
            assert len(str(caught.value)) < 200
        assert engine.read("v", key="a", at=np.int64(1))["m"].tolist() == [1]
