"""The text of what a student hands in. `check` and `class` read it in the same way, and run it as UTF-8.

A module may have any encoding of `CODECS` that its coding cookie names (PEP 263). Lines keep their numbers.
"""

from __future__ import annotations

import ast
import codecs
import io
import json
import re
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

from ..errors import SubmissionError

CODECS = frozenset(
    (
        *("utf-8", "ascii", "iso8859-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15"),
        *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1257", "cp437", "cp850", "cp852", "mac-roman"),
        *("koi8-r", "koi8-u", "gbk", "gb2312", "gb18030", "big5", "cp932", "euc_jp", "cp949", "euc_kr"),
    )
)
"""Encodings, as `codecs.lookup` names them, in which all bytes below 128 are ASCII."""
_GUESSED = "cp1252"
_COOKIE = re.compile(
    r"\A(\ufeff?(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))??[ \t\f]*#[^\r\n]*?coding[:=][ \t]*)([-\w.]+)", re.ASCII
)
"""What comes before the name of an encoding, in the first or the second line, and this name."""
_LATER = r"\b(?:batched|override|sumprod)\b"
"""Names in the standard library of Python 3.12 (itertools, typing, math)."""
_LATER_SYNTAX = re.compile(r"\b(?:def|class)\s+\w+\s*\[|^[ \t]*type\s+\w+(?:\[[^\]\n]*\])?\s*=", re.M)
_DEFINED = re.compile(r"^(?:async def|def|class) (\w+)", re.M)
RUNS_LATER = "runs from Python 3.12 on"


def put(content: bytes, name: str, folder: Path, wanted: str) -> list[str]:
    """Write what was handed in into a folder, as ``wanted`` or as a notebook with its stem. Return notes.

    ``name``: the name that it was handed in by. Raises SubmissionError if it ends in .ipynb and is no notebook.
    """
    if name.lower().endswith(".ipynb"):
        (folder / f"{wanted.removesuffix('.py')}.ipynb").write_bytes(notebook(content, name))
        return []
    text, notes = read(content, wanted)
    (folder / wanted).write_bytes(text)
    return notes


def read(content: bytes, name: str) -> tuple[bytes, list[str]]:
    """Return the content of a file in UTF-8, and a note if its encoding was guessed. ``name``: the file's name.

    UTF-16 needs a BOM. What is neither in the encoding of its cookie nor in UTF-8 is read as Windows-1252.
    """
    notes: list[str] = []
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16", "replace")
    else:
        cookie = _COOKIE.match(content.decode("latin-1"))
        try:
            text = content.decode(_codec(cookie[2]) if cookie is not None else "utf-8")
        except UnicodeDecodeError:
            try:
                text = content.decode()
            except UnicodeDecodeError as error:
                text = content.decode(_GUESSED, "replace")
                line = content.count(b"\n", 0, error.start) + 1
                said = f"{name} is not UTF-8 (byte {error.start + 1}, in line {line})"
                notes.append(f"{said}, and was read as Windows-1252: save it as UTF-8")
    return _COOKIE.sub(_utf_8, text).encode(), notes


def _utf_8(cookie: re.Match[str]) -> str:
    return cookie[0] if _codec(cookie[2], "") == "utf-8" else f"{cookie[1]}utf-8"


def _codec(name: str, otherwise: str = "utf-8") -> str:
    """Return the encoding that a cookie names, or ``otherwise`` if it is not one of `CODECS`."""
    plain = re.sub("-(unix|dos|mac)$", "", name.lower().replace("_", "-"))  # as editors write it
    try:
        found = codecs.lookup(plain).name.removesuffix("-sig")
    except LookupError:
        return otherwise
    return found if found in CODECS else otherwise


def notebook(content: bytes, name: str) -> bytes:
    """Return a notebook of format 4 in UTF-8. Raises SubmissionError if it is none."""
    content, _ = read(content, name)
    try:
        found = json.loads(content.decode("utf-8-sig"))
        cells, version = found.get("cells"), found.get("nbformat")
    except (ValueError, RecursionError, AttributeError) as error:
        raise SubmissionError(f"{name} is not a notebook: {error}", "save it again and hand in that") from None
    if version != 4 or type(cells) is not list:
        raise SubmissionError(f"{name} has format {version}", "open it in JupyterLab and save it in format 4")
    return content


def runs_later(text: str) -> bool:
    """Return whether a module needs a later Python than 3.11, as far as this Python can tell from its syntax.

    3.11 itself cannot tell: it refuses such a module.
    """
    if sys.version_info < (3, 12):
        return False
    try:
        ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return False  # it runs nowhere
    try:
        ast.parse(text, feature_version=(3, 11))
    except SyntaxError:
        return True
    quotes: list[str] = []
    for token in tokens:
        kind, outer = tokenize.tok_name[token.type], quotes
        if kind == "FSTRING_END":
            quotes.pop()
            continue
        if kind == "FSTRING_MIDDLE":
            outer = quotes[:-1]
        # Until 3.11, an expression in an f-string has no backslash, comment or quote of a string around it.
        if outer and (kind == "COMMENT" or any(part in token.string for part in ("\\", *outer))):
            return True
        if kind == "FSTRING_START":
            quotes.append(token.string.lstrip("fFrR"))
    return re.search(rf"\b(?:itertools|typing|math)\b.*{_LATER}", text) is not None


def look(text: str, said: Sequence[str], stub: str) -> list[str]:
    """Return why a teacher should look at a solution or notebook that probably has no points, or [].

    ``said``: what the process has said when it has read and imported it; ``stub``: what students start from, or "".
    """
    found = []
    names = _DEFINED.findall(stub)
    if not text.strip("\ufeff \t\r\n\f"):
        found.append("is empty")
    elif text.startswith("{\\rtf"):
        found.append("is RTF: a word processor has saved it")
    elif "\0" in text:
        found.append("is UTF-16 without a byte order mark, or no text: save it as UTF-8")
    elif stub and text.split() == stub.split():
        found.append("is the stub")
    elif names and not any(re.search(rf"(?:def|class)\s+{name}\b|\b{name}\s*=", text) for name in names):
        found.append(f"defines none of {', '.join(names)}")
    errors = " ".join(said)
    syntax = "SyntaxError" in errors and ("SyntaxError: f-string" in errors or _LATER_SYNTAX.search(text))
    lacks = re.search(rf"(?:cannot import name|has no attribute) '{_LATER}'", errors)
    if sys.version_info < (3, 12) and (syntax or lacks):
        found.append(f"perhaps {RUNS_LATER}")
    return found
