"""Signals while a shop is made: the folder is made or is not, whole in either case, and what is said is true.

Spark is left out: what it would do is done here, and a signal comes at a chosen place of it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sharedstate_lite.spark as kit
from sharedstate_lite.data import Spec, folder, interrupts, pipeline
from sharedstate_lite.data.__main__ import main
from sharedstate_lite.data.rows import RELATIONS, changes
from sharedstate_lite.errors import Error
from sharedstate_lite.system.scratch import Scratch

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
OPTIONS = ["--visits", "300", "--products", "10", "--users", "5", "--categories", "3", "--epochs", "3"]


def fill(root: Path, spec: Spec) -> dict[str, Any]:
    """Write the shop of a spec into a folder; returns its manifest."""
    files = []
    for relation in RELATIONS:
        (root / relation).mkdir()
    for epoch in range(1, spec.epochs + 1):
        files += [(epoch, r, folder.write(root, r, epoch, table)) for r, table in changes(spec, epoch).items()]
        folder.stamp(root, epoch, spec.epochs, 1e9)
    return folder.conclude(root, spec.parameters(), files)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A shop that was made before, of seed 1."""
    (tmp_path / "shop").mkdir()
    fill(tmp_path / "shop", Spec.make(visits=50, products=5, epochs=2, seed=1))
    return tmp_path / "shop"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Callable[[], object]]]:
    """What to do at each place: as Spark starts, with one relation written, before the last rename, as Spark ends.

    Signals do nothing where the command does not handle them; afterwards its handlers must be gone.
    """
    moments: dict[str, Callable[[], object]] = {}
    release = Scratch.release

    def reach(place: str) -> None:
        moments.get(place, lambda: None)()

    def write(spark: object, spec: Spec, root: Path, progress: object) -> dict[str, Any]:
        (root / "half").mkdir()
        reach("write")
        (root / "half").rmdir()
        return fill(root, spec)

    def released(scratch: Scratch, target: Path) -> None:
        reach("rename")
        release(scratch, target)

    def session(master: str | None) -> object:
        reach("start")
        return object()

    monkeypatch.setattr(kit, "session", session)
    monkeypatch.setattr(kit, "stop", lambda: reach("stop"))
    monkeypatch.setattr(pipeline, "_write", write)
    monkeypatch.setattr(Scratch, "release", released)
    before = {number: signal.signal(number, nothing) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield moments
        assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)} <= {nothing, signal.SIG_IGN}
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def nothing(number: int, frame: object) -> None:
    """A handler that passes a signal over."""


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize(("place", "made"), [("start", False), ("write", False), ("rename", True), ("stop", True)])
@pytest.mark.parametrize("before", [False, True])
def test_what_an_interrupt_says_is_so(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    at: dict[str, Callable[[], object]],
    capsys: pytest.CaptureFixture[str],
    before: bool,
    place: str,
    made: bool,
    number: signal.Signals,
) -> None:
    """The folder is the new one, whole, where it is said to be made; else it is what was there before, if anything."""
    out = request.getfixturevalue("old") if before else tmp_path / "shop"
    at[place] = lambda: signal.raise_signal(number)
    assert main(["make", *OPTIONS, *(["--overwrite"] if before else []), "--out", str(out)]) == CODES[number]
    said = capsys.readouterr()
    kept = "; the old folder is unchanged" if before else ""
    outcome = "was written completely" if made else f"was not written{kept}"
    assert said.out == "" and said.err == f"starting Spark\ninterrupted; {out} {outcome}\n"
    assert [path.name for path in tmp_path.iterdir()] == (["shop"] if made or before else [])
    if made or before:
        assert folder.check(out)["parameters"]["seed"] == (7 if made else 1)


def test_what_nohup_ignores_is_ignored(tmp_path: Path, at: dict[str, Callable[[], object]]) -> None:
    """A hang-up that was to be ignored when the command began does not end it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    at["write"] = lambda: signal.raise_signal(signal.SIGHUP)
    assert main(["make", *OPTIONS, "--out", str(tmp_path / "shop")]) == 0
    folder.check(tmp_path / "shop")


def test_an_interrupted_check_says_what_it_may_have_set(
    old: Path, at: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """check writes nothing; with --stamp some times may be set by then."""
    monkeypatch.setattr(folder, "check", lambda root: signal.raise_signal(signal.SIGINT))
    assert main(["check", str(old)]) == main(["check", str(old), "--stamp"]) == 130
    assert capsys.readouterr().err.splitlines() == [
        "interrupted; nothing was written",
        "interrupted; the modification times of some files may not be set; run the command again",
    ]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(5, "Input/output error")], ids=["interrupt", "fault"])
def test_a_replacement_that_fails_brings_the_old_folder_back(
    tmp_path: Path, old: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    """Between the two renames, too, the folder that was there is not lost."""

    def fail(scratch: Scratch, target: Path) -> None:
        assert not target.exists()
        raise fault

    scratch = pipeline.begin(old, True)
    monkeypatch.setattr(Scratch, "release", fail)
    with pytest.raises(type(fault)):
        pipeline._into_place(scratch, old)
    scratch.close()
    assert folder.check(old)["parameters"]["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_what_a_killed_run_put_aside_is_put_back(tmp_path: Path, old: Path) -> None:
    """A run that ended between the two renames has its folder back at the next one; after them, it is cleared away."""
    old.rename(pipeline._aside(old))
    with pytest.raises(Error, match="the folder is not empty"):
        pipeline.begin(old, False)
    assert folder.check(old)["parameters"]["seed"] == 1
    pipeline._aside(old).mkdir()
    (pipeline._aside(old) / "manifest.json").touch()
    pipeline.begin(old, True).close()
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_late_holds_all_three_and_puts_their_handlers_back() -> None:
    """Signals wait for the end of the block; the first is handled then, and where none came nothing happens."""
    before = {number: signal.getsignal(number) for number in CODES}
    came: list[int] = []
    try:
        for number in CODES:
            signal.signal(number, lambda number, frame: came.append(number))
        with interrupts.late():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            assert came == []
        assert came == [signal.SIGHUP]
        with interrupts.late():
            pass
        signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGHUP, signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_master_that_the_environment_names_wrongly_is_a_wrong_option(
    tmp_path: Path, at: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said before Spark starts; a master that is named with the command goes before it."""
    monkeypatch.setenv("SHAREDSTATE_LITE_MASTER", "foo")
    assert main(["make", *OPTIONS, "--out", str(tmp_path / "shop")]) == 2
    said = capsys.readouterr().err
    assert "master 'foo'" in said and "SHAREDSTATE_LITE_MASTER" in said and said.count("\n") == 1
    assert main(["make", *OPTIONS, "--master", "local[1]", "--out", str(tmp_path / "shop")]) == 0
