"""Which file of an upload is graded, whatever browsers and packers have made of it, and rosters of spreadsheets."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from grader.classroom.checkout import system
from grader.classroom.roster import read_roster, read_table
from grader.errors import SubmissionError
from grader.submission.upload import AmbiguousError, as_handed, choose

Tree = dict[str, "bytes | str | Tree"]
"""A folder or, if the name ends so, an archive: contents by name."""


def packed(name: str, tree: Tree) -> bytes:
    """The bytes of an archive."""
    made = io.BytesIO()
    contents = {inner: one if isinstance(one, bytes) else _bytes(inner, one) for inner, one in tree.items()}
    if ".zip" in name.lower():
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as zipped:
            for inner, content in contents.items():
                zipped.writestr(inner, content)
    else:
        with tarfile.open(fileobj=made, mode="w:gz") as tarred:
            for inner, content in contents.items():
                member = tarfile.TarInfo(inner)
                member.size = len(content)
                tarred.addfile(member, io.BytesIO(content))
    return made.getvalue()


def _bytes(name: str, one: str | Tree) -> bytes:
    return one.encode() if isinstance(one, str) else packed(name, one)


def written(folder: Path, tree: Tree) -> Path:
    """A folder with these files and archives."""
    folder.mkdir()
    for name, one in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(one if isinstance(one, bytes) else _bytes(name, one))
    return folder


VENV: Tree = {"venv/pyvenv.cfg": "", **{f"venv/lib/{n}.py": "" for n in range(600)}}
BOOK = '{"nbformat": 4}'
TAKEN: dict[str, tuple[Tree, str, str]] = {
    "solution.py": ({"solution.py": "yes"}, "yes", ""),
    "a copy of it": ({"solution.py": "yes", "old/solution.py": "yes"}, "yes", ""),
    "on top": ({"lab/solution.py": "yes", "lab/old/solution.py": "1", "b/c/solution.py": "2"}, "yes", "There are 3"),
    "before variants": ({"solution.py": "yes", "solution (1).py": "no", "main.py": "no", "a.ipynb": BOOK}, "yes", ""),
    "case": ({"Solution.PY": "yes", "main.py": "no"}, "yes", "Solution.PY was taken as solution.py."),
    "browser": ({"solution (1).py": "yes"}, "yes", "solution (1).py was taken"),
    "upload": ({"solution-1.py": "yes"}, "yes", "solution-1.py was taken"),
    "hidden suffix": ({"solution.py.txt": "yes"}, "yes", "solution.py.txt was taken"),
    "the only one": ({"lab1_x.py": "yes", "notes.txt": ""}, "yes", "The only Python file was taken as"),
    "the only one as text": ({"lab1.py.txt": "yes"}, "yes", "The only Python file"),
    "beside the handout": ({"my.py": "yes", "checks.py": "", "grader/lab/b.py": ""}, "yes", "The only"),
    "the only notebook": ({"my.IPYNB": BOOK, "checks.py": ""}, BOOK, ""),
    "a zip": ({"Lab1.ZIP": {"a/b/solution.py": "yes"}}, "yes", ""),
    "a tar": ({"lab1.tar.gz": {"a/solution.py": "yes"}}, "yes", ""),
    "a zip in a zip": ({"a.zip": {"x/b.zip": {"solution.py": "yes"}}}, "yes", ""),
    "a zip in a tar": ({"a.tgz": {"x/b.zip": {"solution.py": "yes"}, "notes.txt": ""}}, "yes", ""),
    "beside an archive": ({"solution.py": "yes", "data.zip": b"no zip", "x.rar": b"Rar!\x1a\x07"}, "yes", ""),
    "backslashes": ({"a.zip": {"lab\\solution.py": "yes"}}, "yes", ""),
    "a colon": ({"a.zip": {"Lab 1: final/solution.py": "yes"}}, "yes", ""),
    "a virtual environment": ({"a.zip": {"solution.py": "yes", **VENV}}, "yes", ""),
    "a virtual environment in a tar": ({"a.tar.gz": {"solution.py": "yes", **VENV}}, "yes", ""),
    "inside of one": ({"a.zip": {"pyvenv.cfg": "", "solution.py": "yes", "bin/solution.py": ""}}, "yes", ""),
    "unpacked with one": ({"solution.py": "yes", **VENV, "venv/bin/solution.py": "no"}, "yes", ""),
    "caches": (
        {"a.zip": {"x.py": "yes", "__pycache__/y.py": "", **{f".git/{n}": "" for n in range(600)}}},
        "yes",
        "The only",
    ),
}  # fmt: skip
REFUSED: dict[str, tuple[Tree, type[SubmissionError], str]] = {
    "two at one depth": ({"a/solution.py": "1", "b/solution.py": "2"}, AmbiguousError, "2 different files solution.py"),
    "two variants": ({"solution (1).py": "1", "solution (2).py": "2"}, AmbiguousError, "2 different files that can be"),
    "python and notebook": ({"a.py": "1", "lab.ipynb": BOOK}, AmbiguousError, "a.py, lab.ipynb; hand in solution.py"),
    "two Python files": ({"a.py": "1", "b.py": "2"}, SubmissionError, "missing; found: a.py, b.py; hand in"),
    "nearly": ({"solutoin.py": "1", "b.py": "2"}, SubmissionError, "rename solutoin.py to solution.py"),
    "two notebooks": ({"a.ipynb": "1", "b.ipynb": "2"}, SubmissionError, "missing; found: a.ipynb, b.ipynb"),
    "nothing": ({}, SubmissionError, "missing; found: nothing; hand in solution.py"),
    "three levels": ({"a.zip": {"b.zip": {"c.zip": {"solution.py": ""}}}}, SubmissionError, "found: c.zip; hand in"),
    "RAR": ({"solution.rar": b"Rar!\x1a\x07\x01\x00"}, SubmissionError, "a RAR archive; hand in the file itself"),
    "7z as zip": ({"a.zip": b"7z\xbc\xaf\x27\x1c\0\0"}, SubmissionError, "a 7z archive; hand in the file itself"),
    "damaged": ({"a.zip": b"PK\3\4"}, SubmissionError, "the archive cannot be unpacked"),
    "too large together": (
        {"a.zip": {"zeros": bytes(15_000_000), "b.zip": {"solution.py": "", "zeros": bytes(6_000_000)}}},
        SubmissionError,
        "more than 20,000,000 bytes or 500 files",
    ),
    "too many names": (
        {"a.zip": {"venv/pyvenv.cfg": "", **{f"venv/lib/{n}": "" for n in range(20_000)}}},
        SubmissionError,
        "more than 20,000 names",
    ),
    "dots in what is left out": ({"a.zip": {".git/../../x.py": ""}}, SubmissionError, "leads out of the archive"),
}  # fmt: skip


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
    got = read_roster(tmp_path / "roster.csv")
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
    got = read_roster(tmp_path / "roster.csv")
    assert list(got) == ids
    told = capsys.readouterr().err
    assert [bool(one.doubt) for one in got.values()] == [bool(doubt), *[False] * (len(ids) - 1)]
    assert not doubt and not told or f"roster.csv, line 2: {doubt}" in told
