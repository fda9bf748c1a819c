"""Uploads of all kinds: which file is taken, and which are refused, with the reason."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from grader.errors import SubmissionError
from grader.submission.upload import AmbiguousError

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
    "far": ({"deltajoin.py": "1", "b.py": "2"}, SubmissionError, "found: b.py, deltajoin.py; hand in solution.py"),
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
