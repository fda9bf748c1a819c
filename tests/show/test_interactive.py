"""A slider in JupyterLab; elsewhere one choice, and a sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ipywidgets
import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import Error
from sharedstate_lite.show.checks import UNATTENDED


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel."""
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: SimpleNamespace(kernel=True))


def test_a_slider_has_the_choices(kernel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader, each value of the slider is drawn when it is chosen."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    drawn: list[int] = []
    monkeypatch.setattr(ipywidgets, "interact", lambda draw, **given: drawn.append(draw(given["lag"].value)) or given)
    assert show.interact(lambda lag: 10 * lag, 1, lag=range(3)) is None and drawn == [10]
    made: list[Any] = []
    monkeypatch.setattr(ipywidgets, "interact", lambda draw, **given: made.append(given["lag"]))
    show.interact(lambda lag: lag, 1, lag=range(3))
    assert (made[0].options, made[0].value, made[0].description) == ((0, 1, 2), 1, "lag")


def test_without_a_reader_it_says_where_the_slider_is(kernel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unattended, the first choice is drawn below a sentence."""
    monkeypatch.setenv(UNATTENDED, "1")
    said: list[Any] = []
    monkeypatch.setattr("IPython.display.display", said.append)
    assert show.interact(lambda lag: 10 * lag, 2, lag=range(3)) == 20
    assert said[0].data == "<p><i>In JupyterLab, a slider changes lag. Here it is 2.</i></p>"


def test_a_choice_that_is_none_is_refused() -> None:
    """The first choice is one of the values, of one argument."""
    for choices in ({}, {"lag": range(3), "budget": range(9)}, {"lag": range(1, 3)}):
        with pytest.raises(Error, match="0 is not one of the values"):
            show.interact(lambda **_: None, 0, **choices)
