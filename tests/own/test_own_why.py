"""``sharedstate why`` over files: what docs/why.md shows, and what is refused in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sharedstate_lite.own.why import main

PAGE = Path(__file__).resolve().parents[2] / "docs/why.md"
VIEW = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS top FROM info JOIN visit USING (product) GROUP BY category"
)


def shop(folder: Path, sql: str = VIEW, **more: str) -> list[str]:
    """Write the files of a small shop, and return their paths."""
    files = {
        "view.sql": sql,
        "info.csv": "product,category\nPotato,Vegetable\nApple,Fruit\n",
        "visit.csv": "product,user,length,epoch\nPotato,Ann,60,1\nPotato,Eve,60,2\nApple,Bob,40,3\nApple,Zoe,,3\n",
    } | {name.replace("_", "."): text for name, text in more.items()}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in ("view.sql", "info.csv", "visit.csv")]


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files and the commands of docs/why.md, with what they print."""
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^    \$ (.*)\n((?:    (?!\$).*\n)*)", PAGE.read_text("utf-8"), re.M)
    lines = [line[4:] for line in shown[0][1].splitlines()]
    second = lines.index("product,user,length")
    Path("info.csv").write_text("\n".join(lines[:second]))
    Path("visit.csv").write_text("\n".join(lines[second:]))
    Path("view.sql").write_text(shown[1][1])
    assert len(shown) == 4
    for command, printed in shown[2:]:
        main(command.split()[2:])
        assert capsys.readouterr().out == re.sub(r"^    ", "", printed, flags=re.M)


def test_epochs_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column epoch says when rows arrive; an object has the row, epoch, reasons, and if these are all."""
    files = shop(tmp_path)
    assert main([*files, "--row", "Vegetable,60", "--at", "1", "--json"]) == 0
    reason = [["info", ["Potato", "Vegetable"], 1], ["visit", ["Potato", "Ann", 60], 1]]
    assert json.loads(capsys.readouterr().out) == {
        "row": ["Vegetable", 60],
        "epoch": 1,
        "reasons": [reason],
        "complete": True,
    }
    assert main([*files, "--row", "Vegetable,60", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["reasons"]) == 2
    assert main([*files, "--row", "Fruit,...", "--at", "2", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["there"] and ["visit", {"product": "Apple"}] in [each["asks_for"] for each in told["ended"]]


def test_a_view_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file has several views, comments, and semicolons in texts; --view names one of them."""
    sql = f"-- two; views\nCREATE VIEW few AS SELECT product FROM visit WHERE user <> 'a;b';\n{VIEW};\n"
    files = shop(tmp_path, sql)
    assert main([*files, "--row", "Fruit,40"]) == 0
    assert main([*files, "--view", "few", "--row", "Potato"]) == 0
    assert "few has (Potato) as of epoch 3: 2 reasons" in capsys.readouterr().out


def test_null_and_any_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NULL is a value; with ``...``, the rows that match are shown with their reasons."""
    sql = "CREATE VIEW seen AS SELECT product, user, length FROM visit"
    files = shop(tmp_path, sql)
    assert main([*files, "--row", "Apple,Zoe,NULL"]) == 0
    assert "seen has (Apple, Zoe, NULL) as of epoch 3: 1 reason" in capsys.readouterr().out
    assert main([*files, "--row", "Apple,Bob,NULL"]) == 1
    assert "no row of visit with product = Apple and user = Bob and length IS NULL" in capsys.readouterr().out
    assert main([*files, "--row", "NULL,...,..."]) == 1
    assert "seen has no (NULL, any, any) as of epoch 3:" in capsys.readouterr().out
    assert main([*files, "--row", "Apple,...,..."]) == 0
    first, *reasons = capsys.readouterr().out.splitlines()
    assert first == "(Apple, any, any) is there: seen has (Apple, Bob, 40), (Apple, Zoe, NULL) as of epoch 3"
    assert [line for line in reasons if line.startswith("  1  ")] == [
        "  1  visit (Apple, Bob, 40)  this one",
        "  1  visit (Apple, Zoe, NULL)  this one",
    ]
    assert main([*files, "--row", "Apple,...,...", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["row"] == ["Apple", "...", "..."] and told["there"] and told["more"] == 0
    assert [each["row"] for each in told["why"]] == told["rows"] == [["Apple", "Bob", 40], ["Apple", "Zoe", None]]
    assert told["why"][0]["reasons"] == [[["visit", ["Apple", "Bob", 40], 1]]]


@pytest.mark.parametrize(
    ("change", "row", "more", "said"),
    [
        ({}, "Fruit", [], "view result has the columns category STRING,top INT; write one value for each"),
        ({}, "Fruit,many", [], "'many' is not a value of column top INT; write one, NULL or ..."),
        ({"sql": f"CREATE VIEW few AS SELECT user FROM visit; {VIEW}"}, "Ann", [], "another view with --view: few"),
        ({"sql": "CREATE VIEW v AS SELECT user FROM loan"}, "1", [], "pass the file of each table that the views read"),
        ({}, "Fruit,1", ["--view", "none"], "there is no view named none; installed views: result"),
        ({}, "Fruit,1", ["--at", "9"], "the files have the epochs 1 to 3"),
        ({"sql": "SELECT 1"}, "1", [], "CREATE VIEW"),
        ({"sql": "-- nothing"}, "1", [], "has no view; write CREATE VIEW"),
        ({"sql": "CREATE VIEW v AS SELECT product FROM info EXCEPT SELECT product FROM visit"}, "1", [], "EXCEPT"),
        ({"visit_csv": "product,user,length,epoch\nPotato,Ann,60,soon\n"}, "Fruit,1", [], "numbers of epochs"),
        ({"visit_csv": "product,user\nPotato,Ann\n"}, "Fruit,1", [], "length"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], row: str, more: list[str], said: str
) -> None:
    """One line says what was wrong; the exit status is 2."""
    assert main([*shop(tmp_path, **change), "--row", row, *more]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and not printed.out and printed.err.count("\n") == 1


def test_files_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, and two files of one name."""
    files = shop(tmp_path)
    for given in ([str(tmp_path / "none.sql"), files[1]], [files[0], str(tmp_path / "none.csv")], [*files, files[1]]):
        assert main([*given, "--row", "1"]) == 2
        assert capsys.readouterr().err.startswith("sharedstate why: ")
