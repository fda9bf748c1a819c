"""The engines in Rust as sides of bench/views.py: what a program is given, what it hands back, and its absence."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from bench import child, views
from bench.rust import build, side
from bench.shopping import rows
from bench.shopping.sides import RUST, Gathered
from bench.shopping.stream import Shop, Window, draw, schedule
from bench.shopping.told import Told
from sharedstate_lite.errors import Error

STREAM = draw(Shop(products=20), *schedule([300], {100: Window(1, 5, 0)}, deletes=0.2, fill=100))


def test_a_program_is_given_every_row(tmp_path: Path) -> None:
    """The file has the categories, the rows of each epoch, and the rows with their signs."""
    side.write(STREAM, tmp_path / "stream")
    numbers = np.fromfile(tmp_path / "stream", np.uint32).tolist()
    products, epochs = numbers[:2]
    assert (products, epochs) == (20, STREAM.epochs)
    assert numbers[2:22] == STREAM.category.tolist()
    counts, rest = numbers[22 : 22 + epochs], np.array(numbers[22 + epochs :]).reshape(-1, 4)
    assert counts == [STREAM.rows(epoch) for epoch in range(epochs)] and sum(counts) == len(rest)
    come, gone = STREAM.visits(epochs - 1)
    last = rest[-counts[-1] :]
    assert last[:, 2].tolist() == STREAM.length[np.concatenate([come, gone])].tolist()
    assert last[:, 3].tolist() == [1] * len(come) + [2**32 - 1] * len(gone)
    moving = draw(Shop(moves=0.1), *schedule([300], {}, deletes=0.2, fill=100))
    with pytest.raises(ValueError, match="changes info"):
        side.write(moving, tmp_path / "stream")


def test_a_record_is_made_of_what_a_program_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Seconds, changes and memory are those that the program wrote; a program that fails is an error."""
    program, told = tmp_path / "program", list[float]()
    monkeypatch.setattr(side, "program", lambda name: program)
    monkeypatch.setattr(child, "tell", told.append)
    code = (
        "import numpy, sys\n"
        "assert sys.argv[3:] == ['reduce']\n"
        f"numpy.arange({2 * STREAM.epochs}, dtype=float).tofile(sys.argv[2] + '/epochs')\n"
        "numpy.array([[0, 7, 60, 1], [1, 7, 60, -1]], numpy.int32).tofile(sys.argv[2] + '/changes')\n"
        "print(0.5), print(1.0)\n"
    )
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)
    record = side.run("differential, one reduce", STREAM, tmp_path)
    assert record.seconds.tolist() == [2 * epoch for epoch in range(STREAM.epochs)]
    assert record.emitted.tolist() == [[0, 7, 60, 1], [1, 7, 60, -1]]
    fill = next(stretch for stretch in STREAM.stretches if stretch.kind == "fill")
    assert [(mark.level, mark.resident) for mark in record.marks] == [(300, 2 * fill.last - 1)]
    assert told == [0.5, 1.0] and "one reduce" in record.version
    program.write_text(f"#!{sys.executable}\nraise SystemExit(3)\n")
    with pytest.raises(RuntimeError, match="ended with status 3"):
        side.run("DBSP", STREAM, tmp_path)


def test_without_cargo_the_engines_are_absent_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without cargo, nothing is built, and each row says which engines are absent and why."""
    monkeypatch.setattr(build, "folder", lambda: tmp_path)
    monkeypatch.setattr(build, "cargo", lambda: None)
    with pytest.raises(Error, match="cannot be built without cargo; install Rust"):
        build.build(print)
    why = views.engines_in_rust()
    assert why is not None and "without cargo" in why
    told = Told(Gathered({"visits": STREAM}, {"visits": {"full": []}}, dict.fromkeys(RUST, why)), "visits")
    (row, *_) = rows.rates(told, [100])
    assert [name for name in row.peers if "DBSP 0.349 (absent: the engines in Rust" in name] != []


def test_a_build_is_of_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each program is built with its own engine; a failed build leaves no stamp, and edited sources are built anew."""
    monkeypatch.setattr(build, "folder", lambda: tmp_path)
    monkeypatch.setattr(build, "cargo", lambda: "cargo")
    commands: list[list[str]] = []

    def run(command: list[str | Path], log: Path, hear: object) -> None:
        commands.append([str(word) for word in command])

    monkeypatch.setattr(child, "run", run)
    assert "builds its program" in str(build.missing())
    build.build(lambda words: None)
    assert build.missing() is None
    assert [command[command.index("--bin") + 1] for command in commands] == ["dbsp", "differential"]
    assert {path.name for path in tmp_path.rglob("*.rs")} == {"lib.rs", "dbsp.rs", "differential.rs"}
    monkeypatch.setattr(build, "expected", lambda: "other sources\n")
    assert "its sources have changed" in str(build.missing())

    def failing(*arguments: object) -> None:
        raise child.Failed("error: no such crate")

    monkeypatch.setattr(child, "run", failing)
    with pytest.raises(Error, match="cargo failed: error: no such crate"):
        build.build(lambda words: None)
    assert not (tmp_path / "complete").exists()
