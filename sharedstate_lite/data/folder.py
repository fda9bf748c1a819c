"""The folder of a shop: writing it, reading it epoch by epoch, and checking it against its manifest.

    out/manifest.json                        parameters and columns; rows, retractions and checksum of each file
    out/info/epoch=00001/part.parquet        product, category, diff
    out/visit/epoch=00001/part.parquet       product, user, length, diff

There is one file per relation and epoch, even if it is empty. Spark's file source reads files in the order of their
modification times. If several files have the same time, it can read them in any order. The files of an epoch therefore
get a time two seconds later than the files of the epoch before. Copying a folder can lose these times; `stamp_all` sets
them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ..errors import Error
from .files import checked_path
from .rows import ARROW, RELATIONS

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

FORMAT = "sharedstate-lite shop, 1"
STEP_SECONDS = 2
"""Seconds between the files of two epochs. Some file systems store times only in steps of two seconds."""

_MANIFEST = "manifest.json"


def part(folder: Path, relation: str, epoch: int) -> Path:
    """Return the path of the file with a relation's changes in an epoch."""
    return folder / relation / f"epoch={epoch:05d}" / "part.parquet"


def epochs(folder: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield each epoch of a generated folder: (epoch, {relation: Arrow table with ``diff``}).

    You can pass the tables of an epoch to ``step``. Only one epoch at a time is in memory. Every file is compared with
    the manifest. Raises Error at the call if a file was added, and at its epoch if a file is missing or was changed.
    The error names the file.
    """
    root = checked_path(folder)
    manifest = read(root)
    _refuse_added(root, manifest)
    return ((entry["epoch"], {r: _read(root, r, entry) for r in RELATIONS}) for entry in manifest["epochs"])


def check(folder: Path) -> dict[str, Any]:
    """Compare every file with the manifest, check the modification times, and return the manifest.

    Raises Error, which names the first file that is missing, changed or added, or whose time is out of order.
    """
    manifest = read(folder)
    latest = 0.0
    for entry in manifest["epochs"]:
        files = [part(folder, relation, entry["epoch"]) for relation in RELATIONS]
        for relation in RELATIONS:
            _read(folder, relation, entry)
        times = [file.stat().st_mtime for file in files]
        if min(times) <= latest:
            raise Error(
                f"{files[0]}: the modification time is not later than that of the previous epoch, so a stream could "
                "read the file too early. Run sharedstate data check FOLDER --stamp to set the times again."
            )
        latest = max(times)
    _refuse_added(folder, manifest)
    return manifest


def _refuse_added(root: Path, manifest: Mapping[str, Any]) -> None:
    known = {part(root, relation, entry["epoch"]) for entry in manifest["epochs"] for relation in RELATIONS}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path not in known and path != root / _MANIFEST:
            raise Error(
                f"{path}: this file is not in the manifest, but a stream would read it. Move it out of the folder."
            )


def stamp(folder: Path, epoch: int, count: int, now: float) -> None:
    """Set the modification times of one epoch's files.

    The files of the last epoch, ``count``, get the time ``now``, and the files of earlier epochs get earlier times.
    """
    at = int(now) - STEP_SECONDS * (count - epoch)
    for relation in RELATIONS:
        file = part(folder, relation, epoch)
        try:
            os.utime(file, (at, at))
        except OSError as error:
            # The error from os.utime does not contain the file name.
            raise OSError(error.errno, error.strerror, str(file)) from error


def stamp_all(folder: Path) -> None:
    """Set the modification times of all files, for example after a copy that did not preserve them."""
    now = time.time()
    numbers = [entry["epoch"] for entry in read(folder)["epochs"]]
    try:
        for epoch in numbers:
            stamp(folder, epoch, len(numbers), now)
    except FileNotFoundError as error:
        raise Error(f"{error.filename}: the file is in the manifest but missing. Generate the folder again.") from error
    except OSError as error:
        raise Error(
            f"{error.filename}: the modification time cannot be set ({error.strerror}). Copy the folder, and run "
            "the command on the copy."
        ) from error


def write(root: Path, relation: str, epoch: int, rows: pa.Table) -> dict[str, Any]:
    """Write one file atomically. Returns its entry for the manifest: rows, retractions and checksum."""
    target = part(root, relation, epoch)
    # Without parents=True, this fails if the root was removed in the meantime.
    target.parent.mkdir(exist_ok=True)
    unfinished = target.with_name(".unfinished")
    pyarrow.parquet.write_table(rows, unfinished)
    unfinished.replace(target)
    retractions = pc.sum(pc.less(rows["diff"], 0)).as_py() or 0
    return {"rows": rows.num_rows, "retractions": retractions, "checksum": checksum(rows)}


def conclude(root: Path, parameters: Mapping[str, Any], files: list[tuple[int, str, dict[str, Any]]]) -> dict[str, Any]:
    """Write the manifest and return it. ``files`` contains the epoch, relation and entry of every file."""
    entries: dict[int, dict[str, Any]] = {}
    for epoch, relation, said in sorted(files, key=lambda file: file[:2]):
        entries.setdefault(epoch, {"epoch": epoch})[relation] = said
    manifest = {
        "format": FORMAT,
        "parameters": dict(parameters),
        "relations": {name: {field.name: str(field.type) for field in ARROW[name]} for name in RELATIONS},
        **_sums(list(entries.values())),
        "epochs": list(entries.values()),
    }
    unfinished = root / f".{_MANIFEST}"
    unfinished.write_text(json.dumps(manifest, indent=1) + "\n")
    unfinished.replace(root / _MANIFEST)
    return manifest


def _sums(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each relation's total rows and retractions over all epochs, and one checksum for all files."""
    whole = hashlib.blake2b(digest_size=16)
    for entry in entries:
        for relation in RELATIONS:
            whole.update(bytes.fromhex(entry[relation]["checksum"]))
    counts = ("rows", "retractions")
    totals = {name: {count: sum(entry[name][count] for entry in entries) for count in counts} for name in RELATIONS}
    return {"totals": totals, "checksum": whole.hexdigest()}


def read(root: Path) -> dict[str, Any]:
    """Return the manifest of a generated folder. Raises Error if it is missing, damaged or in another format."""
    path = root / _MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise Error(f"{root}: the folder has no {_MANIFEST}. Generate one with sharedstate data make.") from error
    except NotADirectoryError as error:
        raise Error(f"{root}: this is a file. Pass the folder that contains {_MANIFEST}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path}: the file cannot be read ({error}). Generate the folder again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Error(f"{path}: the format is not {FORMAT!r}. Generate the folder again.")
    try:
        sums = _sums(manifest["epochs"])
        numbers = [entry["epoch"] for entry in manifest["epochs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Error(f"{path}: the file was changed ({error!r}). Generate the folder again.") from error
    # Readers compare each file with its entry. Here, the entries are compared with the totals.
    if numbers != list(range(1, len(numbers) + 1)) or any(manifest.get(name) != sums[name] for name in sums):
        raise Error(f"{path}: the epochs do not match the totals. Generate the folder again.")
    return manifest


def checksum(rows: pa.Table) -> str:
    """Return a hash of the values in their order, as 32 hex digits. It does not depend on chunks or the file format."""
    out = hashlib.blake2b(digest_size=16)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        out.update(f"{name} {column.type} {len(column)};".encode())
        if not pa.types.is_string(column.type):
            out.update(pc.fill_null(column.cast(pa.int64()), -(2**63)).to_numpy().astype("<i8").tobytes())
            continue
        out.update(pc.fill_null(pc.binary_length(column), -1).to_numpy().astype("<i4").tobytes())
        for chunk in column.chunks:
            _, offsets, text = cast(list[Any], chunk.buffers())
            if text is not None and len(chunk):
                ends = np.frombuffer(offsets, dtype=np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
                out.update(memoryview(text)[ends[0] : ends[-1]])
    return out.hexdigest()


def _read(root: Path, relation: str, entry: Mapping[str, Any]) -> pa.Table:
    path = part(root, relation, entry["epoch"])
    try:
        # read_table would add a column for the folder epoch=N.
        rows = pyarrow.parquet.ParquetFile(path).read()
    except FileNotFoundError as error:
        raise Error(f"{path}: the file is in the manifest but missing. Generate the folder again.") from error
    except (OSError, pa.ArrowException) as error:
        raise Error(
            f"{path}: the file cannot be read ({str(error).splitlines()[0]}). Generate the folder again."
        ) from error
    if rows.num_rows != entry[relation]["rows"]:
        raise Error(
            f"{path}: the file has {rows.num_rows} rows instead of {entry[relation]['rows']}. "
            "Generate the folder again."
        )
    if rows.schema != ARROW[relation] or checksum(rows) != entry[relation]["checksum"]:
        raise Error(f"{path}: the rows differ from the manifest. Generate the folder again.")
    return rows
