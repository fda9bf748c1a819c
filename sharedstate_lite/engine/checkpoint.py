"""Checkpoints: the state of an engine in a folder, written atomically.

    manifest.json    the format, the strategy, its options, the catalog, the SQL of the views, and the epoch; for each
                     part its file, its number of rows and its SHA-256
    NNNN.arrow       one part: the consolidated rows of an arrangement, or a set of filled keys

A checkpoint contains state but not history, so rows that were inserted and then deleted do not appear in it. Before an
engine is restored, the checksum of every part is verified. Trace handles and earlier epochs are not saved, so ``since``
of a restored engine is its epoch.

Source: the consistent snapshots of Carbone et al., State management in Apache Flink, VLDB 2017, for a single process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from ..changelog import convert
from ..errors import CheckpointError, Error, shorten
from ..plan.nodes import Column, Type
from ..plan.view import View
from ..sql.catalog import Catalog
from ..storage.batch import Layout, merged
from ..storage.encoding import Dictionary, DictionaryRef, Words
from ..system.folders import atomic_folder
from .catalog_text import catalog_text, read_catalog

if TYPE_CHECKING:
    from ..storage.arrangement import Arrangement

FORMAT = 3
"""The format of the checkpoints that this version writes and reads."""


class CheckpointedEngine(Protocol):
    """The part of an engine that a checkpoint reads, and that it fills when an engine is restored."""

    kind: str
    epoch: int
    catalog: Catalog
    views: dict[str, View]
    dictionary: DictionaryRef

    def settings(self) -> dict[str, Any]: ...
    def parts(self) -> dict[str, Arrangement]: ...
    def filled_sets(self) -> dict[str, Any]: ...
    def resume_at(self, epoch: int) -> None: ...


Restored = TypeVar("Restored", bound=CheckpointedEngine)


def checked_path(path: Any) -> Path:
    """Return ``path`` as a Path. It does not have to exist. Raises CheckpointError if it cannot be used as a path."""
    try:
        Path(path).stat()
    except FileNotFoundError:
        pass
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"{shorten(path)} is not a path for a checkpoint ({reason}); pass the path of a folder"
        ) from error
    return Path(path)


def write(engine: CheckpointedEngine, path: Path) -> None:
    """Write a checkpoint of ``engine`` to ``path``, a folder that is new or empty. Raises CheckpointError."""
    if engine.catalog is None:
        raise CheckpointError(
            "an engine without a catalog cannot write a checkpoint; create its views with catalog.view(...)"
        )
    with atomic_folder(path) as work:
        parts = {}
        for number, (name, table) in enumerate(_tables(engine)):
            file = f"{number:04d}.arrow"
            parts[name] = {"file": file, "rows": table.num_rows, "sha256": _save(table, work / file)}
        manifest = {
            "format": FORMAT,
            "strategy": engine.kind,
            "epoch": engine.epoch,
            **catalog_text(engine),
            "engine": engine.settings(),
            "parts": parts,
        }
        text = json.dumps(manifest, indent=1, sort_keys=True)
        (work / "manifest.json").write_text(
            json.dumps({"sha256": _digest(text.encode()), "manifest": manifest}, indent=1)
        )


def read(path: str | Path, make: Callable[..., Restored]) -> Restored:
    """Restore the engine whose checkpoint is in ``path``. ``make`` builds it from the strategy, the views and options.

    Raises CheckpointError if a part is missing or altered, or if this version cannot read the checkpoint.
    """
    place = checked_path(path)
    manifest = _manifest(place)
    try:
        tables = {name: _load(place, name, part) for name, part in manifest["parts"].items()}
        engine = make(
            manifest["strategy"],
            read_catalog(manifest)[1],
            **manifest["engine"]["options"],
            _like=manifest["engine"],
        )
        _fill(engine, tables, manifest["epoch"])
    except CheckpointError:
        raise
    except (Error, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{place}: this version of the kit cannot read the checkpoint ({error}); "
            f"restore it with the version that wrote it"
        ) from error
    return engine


def _fill(engine: CheckpointedEngine, tables: dict[str, pa.Table], epoch: int) -> None:
    strings = engine.dictionary.strings
    parts, sets = engine.parts(), engine.filled_sets()
    if set(tables) != set(parts) | {f"filled:{n}" for n in sets}:
        odd = sorted(set(tables) ^ (set(parts) | {f"filled:{n}" for n in sets}))
        raise CheckpointError(f"the checkpoint and its views do not agree about part {odd[0]}; use another checkpoint")
    for name, arrangement in parts.items():
        layout = arrangement.layout
        lines = _words(tables[name], layout.types, strings)
        weights = [tables[name].column(layout.columns + i).to_numpy() for i in range(layout.width)]
        diffs = np.stack(weights).astype(np.int64)
        arrangement.upper = epoch + 1
        arrangement.load(layout.body(lines, diffs if layout.width > 1 else diffs[0], strings))
    for name, filled in sets.items():
        table = tables[f"filled:{name}"]
        keys = _words(table, filled.types, strings)
        used = table.column(len(filled.types)).to_numpy()
        for stamp in np.unique(used):
            filled.add(keys.compress(used == stamp, axis=1), strings, int(stamp))
    engine.resume_at(epoch)


def _words(table: pa.Table, types: tuple[Type, ...], strings: Dictionary) -> Words:
    lines = [
        convert.from_arrow(table.column(i), Column(f"column {i}", kind), "checkpoint", strings)
        for i, kind in enumerate(types)
    ]
    return np.stack(lines) if lines else np.empty((0, table.num_rows), dtype=np.int64)


def _tables(engine: CheckpointedEngine) -> Iterator[tuple[str, pa.Table]]:
    strings = engine.dictionary.strings
    for name, arrangement in engine.parts().items():
        body = merged(arrangement.runs, arrangement.layout, strings)
        yield name, _table(body[1:], arrangement.layout, strings)
    for name, filled in engine.filled_sets().items():
        lines = np.concatenate([filled.keys, filled.used[None, :]])
        layout = Layout(filled.types, tuple(range(len(filled.types))))
        yield f"filled:{name}", _table(lines, layout, strings)


def _table(lines: Words, layout: Layout, strings: Dictionary) -> pa.Table:
    arrays = [convert.to_arrow(line, kind, strings) for line, kind in zip(lines, layout.types, strict=False)]
    arrays += [pa.array(line) for line in lines[layout.columns :]]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def _save(table: pa.Table, file: Path) -> str:
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return _digest(file.read_bytes())


def _load(folder: Path, name: str, part: dict[str, Any]) -> pa.Table:
    file = folder / part["file"]
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{file}: the part {name} cannot be read ({error.strerror}), "
            f"so the checkpoint is incomplete; use another one"
        ) from error
    if _digest(data) != part["sha256"]:
        raise CheckpointError(f"{file}: the part {name} was altered (SHA-256 differs); use another checkpoint")
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()


def _manifest(folder: Path) -> dict[str, Any]:
    file = folder / "manifest.json"
    try:
        found = json.loads(file.read_text())
        manifest, digest = dict(found["manifest"]), found["sha256"]
        written = json.dumps(manifest, indent=1, sort_keys=True)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder} is not a checkpoint, because it has no manifest.json; pass a folder that checkpoint() wrote"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); use another checkpoint") from error
    if _digest(written.encode()) != digest:
        raise CheckpointError(f"{file} was altered (SHA-256 differs); use another checkpoint")
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} has format {manifest.get('format')}, but this version of the kit reads format {FORMAT}; "
            f"restore the checkpoint with the version that wrote it"
        )
    return manifest


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
