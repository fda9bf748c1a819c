"""What students hand in, in odd encodings and shapes: `check --file` and `class` read, note and judge it alike."""

from __future__ import annotations

import ast
import codecs
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from classes import CHECKS, RIGHT, SMALL, WRONG, Teacher
from uploads import BOOK, REFUSED, TAKEN, Tree, packed, written

from grader.classroom.results import sentence
from grader.lab.source import CODECS, look, read, runs_later
from grader.student.command import main

UMLAUT = f'"""Größe, naïve, 5 €."""\n{RIGHT}'
PLAIN = f'"""Größe, naïve."""\n{RIGHT}'
GUESS = "and was read as Windows-1252: save it as UTF-8"


def real(tree: Tree) -> Tree:
    """Return a tree in which the file that is to be taken, and a notebook, is right, and any other text is wrong."""
    code: dict[object, str | bytes] = {"yes": RIGHT, BOOK: notebook(RIGHT), "1": WRONG, "2": SMALL, "no": WRONG}
    return {name: real(one) if isinstance(one, dict) else code.get(one, one) for name, one in tree.items()}


def cookie(name: str, text: str = PLAIN, line: str = "# -*- coding: {} -*-\n") -> str:
    """A text with a coding cookie."""
    return line.format(name) + text


def notebook(*sources: str, kind: str = "code") -> bytes:
    """A notebook of these cells."""
    cells = [{"cell_type": kind, "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}, ensure_ascii=False).encode()


UPLOADS: dict[str, tuple[str, bytes]] = {
    "utf-8": ("solution.py", UMLAUT.encode()),
    "bom": ("solution.py", codecs.BOM_UTF8 + UMLAUT.encode()),
    "bom-and-other-cookie": ("solution.py", codecs.BOM_UTF8 + cookie("latin-1", UMLAUT).encode()),
    "utf-16": ("solution.py", UMLAUT.encode("utf-16")),
    "utf-16-big": ("solution.py", codecs.BOM_UTF16_BE + UMLAUT.encode("utf-16-be")),
    "utf-16-cookie": ("solution.py", cookie("utf-16", UMLAUT).encode("utf-16")),
    "latin-1": ("solution.py", PLAIN.encode("latin-1")),
    "latin-1-cookie": ("solution.py", cookie("latin-1").encode("latin-1")),
    "latin-1-second-line": ("solution.py", b"#!/usr/bin/python3\r\n" + cookie("iso-8859-15").encode("latin-1")),
    "latin-1-emacs": ("solution.py", cookie("latin-1-unix").encode("latin-1")),
    "cp1252": ("solution.py", UMLAUT.encode("cp1252")),
    "unknown-cookie": ("solution.py", cookie("no-such", UMLAUT).encode()),
    "wrong-cookie": ("solution.py", cookie("utf-8").encode("latin-1")),
    "undefined-byte": ("solution.py", f"# \x81\n{RIGHT}".encode("latin-1")),
    "utf-16-odd": ("solution.py", UMLAUT.encode("utf-16") + b"x"),
    "nulls": ("solution.py", RIGHT.encode("utf-16-le")),
    "empty": ("solution.py", b""),
    "wrong": ("solution.py", WRONG.encode()),
    "syntax": ("solution.py", b"def double(x)\n    return x\n"),
    "notebook": ("lab.ipynb", notebook("%matplotlib inline\n", UMLAUT)),
    "notebook-utf-16": ("lab.ipynb", notebook(UMLAUT).decode().encode("utf-16")),
    "no-notebook": ("lab.ipynb", b"{"),
    "zip": ("mine.zip", packed("mine.zip", {"lab/solution.py": PLAIN.encode("latin-1")})),
    "zip-of-nothing": ("mine.zip", packed("mine.zip", {"notes": "x"})),
    "two": ("mine.zip", packed("mine.zip", {"a/solution.py": RIGHT, "b/solution.py": WRONG})),
    "no-zip": ("mine.zip", b"PK\3\4"),
}
FINE = {
    *("utf-8", "bom", "bom-and-other-cookie", "utf-16", "utf-16-big", "utf-16-cookie", "latin-1", "latin-1-cookie"),
    *("latin-1-second-line", "latin-1-emacs", "cp1252", "unknown-cookie", "wrong-cookie", "undefined-byte"),
    *("notebook", "notebook-utf-16", "zip"),
}
FOLDERS = {f"folder: {case}": (tree, case in TAKEN) for case, (tree, *_) in {**TAKEN, **REFUSED}.items()}
"""What is in a folder, and whether a file of it is taken."""
GUESSED = {"latin-1", "cp1252", "wrong-cookie", "undefined-byte", "zip"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A student's copy of the tiny lab, without a solution."""
    folder = tmp_path / "student"
    folder.mkdir()
    (folder / "checks.py").write_text(CHECKS)
    about = {"title": "Doubles", "hand_in": ["solution.py"], "tasks": {"1": "double"}}
    points = {"points": {"double": 50, "words": 20}, "hidden": {"checks": 1, "points": 30}}
    (folder / "lab.json").write_text(json.dumps({**about, **points}))
    return folder


def test_check_and_class_agree(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each upload has the same outcomes, notes and words in both. What is graded is stored as UTF-8, line by line."""
    teacher, subs = Teacher(tmp_path, capsys), tmp_path / "subs"
    subs.mkdir()
    for id, (name, content) in UPLOADS.items():
        written(subs / id, {name: content})
    for id, (tree, _) in FOLDERS.items():
        written(subs / id, real(tree))
    assert teacher.grade(subs, "--names", "folder") == 1
    fine, wrong = FINE | {id for id, (_, taken) in FOLDERS.items() if taken}, {}
    for id in [*UPLOADS, *FOLDERS]:
        name, content = UPLOADS.get(id, ("", b""))
        found = teacher.result(id)
        status = main([str(copy), "--file", str(subs / id / name), "--json", "--all"])
        said = capsys.readouterr()
        if found["status"] != "graded":
            same = said.err == f"This file cannot be graded: {sentence(found)}\n" and status == 1
        else:
            checked: dict[str, Any] = json.loads(said.out)
            visible = {one["check"]: (one["outcome"], one["got"]) for one in found["checks"] if not one["hidden"]}
            if found["why"]:
                visible = {"solution.py": next(iter(visible.values()))}
            same = {one["check"]: (one["outcome"], one["got"]) for one in checked["checks"]} == visible
            same = same and checked["notes"] == found["notes"] and (status == 0) == (id in fine)
        if not same or (id in GUESSED) != any(GUESS in note for note in found["notes"]):
            wrong[id] = (found, said.out, said.err)
        source = teacher.out / "sources" / id / "solution.py"
        if id in FINE and name == "solution.py":
            lines, before = source.read_bytes().decode().splitlines(), len(re.findall(b"\n", content))
            assert len(lines) == before and ("Größe" in source.read_text() or id == "undefined-byte"), id
    assert not wrong
    assert {id for id, score in teacher.column("score").items() if score == "100"} == fine
    assert len(UPLOADS) + len(FOLDERS) >= 60
    page = (teacher.out / "submissions" / "latin-1" / "feedback.html").read_text()
    assert "solution.py is not UTF-8 (byte 6, in line 1), and was read as Windows-1252" in page


def test_the_file_in_the_folder_is_read_alike(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --file, solution.py is read in the same way. The file itself stays as it is."""
    for id in ("latin-1", "utf-16", "latin-1-cookie", "utf-8"):
        content = UPLOADS[id][1]
        (copy / "solution.py").write_bytes(content)
        assert main([str(copy)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("    note    solution.py is not UTF-8") == (id == "latin-1")
        assert (copy / "solution.py").read_bytes() == content


def test_a_file_is_named_in_the_command_that_runs_it_again(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command for one case has --file, and so has the one for all checks. A missing file is status 64."""
    (copy / "my code.py").write_text(WRONG)
    words = [str(copy), "--file", str(copy / "my code.py")]
    assert main(words) == 1
    again = f"python -m grader check --file '{copy}/my code.py'"
    assert f"    again   {again} --case double:2" in capsys.readouterr().out.splitlines()
    assert main([*words, "--case", "double:1"]) == 0
    assert capsys.readouterr().out.endswith(f"To run all checks: {again}\n")
    assert main([str(copy), "--file", str(copy / "none.py")]) == 64
    assert "none.py is missing; give what you hand in" in capsys.readouterr().err


def test_codecs_contain_ascii() -> None:
    """Each encoding that a cookie may name has the ASCII characters, and the name that Python gives it."""
    ascii = bytes(range(128))
    for name in sorted(CODECS):
        assert codecs.lookup(name).name == name and ascii.decode(name) == ascii.decode()
    for name in ("utf-7", "utf-16", "rot13", "hex", "unicode_escape", "idna"):
        assert codecs.lookup(name).name not in CODECS


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"# coding: latin-1\r\n'\xe9'", "# coding: utf-8\r\n'\xe9'"),
        (b"\n# vim: set fileencoding=cp1252 :\n'\x80'", "\n# vim: set fileencoding=utf-8 :\n'\u20ac'"),
        (b"# coding: utf8\n# coding: latin-1\n'\xc3\xa9'", "# coding: utf8\n# coding: latin-1\n'\xe9'"),
        (b"x = 1\n# coding: latin-1\n'\xc3\xa9'", "x = 1\n# coding: latin-1\n'\xe9'"),
        (b"\n\n# coding: latin-1\n'\xc3\xa9'", "\n\n# coding: latin-1\n'\xe9'"),
        (b"# coding: koi8-r\n'\xc1'", "# coding: utf-8\n'\u0430'"),
        (b"# coding: cp932\n'\x83\x5c'", "# coding: utf-8\n'\u30bd'"),
    ],
)
def test_where_a_cookie_counts(content: bytes, text: str) -> None:
    """In the first line, or in the second one after a comment or an empty line, as in PEP 263; it becomes utf-8."""
    assert read(content, "solution.py") == (text.encode(), [])
    assert ast.dump(ast.parse(content)) == ast.dump(ast.parse(text.encode()))


STUB = "def double(x):\n    raise NotImplementedError('task 1')\n\nclass Max:\n    pass\n"
LATER = {
    "type X = int": "SyntaxError: invalid syntax",
    "def f[T](x: T) -> T: return x": "SyntaxError: expected '('",
    "class Max[T]:\n    pass": "SyntaxError: invalid syntax",
    'd = {}\nx = f"{d.get("k")}"': "SyntaxError: f-string: unmatched '('",
    "x = f'{chr(10) + \"\\n\"}'": "SyntaxError: f-string expression part cannot include a backslash",
    "x = f'{f\"\\n\"}'": "SyntaxError: f-string expression part cannot include a backslash",
    "from itertools import batched": "ImportError: cannot import name 'batched' from 'itertools'",
    "import math\nx = math.sumprod([1], [2])": "AttributeError: module 'math' has no attribute 'sumprod'",
}


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        ("\ufeff \r\n", "", ["is empty"]),
        ("d\0e\0f\0", "", ["is UTF-16 without a byte order mark, or no text: save it as UTF-8"]),
        ("{\\rtf1 def double(x)}", "SyntaxError: invalid syntax", ["is RTF: a word processor has saved it"]),
        (STUB.replace("\n", "\r\n"), "", ["is the stub"]),
        (STUB.replace("raise", "return"), "", []),
        ("print(1)", "", ["defines none of double, Max"]),
        ("def doubles(x): pass\nclass Maximum: pass", "", ["defines none of double, Max"]),
        ("double = lambda x: 2 * x", "", []),
        (notebook("import math", "x = 1\nclass Max:\n    pass").decode(), "", []),
        (notebook("import math").decode(), "", ["defines none of double, Max"]),
        ("class Max: pass", "SyntaxError: invalid syntax", []),
    ],
)
def test_what_a_teacher_should_look_at(text: str, said: str, found: list[str]) -> None:
    """An empty file, RTF, the stub, and a file without any definition of the lab are named."""
    assert look(text, [said], STUB) == found
    assert look(text, [said], "") == [one for one in found if "stub" not in one and "none" not in one]


@pytest.mark.parametrize("text", LATER)
def test_what_needs_a_later_python(text: str) -> None:
    """3.11 tells by its error, and a later Python by the syntax, that code runs from 3.12 on."""
    if sys.version_info < (3, 12):
        assert look(text, [LATER[text]], "") == ["perhaps runs from Python 3.12 on"]
        with pytest.raises((SyntaxError, ImportError, AttributeError), match=re.escape(LATER[text].split(": ", 1)[1])):
            exec(text, {})
    else:
        assert look(text, [LATER[text]], "") == []
    assert runs_later(text) == (sys.version_info >= (3, 12))


@pytest.mark.parametrize(
    "text",
    [
        "x = f'{1:>{3}}' 'a'",
        "f'\\n{1}\\n'",
        "f\"{f'a'}\"",
        'f"""{"a"}"""',
        "f'{{}}' # c",
        "def f(",
        "class override: pass",
    ],
)
def test_what_runs_with_python_3_11(text: str) -> None:
    """F-strings that 3.11 runs, and what no Python runs, are not named."""
    assert not runs_later(text)


def test_problems_name_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """problems.csv names a solution in a text cell, the stub, an empty file and one that needs a later Python."""
    teacher, subs = Teacher(tmp_path, capsys), tmp_path / "subs"
    (teacher.lab / "stub.py").write_text(STUB)
    cells = [{"cell_type": "markdown", "source": RIGHT}, {"cell_type": "code", "source": "class Max: pass"}]
    handed = {
        "s01": ("lab.ipynb", json.dumps({"nbformat": 4, "cells": cells}).encode()),
        "s02": ("solution.py", STUB.encode()),
        "s03": ("solution.py", b""),
        "s04": ("solution.py", b"type Row = list\n" + RIGHT.encode()),
        "s05": ("solution.py", RIGHT.encode()),
    }
    for id, (name, content) in handed.items():
        (subs / id).mkdir(parents=True)
        (subs / id / name).write_bytes(content)
    assert teacher.grade(subs) == 0
    later = {"s04": "solution.py perhaps runs from Python 3.12 on"} if sys.version_info < (3, 12) else {}
    assert teacher.column("problem", "problems.csv") == {
        "s01": "cell 1 is text, not code, and defines double: make it a code cell",
        "s02": "solution.py is the stub",
        "s03": "solution.py is empty",
        **later,
    }
