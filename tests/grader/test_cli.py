"""Mistakes in the command line: each gets a sentence, and none has the exit status of a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import right

from grader import cli
from grader.errors import RecordError
from grader.outcomes import Verdict
from grader.record import folder, load, save
from grader.verdict import Judgement, Violation

BUILD = """\
base_url = "http://127.0.0.1:{port:shop}"
build = [["%s"]]
[[process]]
name = "shop"
command = ["sleep", "1"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file and a submission without processes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "checkout.toml").write_text("name = 'team'\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("checkout", "give either a submission or --url"),
        ("checkout nowhere", "nowhere is neither a folder nor an archive"),
        ("checkout team --phases lod", "no such phase: 'lod'; choose from contract,"),
        ("checkout team --seed -1", "--seed must be 0 or more"),
        ("checkout team --kill shop=true --restart shop=true", "--kill and --restart need --url"),
        ("checkout --url http://192.0.2.1:80 --phases load", "only with --allow-remote"),
        ("checkout --url http://127.0.0.1:1 --kill shop=true", "each NAME needs both"),
        ("checkout --url http://127.0.0.1:1 --kill shop --restart shop=true", "write NAME=COMMAND, with a different"),
        ("checkout team/checkout.toml", "give the folder that contains it"),
        ("checkout team --phases=", "no such phase: ''; choose from contract,"),
        ("checkout team --phases load,", "no such phase: ''; choose from contract,"),
        ("checkout team --report file", "choose a folder that you can write to"),
        ("checkout team --report file/out", "choose a folder that you can write to"),
        ("checkout --url https://127.0.0.1:1", "is not an http:// address; use one like"),
        ("checkout --url 127.0.0.1:8000", "is not an http:// address; use one like"),
        ("checkout --url http://127.0.0.1:99999", "Port out of range"),
        ("checkout --url http://127.0.0.1:abc", "'abc'; use an address like"),
        ("checkout --url http://127.0.0.1:1 --kill a=x --restart b=y", "a, b: each NAME needs both"),
        ("checkout --url http://127.0.0.1:1 --kill a='x", "quote words as in a shell"),
        ("checkout --url=", "is not an http:// address; use one like"),
        ("replay file", "file is not a folder"),
        ("replay nowhere", "nowhere is not a folder"),
        ("replay team --report file", "choose a folder that you can write to"),
    ],
)
def test_a_mistake_in_the_command_line_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    """Exit 64 with one sentence, and no empty report folder is left."""
    before = sorted(here.rglob("*"))
    assert cli.main(words.split()) == 64
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err, err
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(("words", "said"), [("", "required: what"), ("checkout . --quick --full", "not allowed with")])
def test_arguments_that_cannot_be_parsed_are_64(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    """argparse itself would end with 2, which is a void."""
    assert cli.main(words.split()) == 64 and said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["--rate -5", "--rate 0", "--require -1", "--require 1e3", "--timeout nan", "--ready soon"]
)
def test_an_invalid_number_is_refused(here: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    """The error names the option and the rule."""
    option, value = words.split()
    assert cli.main(["checkout", "team", *words.split()]) == 64
    assert f"argument {option}: '{value}' is not a " in capsys.readouterr().err


def test_an_address_without_a_listener_fails_with_the_reason(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report says that the address does not accept connections, instead of listing refused exchanges."""
    words = "checkout --url http://localhost:1 --phases contract --ready 0.1 --report out"
    assert cli.main(words.split()) == 1
    assert "127.0.0.1:1 does not accept connections; start the system first" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [True, False])
def test_a_fail_names_the_command_that_finds_a_short_run(
    broken: bool, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a rule was broken, and not if the system could not be built."""
    found = (Violation("", "", (), "taken_times", "load", "taken twice"),) * broken
    monkeypatch.setattr(cli, "run", lambda *words: None)
    monkeypatch.setattr(cli, "write", lambda *words: (Judgement(Verdict.FAIL, "", {}, found), "FAIL"))
    assert cli.main(["checkout", "team", "--report", str(here / "out")]) == 1
    assert ("find the shortest run: python -m grader explore team\n" in capsys.readouterr().out) is broken


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (None, "team has no checkout.toml, which lists the processes to start"),
        ("name = 'team'\n", "checkout.toml, process: at least one [[process]] table"),
        (BUILD % "false", "build: 'false' exited with 1"),
        (BUILD % "no-such-program", "build: unknown program 'no-such-program'"),
    ],
)
def test_a_submission_that_cannot_be_built_scores_0(here: Path, toml: str | None, said: str) -> None:
    """Gradescope gets a 0 with the reason."""
    (here / "team" / "checkout.toml").unlink()
    if toml is not None:
        (here / "team" / "checkout.toml").write_text(toml)
    assert cli.main(["checkout", "team", "--quick", "--report", str(here / "out")]) == 1
    graded = json.loads((here / "out" / "results.json").read_text())
    assert graded["score"] == 0 and said in graded["output"]


def test_an_error_of_the_grader_is_void(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of the grader is a void with a traceback. Python's own exit status 1 would be a fail."""
    monkeypatch.setattr(cli, "run", lambda *of: 1 / 0)
    assert cli.main(["checkout", "team", "--report", str(here / "out")]) == 2
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err and "the grader itself failed" in err
    graded = json.loads((here / "out" / "results.json").read_text())
    assert "score" not in graded and "the grader itself failed: division by zero" in graded["output"]


def test_an_incomplete_record_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted write over an earlier record leaves no record. A complete one leaves only the new record."""
    old = right(("contract",))
    old.logs["old"] = "printed by a process of the earlier run"
    save(old, tmp_path)
    write = folder.pq.write_table

    def stops(table: object, path: Path, **settings: object) -> None:
        if path.name == "users.parquet":
            raise OSError(28, "No space left on device")
        write(table, path, **settings)

    monkeypatch.setattr(folder.pq, "write_table", stops)
    with pytest.raises(OSError, match="No space"):
        save(right(("load",)), tmp_path)
    with pytest.raises(RecordError, match="does not contain a record"):
        load(tmp_path)
    monkeypatch.undo()
    save(right(("load",)), tmp_path)
    again = load(tmp_path)
    assert list(again.phases) == ["load"] and again.logs == {}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("run.json", b'{"record": 2}', "the record is inconsistent (KeyError: 'asked')"),
        ("run.json", b'{"record": 2, "asked": ["load"], "phases": []}', "the record is inconsistent (AttributeError: "),
        ("run.json", b'{"record": 2, "asked": ["lo', "does not contain a record"),
        ("history.parquet", b"PAR1", "history.parquet cannot be read"),
        ("snapshots.parquet", None, "snapshots.parquet cannot be read (it is missing)"),
        ("exchanges.json", None, "does not contain a record"),
    ],
)
def test_a_damaged_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: bytes | None, said: str
) -> None:
    """A replay of a damaged record exits with 64 and the reason, and leaves the earlier reports."""
    save(right(), tmp_path)
    (tmp_path / file).unlink() if content is None else (tmp_path / file).write_bytes(content)
    before = {path.name for path in tmp_path.iterdir()}
    assert cli.main(["replay", str(tmp_path)]) == 64
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err, err
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_log_with_invalid_bytes_is_shown(tmp_path: Path) -> None:
    """A log with invalid UTF-8 does not stop the judgement."""
    save(right(), tmp_path)
    (tmp_path / "logs" / "shop.txt").write_bytes(b"\xff\xfe said")
    assert load(tmp_path).logs["shop"].endswith(" said")
