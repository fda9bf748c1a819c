"""What a caller hands an engine by mistake: one short error that says what was meant."""

from __future__ import annotations

from typing import Any

import pytest

import sharedstate_lite as ss


def view() -> ss.View:
    """A view of one relation."""
    return ss.Catalog(r="k STRING, n INT").view("CREATE VIEW v AS SELECT k, MAX(n) AS m FROM r GROUP BY k")


@pytest.mark.parametrize("views", [[None], [view(), None], ["v"]])
def test_an_engine_takes_views_alone(views: list[Any]) -> None:
    """None among the views, as a look-up of a name that is not there gives it, is refused like any other stranger."""
    with pytest.raises(ss.ViewError, match=f"made by catalog.view.*, not {type(views[-1]).__name__}$"):
        ss.engine("full", views)
