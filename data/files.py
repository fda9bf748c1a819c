"""A person's own CSV or Parquet, a file or a folder of them, as a table that ``step`` takes.

    mine = load("visits.csv")                                  types read off the cells
    mine = load("visits/", "product STRING, length INT")       types checked, other columns left
    catalog = ss.Catalog(mine=declaration(mine))
    engine.step({"mine": mine})

A folder's files are read in the order of their paths, and must have the same columns;
names that start with ``_`` or ``.`` are skipped, and a folder called ``name=value``
adds that column, as Spark writes it. A column ``diff`` says how often a row comes or
goes; where there is none, every row comes once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from sharedstate_lite.changelog.convert import ARROW, DTYPES
from sharedstate_lite.errors import Error, RowError, shorten
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.sql.catalog import parse_columns

from . import cells, csvfile, typed
from .cells import Arrow

pc: Any = pyarrow.compute  # its stubs know no comparison with a plain value

_ENDINGS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t", ".parquet": None}
_DTYPES = {ARROW[kind]: pd.api.types.pandas_dtype(dtype) for kind, dtype in DTYPES.items()}
_ABSENT = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class _Part:
    """One file: its columns by name in lower case, each with its spelling, and which are text still to be read."""

    path: Path
    sep: str | None
    columns: Mapping[str, tuple[str, Arrow]]
    text: frozenset[str]
    rows: int


def load(
    path: str | os.PathLike[str],
    schema: str | None = None,
    *,
    sep: str | None = None,
    rename: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The rows of a CSV or Parquet file, or of a folder of them, with their ``diff`` (int64), ready for ``step``.

    ``schema`` is a declaration as a catalog takes it; then the frame has its columns, in
    its order. Without one, each column gets the narrowest of STRING, INT, BIGINT,
    DOUBLE, BOOLEAN, DATE and TIMESTAMP that holds it. ``sep`` separates a CSV's fields
    (default: a comma, a tab in ``.tsv``); ``rename`` maps names in the file to names in
    the frame. Dtypes are those of an engine's ``read``.

    Raises :class:`~sharedstate_lite.errors.Error` naming file, row, line, column and rule.
    """
    root = place(path)
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or not sep.isascii() or sep in '"\r\n\0'):
        raise Error(f"sep={sep!r}: it is one ASCII character, such as ',' or ';'")
    if rename is not None and not isinstance(rename, Mapping):
        raise Error(f"rename={shorten(rename)}: it maps names to names, such as {{'time': 'at'}}")
    if schema is not None and (not isinstance(schema, str) or not schema.strip()):
        raise Error(
            f"schema={shorten(schema)}: it declares columns, as 'product STRING, length INT' does; "
            "leave it out to have the types read off the file"
        )
    wanted = None if schema is None else parse_columns(root.name, schema)
    parts = [_renamed(_read(file, root, sep), rename or {}) for file in _files(root)]
    first = parts[0]
    for part in parts[1:]:
        if part.columns.keys() != first.columns.keys():
            differ = ", ".join(sorted(part.columns.keys() ^ first.columns.keys()))
            raise Error(
                f"{part.path}: its columns are not those of {first.path} (they differ in {differ}); load them apart"
            )
    if wanted is None:
        names = [spelling for name, (spelling, _) in first.columns.items() if name not in ("diff", "time")]
        if "time" in first.columns and "diff" not in first.columns:
            raise Error(
                f"{first.path}: a column is called time, as changes call one of theirs; "
                "load it under another name with rename={'time': 'at'}, or name the columns that you want in a schema"
            )
        columns = [Column(name, _inferred(parts, name.lower())) for name in names]
    else:
        columns = list(wanted)
        missing = [c.name for c in columns if c.name.lower() not in first.columns]
        if missing:
            there = ", ".join(spelling for spelling, _ in first.columns.values())
            raise Error(f"{first.path}: no column is called {', '.join(missing)}; the file has: {there}")
    frame = {c.name: _joined(parts, c).to_pandas(types_mapper=lambda given: _DTYPES.get(given)) for c in columns}
    if wanted is None and "time" in first.columns:
        frame["time"] = _joined(parts, Column("time", Type.BIGINT)).to_pandas()
    frame["diff"] = _diffs(parts).to_pandas()
    return pd.DataFrame(frame)


def place(path: str | os.PathLike[str]) -> Path:
    """A path that can be looked for, whether or not something is there. Raises Error."""
    try:
        if not os.fspath(path):
            raise ValueError("it names nothing")  # to Path it is the folder that one is in
        found = Path(path).expanduser()
        found.exists()
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise Error(
            f"{shorten(path)} is no path ({getattr(error, 'strerror', None) or error}); name a file or a folder"
        ) from error
    return found


def _ending(path: Path) -> str | None:
    return next((e for e in _ENDINGS if path.name.lower().endswith(e)), None)


def _files(root: Path) -> list[Path]:
    """The files to read, in order."""
    kinds = ", ".join(_ENDINGS)
    if not root.exists():
        raise Error(f"{root}: there is no such file or folder")
    if not root.is_dir():
        if _ending(root) is None:
            raise Error(f"{root}: its ending says neither CSV nor Parquet; it is one of {kinds}")
        return [root]
    found = []
    for folder, folders, names in os.walk(root, onerror=_unreadable):
        folders[:] = [f for f in folders if f[0] not in "._"]
        found += [Path(folder) / name for name in names if name[0] not in "._"]
    found.sort()
    if not found:
        raise Error(f"{root}: the folder holds no file; it takes {kinds}")
    for file in found:
        if _ending(file) is None:
            raise Error(f"{file}: its ending says neither CSV nor Parquet ({kinds}); move it out of the folder")
        if (_ending(file) == ".parquet") != (_ending(found[0]) == ".parquet"):
            raise Error(f"{file}: the folder mixes CSV and Parquet; load them apart")
    return found


def _unreadable(error: OSError) -> None:
    raise Error(f"{error.filename}: it cannot be read ({error.strerror})") from error


def _read(file: Path, root: Path, sep: str | None) -> _Part:
    ending = _ending(file)
    assert ending is not None
    sep = None if ending == ".parquet" else sep or _ENDINGS[ending]
    if sep is not None:
        table = csvfile.read(file, sep)
    else:
        try:
            table = pyarrow.parquet.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as error:
            raise Error(f"{file}: it cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    columns: dict[str, tuple[str, Arrow]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name.lower() in columns:
            raise Error(f"{file}: column {name} is there twice; names are compared without case")
        columns[name.lower()] = (name, column)
    text = set(columns) if sep is not None else set()
    for folder in file.relative_to(root).parts[:-1]:
        name, is_column, value = folder.partition("=")
        if is_column and name:
            if name.lower() in columns:
                raise Error(
                    f"{file}: column {name}, which the folder {folder} adds, is there already; rename the folder"
                )
            cell = pa.scalar(None if value == _ABSENT else unquote(value), pa.string())
            columns[name.lower()] = (name, pa.chunked_array([pa.repeat(cell, table.num_rows)]))
            text.add(name.lower())
    return _Part(file, sep, columns, frozenset(text), table.num_rows)


def _renamed(part: _Part, rename: Mapping[str, str]) -> _Part:
    new = {}
    for old, to in rename.items():
        if not isinstance(old, str) or not isinstance(to, str) or not to.strip():
            raise Error(f"rename: {old!r} cannot become {to!r}; a name is text")
        if old.lower() not in part.columns:
            there = ", ".join(spelling for spelling, _ in part.columns.values())
            raise Error(f"{part.path}: rename names {old}, which is no column; the file has: {there}")
        new[old.lower()] = to
    columns = {new.get(n, n).lower(): (new.get(n, spelling), column) for n, (spelling, column) in part.columns.items()}
    for at, (spelling, _) in enumerate(columns.values(), start=1):
        if not spelling.strip():
            raise Error(
                f"{part.path}: column {at} has no name, and a relation's columns have one; "
                f"give it one with rename={{{spelling!r}: 'name'}}"
            )
    if len(columns) < len(part.columns):
        raise Error(f"{part.path}: after rename two columns have one name; names are compared without case")
    return _Part(part.path, part.sep, columns, frozenset(new.get(n, n).lower() for n in part.text), part.rows)


def _inferred(parts: Sequence[_Part], name: str) -> Type:
    """The type of a column over all files."""
    text = [part for part in parts if name in part.text]
    if text:
        whole = pa.chunked_array([c for part in text for c in part.columns[name][1].chunks], type=pa.string())
        return cells.infer(whole)
    kinds = {}
    for part in parts:
        given = part.columns[name][1].type
        kind = typed.infer(given)
        if kind is None:
            raise Error(
                f"{part.path}: column {part.columns[name][0]} holds {given}, which is none of "
                f"{', '.join(t.value for t in Type)}; leave it out by naming the others in a schema, or cast it"
            )
        if not pa.types.is_null(given):
            kinds[kind] = part.path
    widest = [kind for kind in (Type.INT, Type.BIGINT, Type.DOUBLE) if kind in kinds]
    if len(kinds) > max(1, len(widest)):
        (one, here), (other, there) = list(kinds.items())[:2]
        raise Error(f"{there}: column {name} is {other.value} there and {one.value} in {here}; load them apart")
    return widest[-1] if widest else next(iter(kinds), Type.STRING)


def _joined(parts: Sequence[_Part], column: Column) -> Arrow:
    """A column over all files, as its type. Raises RowError with file, row and line of what does not fit."""
    chunks: list[Any] = []
    for part in parts:
        spelling, values = part.columns[column.name.lower()]
        convert = cells.convert if column.name.lower() in part.text else typed.convert
        try:
            chunks += convert(values, column.type).chunks
        except cells.CellError as error:
            line = f" (line {csvfile.line(part.path, part.sep, error.row + 1)})" if part.sep is not None else ""
            raise RowError(
                f"{part.path}, row {error.row + 1}{line}, column {spelling}: {error}; "
                "correct the cell, or declare the column as what it is"
            ) from None
        except RowError as error:
            raise RowError(f"{part.path}, column {spelling}: {error}; declare the column as what it is") from None
    chunked: Any = pa.chunked_array
    return chunked(chunks, type=ARROW[column.type])


def _diffs(parts: Sequence[_Part]) -> Arrow:
    if "diff" not in parts[0].columns:
        return pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), sum(part.rows for part in parts))])
    for part in parts:
        values = _joined([part], Column("diff", Type.BIGINT))
        bad = pc.index(pc.fill_null(pc.equal(values, 0), True), pa.scalar(True)).as_py()
        if bad >= 0:
            line = f" (line {csvfile.line(part.path, part.sep, bad + 1)})" if part.sep is not None else ""
            shown = values[bad].as_py()
            raise RowError(
                f"{part.path}, row {bad + 1}{line}, column diff: {'NULL' if shown is None else shown} is no diff; "
                "it is a non-zero whole number, +1 where the row comes and -1 where it goes"
            )
    return _joined(parts, Column("diff", Type.BIGINT))
