"""Which file of an upload is graded, whatever browsers and packers have made of it, and rosters of spreadsheets."""

from __future__ import annotations

from pathlib import Path

import pytest
from uploads import REFUSED, TAKEN, Tree, written

from grader.classroom.checkout import system
from grader.classroom.roster import read_roster, read_table
from grader.errors import SubmissionError
from grader.submission.upload import as_handed, choose


@pytest.mark.parametrize("case", TAKEN)
def test_the_file_that_is_taken(tmp_path: Path, case: str) -> None:
    """One file is taken if there is no doubt, and the note says so if its name is another one."""
    tree, content, note = TAKEN[case]
    got = choose([("", written(tmp_path / "handed in", tree))], "solution.py", tmp_path / "scratch")
    assert (got.path.read_text(), got.note.startswith(note), bool(got.note)) == (content, True, bool(note))


@pytest.mark.parametrize("case", REFUSED)
def test_an_upload_without_such_a_file(tmp_path: Path, case: str) -> None:
    """The reason and what mends it. No advice renames an archive."""
    tree, kind, said = REFUSED[case]
    with pytest.raises(SubmissionError) as raised:
        choose([("", written(tmp_path / "handed in", tree))], "solution.py", tmp_path / "scratch")
    assert type(raised.value) is kind and said in str(raised.value)
    assert not list((tmp_path / "scratch").glob("*/*/lib"))


def test_files_that_an_lms_renames(tmp_path: Path) -> None:
    """A single .py file may have any name, in any case. Other single files are what their names say."""
    for name, handed in (("s1.py", "solution.py"), ("S1.PY", "solution.py"), ("s1.zip", "s1.zip")):
        (tmp_path / name).touch()
        assert as_handed(tmp_path / name, ["solution.py"]) == [(handed, tmp_path / name)]


def test_a_system_in_an_archive_in_an_archive(tmp_path: Path) -> None:
    """The checkout's archives are opened likewise: one that was handed in, and one in it, with suffixes in any case."""
    inner: Tree = {"Shop.ZIP": {"shop/checkout.toml": "x"}}
    folder = written(tmp_path / "handed in", {"Ours.ZIP": inner})
    for number, given in enumerate((folder, folder / "Ours.ZIP")):
        (tmp_path / str(number)).mkdir()
        assert (system([("", given)], tmp_path / str(number)) / "checkout.toml").read_text() == "x"


STUDENTS = [("s0001", "Student \u00e91", "red", "1000001"), ("s0002", 'Student "2", x', "", "1000002")]
ROSTERS = {
    "English": (",", "utf-8", ("id", "name", "team", "lms_id")),
    "English, UTF-8": (",", "utf-8-sig", ("ID", "Name", "Team", "LMS_ID")),
    "German": (";", "cp1252", ("ID", "Name", "Team", "lms_id")),
    "German, UTF-8": (";", "utf-8-sig", ("id", "name", "team", "lms_id")),
    "Dutch": (";", "cp1252", ("Id", "NAME", "team", "Lms_Id")),
    "Dutch, with tabs": ("\t", "cp1252", ("id", "name", "team", "lms_id")),
    "French": (";", "cp1252", (" id", "name ", " team", " lms_id ")),
    "French, Unicode text": ("\t", "utf-16", ("ID", "Name", "Team", "LMS_ID")),
}


@pytest.mark.parametrize("setting", ROSTERS)
def test_rosters_and_adjustments_of_spreadsheets(tmp_path: Path, setting: str) -> None:
    """Delimiters, encodings, capitals, spaces and empty rows are read as spreadsheets write them."""
    delimiter, encoding, header = ROSTERS[setting]

    def csv(*rows: tuple[str, ...]) -> bytes:
        cells = [
            [f'"{cell.replace(chr(34), chr(34) * 2)}"' if set(cell) & set('",;') else cell for cell in row]
            for row in rows
        ]
        return "".join(f"{delimiter.join(row)}\r\n" for row in cells).encode(encoding)

    (tmp_path / "roster.csv").write_bytes(csv(header, *STUDENTS, ("", "", "", "")))
    got, wrong = read_roster(tmp_path / "roster.csv")
    assert wrong == []
    assert [(one.id, one.name, one.team, one.lms_id) for one in got.values()] == STUDENTS
    names = ("id", "lab", "points", "reason")
    (tmp_path / "adjust.csv").write_bytes(
        csv(("ID", "Lab", " Points", "Reason"), ("s0001", "1", "-2,5", "\u00e9t\u00e9"))
    )
    rows = [(2, dict(zip(names, ("s0001", "1", "-2,5", "\u00e9t\u00e9"), strict=True)))]
    assert read_table(tmp_path / "adjust.csv", names, "") == rows


@pytest.mark.parametrize(
    ("ids", "doubt"),
    [
        (["1E+06", "1000002"], "the id '1E+06' is a number that a spreadsheet has rounded or changed"),
        (["1,23E+06", "1000002"], "the id '1,23E+06' is a number"),
        (["1000001.0", "1000002"], "the id '1000001.0' is a number"),
        (["1234567890123450", "1"], "the id '1234567890123450' has 16 digits, and a spreadsheet keeps only 15"),
        (["12345", "0012346", "0012347"], "the id '12345' is shorter than the others"),
        (["999", "1000", "10001"], ""),
        (["s1", "s22", "s333"], ""),
        (["123456789012345", "1234567"], ""),
    ],
)
def test_ids_that_a_spreadsheet_has_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ids: list[str], doubt: str
) -> None:
    """They are named with file and line, and the roster is used; others are not named."""
    (tmp_path / "roster.csv").write_text("id;name\n" + "".join(f"{id};Student\n" for id in ids))
    got, wrong = read_roster(tmp_path / "roster.csv")
    assert wrong == []
    assert list(got) == ids
    told = capsys.readouterr().err
    assert [bool(one.doubt) for one in got.values()] == [bool(doubt), *[False] * (len(ids) - 1)]
    assert not doubt and not told or f"roster.csv, line 2: {doubt}" in told
