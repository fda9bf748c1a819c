"""Loads your own CSV or Parquet file, or a folder of such files, as a table that you can pass to ``step``.

    mine = load("visits.csv")                                  infer the types from the cells
    mine = load("visits/", "product STRING, length INT")       check the types and drop all other columns
    mine = load("visits.csv", forms={"price": "1.234,5"})      read prices such as 12,50
    catalog = ss.Catalog(mine=declaration(mine))
    engine.step({"mine": mine})

The files in a folder are read in the order of their paths and must have the same columns. Files and folders whose names
start with ``_`` or ``.`` are skipped. A folder named ``name=value`` adds the column ``name``, as in the output of
Spark's ``partitionBy``. A column ``diff`` says how often each row is added or removed. Without it, every row is added
once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ..changelog.convert import ARROW, DTYPES
from ..changelog.read_tables import kind_of
from ..errors import Error, RowError, shorten
from ..plan.nodes import Column, Type
from ..sql.catalog import parse_columns
from ..system.notes import note
from . import arrow_values, csv_text, text_values
from .text_values import Arrow

pc: Any = pyarrow.compute  # pyarrow's stubs do not allow a comparison with a scalar

_SUFFIXES = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t", ".parquet": None}
"""File suffix -> default separator; None for Parquet."""
_DTYPES = {ARROW[kind]: pd.api.types.pandas_dtype(dtype) for kind, dtype in DTYPES.items()}
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The ``value`` in the name of a ``name=value`` folder if the column is NULL in its rows."""


@dataclass(frozen=True)
class _File:
    """The contents of one file.

    ``columns`` maps a column's name in lower case to its name as written and its values. ``text`` contains the names of
    the columns whose values are still strings, in lower case. ``sep`` is None for Parquet.
    """

    path: Path
    sep: str | None
    columns: Mapping[str, tuple[str, Arrow]]
    text: frozenset[str]
    rows: int

    @property
    def names(self) -> str:
        """The names of the columns as written, separated by commas, for error messages."""
        return ", ".join(spelling for spelling, _ in self.columns.values())

    def place(self, row: int) -> str:
        """Return the file, number and line of a row, for error messages. ``row`` is counted from 0."""
        line = "" if self.sep is None else f" (line {csv_text.line(self.path, self.sep, row + 1)})"
        return f"{self.path}, row {row + 1}{line}"


def load(
    path: str | os.PathLike[str],
    schema: str | None = None,
    *,
    sep: str | None = None,
    rename: Mapping[str, str] | None = None,
    forms: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return the rows of a CSV or Parquet file, or of all such files in a folder, as a frame to pass to ``step``.

    The frame has a column ``diff`` (int64), and the same dtypes as an engine's ``read``. ``schema`` declares columns in
    the same way as a catalog does. The frame then contains only these columns, in this order. Without ``schema``, each
    column gets the narrowest type that fits all of its values: INT, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP or STRING.
    ``sep`` is the separator of a CSV file; by default, a comma, or a tab for ``.tsv``. ``rename`` maps the names of
    columns in the file to their names in the frame. ``forms`` maps names of columns in the frame to the form of their
    cells, if it is not the kit's: ``31.1.2024``, ``31/1/2024`` or ``1/31/2024`` for a DATE or TIMESTAMP, ``1.234,5`` or
    ``1,234.5`` for a number, and ``50%`` for the number 0.5.

    A column that becomes a STRING although all its cells are written in one of these forms, or most of its cells are
    numbers or dates, is logged as a note, at the level INFO, to the logger ``sharedstate_lite``.

    Raises :class:`~sharedstate_lite.errors.Error`. The message names the file, row, line, column, value and rule, as
    far as they apply.
    """
    root = checked_path(path)
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or not sep.isascii() or sep in '"\r\n\0'):
        raise Error(f"sep={sep!r}: a separator must be a single ASCII character. Pass ',' or ';', for example.")
    if rename is not None and not isinstance(rename, Mapping):
        raise Error(
            f"rename={shorten(rename)}: this must be a dict from names to names. Pass {{'time': 'at'}}, for example."
        )
    if schema is not None and (not isinstance(schema, str) or not schema.strip()):
        raise Error(
            f"schema={shorten(schema)}: a schema is a string such as 'product STRING, length INT'. "
            "Omit it to infer the types from the file."
        )
    wanted = None if schema is None else parse_columns(root.name, schema)
    known = tuple(text_values.FORMS)
    if forms is not None and not (isinstance(forms, Mapping) and all(form in known for form in forms.values())):
        raise Error(
            f"forms={shorten(forms)}: this must be a dict from names of columns to forms. "
            f"The forms are {', '.join(map(repr, known))}."
        )
    files = [_in_form(_renamed(_read(file, root, sep), rename or {}), forms or {}) for file in _paths(root)]
    first = files[0]
    for file in files[1:]:
        if differ := sorted(file.columns.keys() ^ first.columns.keys()):
            raise Error(
                f"{file.path}: only this file or {first.path} has the columns {', '.join(differ)}. "
                "Load the files separately."
            )
    if wanted is None:
        names = [spelling for name, (spelling, _) in first.columns.items() if name not in ("diff", "time")]
        if "time" in first.columns and "diff" not in first.columns:
            raise Error(
                f"{first.path}: the column name time is reserved for the epoch of a change. "
                "Pass rename={'time': 'at'} to rename the column, or a schema without it to drop it."
            )
        given = {name.lower(): form for name, form in (forms or {}).items()}
        columns = [Column(name, _inferred(files, name.lower(), given.get(name.lower()))) for name in names]
    else:
        columns = list(wanted)
        if missing := [column.name for column in columns if column.name.lower() not in first.columns]:
            raise Error(f"{first.path}: the file has no column {', '.join(missing)}. Its columns are {first.names}.")
    frame = {c.name: _joined(files, c).to_pandas(types_mapper=lambda given: _DTYPES.get(given)) for c in columns}
    if wanted is None and "time" in first.columns:
        frame["time"] = _joined(files, Column("time", Type.BIGINT)).to_pandas()
    frame["diff"] = _diffs(files).to_pandas()
    return pd.DataFrame(frame)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a Path, with ``~`` expanded. It does not have to exist. Raises Error if it is not a path."""
    try:
        if not os.fspath(path):
            raise ValueError("it is empty")  # Path("") would be the current folder
        found = Path(path).expanduser()
        found.exists()
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Error(f"{shorten(path)} is not a path ({reason}). Pass the path of a file or a folder.") from error
    return found


def _suffix(path: Path) -> str | None:
    return next((suffix for suffix in _SUFFIXES if path.name.lower().endswith(suffix)), None)


def _paths(root: Path) -> list[Path]:
    """Return the files to read, sorted by path: ``root`` itself, or the files in the folder ``root``."""
    kinds = ", ".join(_SUFFIXES)
    if not root.exists():
        raise Error(f"{root}: no such file or folder. Check the path.")
    if not root.is_dir():
        if _suffix(root) is None:
            raise Error(f"{root}: the suffix is not one of {kinds}. Rename or convert the file.")
        return [root]
    found = []
    for folder, folders, names in os.walk(root, onerror=_unreadable):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [Path(folder) / name for name in names if name[0] not in "._"]
    found.sort()
    if not found:
        raise Error(f"{root}: the folder does not contain a file to load. load reads files with the suffix {kinds}.")
    for file in found:
        if _suffix(file) is None:
            raise Error(f"{file}: the suffix is not one of {kinds}. Move the file out of the folder.")
        if (_suffix(file) == ".parquet") != (_suffix(found[0]) == ".parquet"):
            raise Error(f"{file}: the folder contains both CSV and Parquet files. Load them separately.")
    return found


def _unreadable(error: OSError) -> None:
    raise Error(f"{error.filename}: the folder cannot be read ({error.strerror}). Change its permissions.") from error


def _read(path: Path, root: Path, sep: str | None) -> _File:
    suffix = _suffix(path)
    assert suffix is not None
    sep = None if suffix == ".parquet" else sep or _SUFFIXES[suffix]
    if sep is not None:
        table = csv_text.read(path, sep)
    else:
        try:
            table = pyarrow.parquet.ParquetFile(path).read()
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise Error(f"{path}: the file cannot be read as Parquet ({reason}). Write it again.") from error
    columns: dict[str, tuple[str, Arrow]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name.lower() in columns:
            raise Error(
                f"{path}: the file has two columns named {name} (ignoring case). Rename one of them in the file."
            )
        columns[name.lower()] = (name, column)
    text = set(columns) if sep is not None else set()
    for folder in path.relative_to(root).parts[:-1]:
        name, is_column, value = folder.partition("=")
        if is_column and name:
            if name.lower() in columns:
                raise Error(
                    f"{path}: the file already has the column {name} that the folder {folder} adds. Rename the folder."
                )
            cell = pa.scalar(None if value == _NULL_FOLDER else unquote(value), pa.string())
            columns[name.lower()] = (name, pa.chunked_array([pa.repeat(cell, table.num_rows)]))
            text.add(name.lower())
    return _File(path, sep, columns, frozenset(text), table.num_rows)


def _renamed(file: _File, rename: Mapping[str, str]) -> _File:
    new = {}
    for old, to in rename.items():
        if not isinstance(old, str) or not isinstance(to, str) or not to.strip():
            raise Error(f"rename: {old!r} cannot be renamed to {to!r}. Both names must be non-empty strings.")
        if old.lower() not in file.columns:
            raise Error(f"{file.path}: rename contains {old}, which is not a column. The columns are {file.names}.")
        new[old.lower()] = to
    columns = {new.get(n, n).lower(): (new.get(n, spelling), column) for n, (spelling, column) in file.columns.items()}
    for at, (spelling, _) in enumerate(columns.values(), start=1):
        if not spelling.strip():
            raise Error(
                f"{file.path}: column {at} has no name, but every column of a relation must have one. "
                f"Pass rename={{{spelling!r}: 'name'}}."
            )
    if len(columns) < len(file.columns):
        raise Error(f"{file.path}: after rename, two columns have the same name (ignoring case). Choose other names.")
    return _File(file.path, file.sep, columns, frozenset(new.get(n, n).lower() for n in file.text), file.rows)


def _in_form(file: _File, forms: Mapping[str, str]) -> _File:
    """Return the file with the cells of the columns in ``forms`` in the kit's form."""
    columns = dict(file.columns)
    for name, form in forms.items():
        spelling, cells = columns.get(str(name).lower(), ("", None))
        if cells is None:
            raise Error(f"{file.path}: forms contains {name}, which is not a column. The columns are {file.names}.")
        if spelling.lower() not in file.text:
            raise Error(f"{file.path}: column {name} is not text in a CSV file, so it has no form. Omit it from forms.")
        try:
            columns[spelling.lower()] = (spelling, text_values.rewritten(cells, form))
        except text_values.CellError as error:
            raise RowError(
                f"{file.place(error.row)}, column {spelling}: {error}. Correct the cell, or omit the form."
            ) from None
    return replace(file, columns=columns)


def _inferred(files: Sequence[_File], name: str, form: str | None) -> Type:
    """Return the type of the column ``name`` that fits its values in all files. Raises Error if there is none."""
    if any(name in file.text for file in files):
        chunks = [chunk for file in files for chunk in file.columns[name][1].chunks]
        cells = pa.chunked_array(chunks, type=pa.string())
        inferred = text_values.infer(cells)
        if inferred is not Type.STRING:
            return inferred
        if form is not None:
            return text_values.FORMS[form][0]  # a cell such as 31.2.2024, which the conversion refuses
        if found := text_values.forms(cells):
            spelling, odd = files[0].columns[name][0], text_values.exception(cells)
            first = cells.drop_null()[0] if odd is None else cells[odd[2]]
            note(
                f"{files[0].path}: column {spelling} is loaded as STRING, but all of its values look like "
                f"{first.as_py()!r}. To load it as {' or '.join({k.value: 0 for k in found.values()})}, pass "
                f"{_calls(spelling, found)}."
            )
        elif odd := text_values.exception(cells):
            what, count, row = odd
            at = row
            file = next(file for file in files if (at := at - file.rows) < 0)
            example = {"number": "1234.5", "date": "2024-01-31"}[what]
            note(
                f"{file.place(at + file.rows)}, column {file.columns[name][0]}: {shorten(cells[row].as_py())} is not a "
                f"{what} such as {example}, so the column is loaded as STRING. {count:,} of its values are {what}s. "
                f"Write a {what} in the cell, or leave it empty for NULL."
            )
        return Type.STRING
    kinds = {}
    for file in files:
        given = file.columns[name][1].type
        kind = kind_of(given)
        if kind is None:
            raise Error(
                f"{file.path}: column {file.columns[name][0]} has the type {given}, which is not a type of the kit. "
                f"Pass a schema that omits the column{' or declares it as DOUBLE' * pa.types.is_decimal(given)}."
            )
        if not pa.types.is_null(given):
            kinds[kind] = file.path
    widest = [kind for kind in (Type.INT, Type.BIGINT, Type.DOUBLE) if kind in kinds]
    if len(kinds) > max(1, len(widest)):
        (one, here), (other, there) = list(kinds.items())[:2]
        raise Error(
            f"{there}: column {name} is {other.value}, but in {here} it is {one.value}. Load the files separately."
        )
    return widest[-1] if widest else next(iter(kinds), Type.STRING)


def _calls(spelling: str, forms: Iterable[str]) -> str:
    """Return the options with which ``load`` reads a column that is written in one of ``forms``."""
    return " or ".join(f"forms={{{spelling!r}: {form!r}}}" for form in forms)


def _joined(files: Sequence[_File], column: Column) -> Arrow:
    """Return a column of all files, converted to its type. Raises RowError for the first value that does not fit."""
    chunks: list[Any] = []
    name = column.name.lower()
    for file in files:
        spelling, values = file.columns[name]
        convert = text_values.convert if name in file.text else arrow_values.convert
        try:
            chunks += convert(values, column.type).chunks
        except text_values.CellError as error:
            found = text_values.forms(values) if name in file.text else {}
            remedy = f"Pass {_calls(spelling, found)}" if found else "Correct the cell"
            raise RowError(
                f"{file.place(error.row)}, column {spelling}: {error}. {remedy}, or declare another type."
            ) from None
        except RowError as error:
            raise RowError(f"{file.path}, column {spelling}: {error}. Declare another type.") from None
    chunked: Any = pa.chunked_array
    return chunked(chunks, type=ARROW[column.type])


def _diffs(files: Sequence[_File]) -> Arrow:
    if "diff" not in files[0].columns:
        return pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), sum(file.rows for file in files))])
    for file in files:
        values = _joined([file], Column("diff", Type.BIGINT))
        row = pc.index(pc.fill_null(pc.equal(values, 0), True), pa.scalar(True)).as_py()
        if row >= 0:
            shown = values[row].as_py()
            raise RowError(
                f"{file.place(row)}, column diff: {'NULL' if shown is None else shown} is not a valid diff. "
                "Write 1 for a row that is added and -1 for a row that is removed."
            )
    return _joined(files, Column("diff", Type.BIGINT))
