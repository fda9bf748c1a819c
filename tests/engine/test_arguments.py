"""Wrong arguments of engines: each raises one short error that says what is expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ENGINES, IN_BINS, installs, make, partial, restored

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
    """A name that is not a string, and a time that is no integer, raise a short error; numpy integers are valid."""
    it = view()
    with make(label, [it]) as engine:
        engine.step({"r": [(("a", 1), 1)]})
        for odd in (None, 3, [it]):
            with pytest.raises(ss.ViewError, match="^there is no view named .*; installed views: v$"):
                engine.read(odd, key="a")
        for at in (np.array([0, 1]), "1", 1.0, [1], True):
            with pytest.raises(ss.TimeError) as caught:
                engine.read("v", key="a", at=at)
            assert len(str(caught.value)) < 200
        assert engine.read("v", key="a", at=np.int64(1))["m"].tolist() == [1]


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_every_call_takes_a_view_or_its_name(label: str) -> None:
    """read, evict, install and drop take a view of the catalog, or its name in any case."""
    it = view()
    other = it.catalog.view("CREATE VIEW Other AS SELECT k, n FROM r")
    with make(label, [it]) as engine:
        engine.step({"r": [(("a", 1), 1)]})
        for given in (other, "oTHER"):
            with pytest.raises(ss.ViewError, match="^there is no view named (Other|oTHER); installed views: v$"):
                engine.read(given, "a")
            if not installs(label):
                with pytest.raises(ss.ViewError, match="partial state on Spark keeps the views .*in one process"):
                    engine.install(given)
                continue
            assert len(engine.install(given)) == (0 if partial(label) else 1)
            with pytest.raises(ss.ViewError, match="^view Other is already installed"):
                engine.install(given)
            for named in (other, "other"):
                assert engine.read(named, key="a")["n"].tolist() == [1]
                if partial(label):
                    assert engine.evict(named, key="a")["Other"] == [("a",)]
                else:
                    with pytest.raises(ss.ViewError, match=r"^evict\(\): a .* engine stores all keys"):
                        engine.evict(named)
            engine.drop(given)
            assert list(engine.views) == ["v"]
        for odd in ("nowhere", None, 3, [it]):
            with pytest.raises(ss.ViewError, match="^there is no view named .*; views of the catalog: v, Other$"):
                engine.install(odd)


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_a_view_of_another_catalog_is_told_where_the_engine_has_its_own(label: str, tmp_path: Path) -> None:
    """A restored engine has a catalog of its own; the error for an old view names ``.views`` and ``.catalog``."""
    old = view()
    with make(label, [old]) as engine:
        engine.step({"r": [(("a", 1), 1)]})
        engine.checkpoint(tmp_path / "kept")
    with restored(label, tmp_path / "kept") as engine:
        calls = [engine.read, engine.install, engine.drop, *([engine.evict] if partial(label) else [])]
        told = r"^view v belongs to another catalog; .*engine\.views .*engine\.catalog\.view\("
        for call in calls:
            with pytest.raises(ss.ViewError, match=told):
                call(old)
        assert engine.views["v"] is engine.catalog.views["v"]
        assert engine.read(engine.views["v"], key="a")["m"].tolist() == [1]
        if installs(label):
            engine.install(engine.catalog.view("CREATE VIEW w AS SELECT k, n FROM r"))
            assert list(engine.views) == ["v", "w"]


@pytest.mark.parametrize("label", [*ENGINES, *IN_BINS])
def test_only_the_partial_engine_can_pause(label: str) -> None:
    """The calls that partial state has beside the others raise a ViewError that names the engine that has them."""
    with make(label, [view()]) as engine:
        for call in (engine.pause, engine.messages, lambda: engine.deliver(0), engine.resume):
            if label != "partial":
                with pytest.raises(ss.ViewError, match=r"pause\(\), messages\(\), .*ss\.engine\('partial', ..."):
                    call()
        if not partial(label):
            with pytest.raises(ss.ViewError, match="filled.* every key"):
                engine.filled("v")


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
