"""The example in a terminal."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sharedstate_lite as ss
from sharedstate_lite import data
from sharedstate_lite.lessons import demo

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def printed() -> str:
    """The printed text without colour."""
    text, status = demo.report(demo.Style(False))
    assert status == 0
    return text


def test_rows_are_the_seed_s() -> None:
    """The nine messages are the rows of the data's two tables, in order."""
    tables = data.seed()
    assert [(n, tuple(r)) for n, t in tables.items() for r in t.values.tolist()] == demo.MESSAGES
    assert demo.SCHEMA == data.SCHEMA


def test_fits_a_terminal(printed: str) -> None:
    """Plain ASCII, at most 80 columns, no trailing blanks, no escape sequences."""
    assert printed.isascii() and "\x1b" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert all(line == line.rstrip() for line in printed.splitlines())


def test_every_message_is_told(printed: str) -> None:
    """Each strategy prints each message, what it emits, the answer and the stored rows."""
    for text in ("FULL STATE", "SHARED STATE", "PARTIAL STATE"):
        part = printed[printed.index(text) :].split("\n\n")[0]
        assert all(re.search(rf"^{relation} {row[0]} {row[1]}", part, re.M) for relation, row in demo.MESSAGES)
    assert printed.count("Vegetable -U 50 +U 60") == 3
    assert re.search(r"^visit Potato Eve 60 +Vegetable -U 50 \+U 60 +40 +60 +9 +16 +0$", printed, re.M)


def test_partial_keeps_nothing_until_asked() -> None:
    """Before a read nothing is cached and joined changes are dropped; each read fills its key. info has two indexes."""
    told = demo.run("partial")
    first = next(i for i, line in enumerate(told.lines) if line.read)
    assert [line.rows for line in told.lines[:first]] == [
        {"durable": n, "working": n + min(n, 4), "cached": 0} for n in range(1, 9)
    ]
    assert sum(line.dropped for line in told.lines[:first]) == 4
    assert (told.last.rows["cached"], told.last.answer) == (2, {"Fruit": "hole", "Vegetable": "60"})
    assert told.lines[-1].answer == {"Fruit": "40", "Vegetable": "60"}


def test_the_bill_is_the_engines(printed: str) -> None:
    """The last table has the three columns of each engine's bill, in rows and bytes, by one rule for all."""
    runs = {kind: demo.run(kind).last for kind in ss.KINDS}
    assert [list(run.rows.values()) for run in runs.values()] == [[9, 16, 0], [9, 16, 0], [9, 13, 2]]
    for kind, name in [("full", "full"), ("shared", "shared"), ("partial", "partial, Vegetable read")]:
        with ss.engine(kind, [demo.view()]) as engine:
            for relation, row in demo.MESSAGES:
                engine.step({relation: [(row, +1)]})
            engine.read("result", key="Vegetable")
            bill = engine.bill().head(3)[["rows", "bytes"]].to_numpy().ravel()
        assert re.search(rf"^{name} +{' +'.join(map(str, bill))}$", printed, re.M)


def test_sentences_count_the_working_state(printed: str) -> None:
    """What the sentences say of the operators adds up to the working state."""
    full, shared = (demo.run(kind).last for kind in ("full", "shared"))
    assert sum(map(full.of, ("join", "aggregate", "reader"))) == full.rows["working"]
    assert "16 rows: 9 in the join" in printed and "16 rows. 9 of them are the durable inputs" in printed
    assert "13 rows. 9 of them are the durable inputs, the other 4 an index" in re.sub(r"\s+", " ", printed)
    assert shared.rows["working"] - shared.of("arrangement") - shared.of("reader") == shared.rows["durable"]


def test_a_wrong_engine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a strategy disagrees with DuckDB, the example names it and exits with status 1."""
    whole = demo.run

    def wrong(kind: str) -> demo.DemoRun:
        told = whole(kind)
        return demo.DemoRun(kind, told.lines, told.final.head(1) if kind == "shared" else told.final)

    monkeypatch.setattr(demo, "run", wrong)
    text, status = demo.report(demo.Style(False))
    assert status == 1 and "WRONG  shared" in text


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour only on a terminal that supports it, and without NO_COLOR."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert demo.Style.of(Terminal()).on and not demo.Style.of(io.StringIO()).on
    plain, coloured = (demo.report(demo.Style(on))[0] for on in (False, True))
    assert "\x1b[" in coloured and re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert not demo.Style.of(Terminal()).on
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not demo.Style.of(Terminal()).on


def test_runs_as_a_command_without_java() -> None:
    """The command needs neither Java nor PySpark, and writes nothing to standard error."""
    code = "import sys; sys.modules['pyspark'] = None; from sharedstate_lite.lessons import demo; sys.exit(demo.main())"
    settings = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "") and "FULL STATE" in done.stdout


def test_a_closed_pipe_is_no_traceback() -> None:
    """A closed output pipe ends the command without an error message."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "sharedstate_lite.lessons.demo"],
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as said:
        assert said.read() == b""
    assert process.wait() == 1
