"""The file that says whose folder this is. Every engine, stream, operator with managed state and program of entities on
Spark has one. A bare `Query` has none.

    run.json    the format of the folder, the kind of the run, where it was written, and what it was started with

A start reads this file before it opens anything else. It refuses the folder of another run, of another version of the
kit, and a folder that was moved by hand.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as name:
...     folder = Path(name)
...     print(known(folder, "entities"))
...     write(folder, "entities", {"bins": 8})
...     check_same(folder, read(folder, "entities"), {"bins": 4})
Traceback (most recent call last):
    ...
sharedstate_lite.errors.CheckpointError: ...: the bins of this folder is 8, not 4; pass the same, or use a new folder
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import CheckpointError

FILE, FORMAT = "run.json", 7
EARLIER = ("engine.json", "managed.json", "entities.json")
"""The names of the file in earlier versions of the kit, each with a format of its own."""
RUNS = {
    "views": "an engine or a stream on Spark",
    "managed": "an operator with managed state on Spark",
    "entities": "a program of entities on Spark",
}
"""The kinds of runs."""


def write(folder: Path, run: str, about: Mapping[str, Any]) -> None:
    """Write the file of a run into ``folder``, or replace it, atomically. ``about`` has values for JSON."""
    unfinished = folder / f".{FILE}"
    with unfinished.open("w") as file:
        json.dump({**about, "format": FORMAT, "run": run, "home": str(folder)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / FILE)


def read(folder: Path, run: str) -> dict[str, Any]:
    """Return what `write` wrote, with ``home``, the path of the folder at that time.

    Raises CheckpointError if the file is missing, has another format, or belongs to another kind of run.
    """
    file = next((folder / name for name in (FILE, *EARLIER) if (folder / name).exists()), folder / FILE)
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is not the checkpoint of {RUNS[run]}: it has no {FILE}") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT or file.name != FILE:
        raise CheckpointError(
            f"{file} has format {version}, but this version of the kit reads format {FORMAT}; use the version that "
            "wrote it"
        )
    if found["run"] != run:
        raise CheckpointError(f"{folder} is the checkpoint of another run ({found['run']}), not of {RUNS[run]}")
    return dict(found)


def known(folder: Path, run: str) -> dict[str, Any] | None:
    """Return what `write` wrote for the run that continues in ``folder``, or None if the folder is empty.

    Raises CheckpointError if the folder has other files, or was moved by hand, and as `read` does.
    """
    if not any((folder / name).exists() for name in (FILE, *EARLIER)):
        if any(not each.name.startswith(".") for each in folder.iterdir()):
            raise CheckpointError(
                f"{folder} is not empty, and it is not the checkpoint of {RUNS[run]}; use a new folder"
            )
        return None
    return in_place(folder, run)


def in_place(folder: Path, run: str) -> dict[str, Any]:
    """Return what `write` wrote in this folder. Raises CheckpointError for a copy and a folder that was moved."""
    found = read(folder, run)
    if found["home"] != str(folder):
        raise CheckpointError(
            f"{folder}: this checkpoint was written in {found['home']}, and Spark's files in it contain that path. If "
            "it was moved here, move it back. If engine.checkpoint(path) wrote it, it is a copy, which never changes: "
            "start an engine from it with ss.spark.restore(path)"
        )
    return found


def check_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise CheckpointError if a value in ``wanted`` differs from the one in ``found``, which `known` has returned."""
    for name, value in wanted.items():
        if found.get(name) != value:
            raise CheckpointError(
                f"{folder}: the {name} of this folder is {found.get(name)}, not {value}; pass the same, or use a new "
                "folder"
            )
