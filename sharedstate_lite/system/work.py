"""The learner's folder ``work/``: the files in it that remember something, and the exercises as they were delivered.

    notebooks/, labs/    the learner's copies, which `doctor.copies` makes and keeps up to date
    answers/             the answers to predictions (`answers`)
    .delivered.json      which version of each lesson was copied; this file also marks the folder

Git ignores the folder. To take your work to another computer or checkout, copy the whole folder into it.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from ..errors import Error
from .cache import checkout
from .notes import note

RECORD = ".delivered.json"
EXERCISE = "write-it"
"""The tag of a cell that contains an exercise."""


def work_folder(start: Path | None = None) -> Path | None:
    """Return the learner's folder that contains ``start`` (default: the current folder), or None."""
    here = (start or Path.cwd()).absolute()
    return next((each for each in (here, *here.parents) if (each / RECORD).is_file()), None)


def read_record(file: Path) -> dict[str, Any]:
    """Return the dict in a JSON file, or an empty one if there is no such file.

    A damaged file is renamed, and a note says so in one line.
    """
    try:
        found = json.loads(file.read_bytes())
        if isinstance(found, dict):
            return found
        reason = "it is not a JSON object"
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        reason = str(error)
    aside = file.with_name(f"{file.stem}.damaged-{secrets.token_hex(3)}{file.suffix}")
    file.rename(aside)
    note(f"{file} is damaged ({reason}), so it was renamed to {aside.name}; a new one is started")
    return {}


def write_record(file: Path, record: dict[str, Any]) -> None:
    """Write a dict as JSON, atomically: the file has either its old or its new contents. Raises OSError."""
    replace(file, json.dumps(record, indent=1, sort_keys=True).encode())


def replace(file: Path, data: bytes) -> None:
    """Write a file and its folder atomically. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}-{secrets.token_hex(3)}")
    try:
        with unfinished.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def cells(notebook: bytes) -> list[dict[str, Any]]:
    """Return the cells of a notebook's file, each with its source as one text. Raises ValueError if it is damaged."""
    try:
        found: list[dict[str, Any]] = json.loads(notebook)["cells"]
        return [each | {"source": "".join(each["source"])} for each in found]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no notebook: {error!r}") from error


def delivered(lesson: str | None = None, name: str = "") -> str:
    """Return the code of a lesson's exercise as it was delivered, such as ``delivered("03b")``.

    Without ``lesson``, the lesson is that of the notebook that JupyterLab runs. ``name`` is the exercise's function or
    class, if a lesson has two exercises. Raises Error if there is no such exercise.
    """
    given = Path(os.environ.get("JPY_SESSION_NAME", "") if lesson is None else lesson).name
    number = given.partition("-")[0].removesuffix(".ipynb")
    found = sorted(((checkout() or Path.cwd()) / "notebooks").glob(f"{number}-*.ipynb")) if number.isalnum() else []
    if not found:
        raise Error(f"there is no lesson {given or '(unknown)'}; pass its number, as in delivered('03b')")
    codes: list[str] = [
        each["source"] for each in cells(found[0].read_bytes()) if EXERCISE in each["metadata"].get("tags", ())
    ]
    codes = [code for code in codes if re.search(rf"^(async def|def|class) {re.escape(name) or r'.*'}\b", code, re.M)]
    if len(codes) != 1:
        raise Error(f"lesson {number} has {len(codes)} exercises {name}".rstrip() + "; pass the name of one exercise")
    return codes[0]


def put_back(lesson: str | None = None, name: str = "") -> None:
    """Replace the notebook's cell that calls this by the delivered exercise; see `delivered` for the arguments.

    Raises Error outside a notebook, and if there is no such exercise.
    """
    code = delivered(lesson, name)
    shell = getattr(builtins, "get_ipython", lambda: None)()  # IPython sets this name while a cell runs
    if shell is None:
        raise Error("put_back() replaces a cell of a notebook; elsewhere, use delivered(), which returns the code")
    shell.set_next_input(code, replace=True)


__all__ = ["cells", "delivered", "put_back", "read_record", "replace", "work_folder", "write_record"]
