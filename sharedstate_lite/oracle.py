"""The correct answer for a view, which DuckDB computes from the view's SQL text alone.

After every epoch, the answer of every engine must equal the oracle's answer. The oracle shares only the SQL text and
sqlglot's parser with the engines. It does not use their plans, expressions or kernels. If the kit's SQL differs from
DuckDB's, small functions rewrite the query (`ADAPTATIONS`, `_exact_sums`). The column types also come from DuckDB, so
comparing them tests the binder.

>>> import pandas as pd
>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> view = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> visits = pd.DataFrame({"product": ["Potato", "Potato"], "length": [50, 60]})
>>> answer = recompute(view, {"visit": visits})
>>> answer.values.tolist()
[['Potato', 60]]
>>> difference(answer, answer.assign(top=50))
"only in the first (1 rows): ('Potato', 60); only in the second (1 rows): ('Potato', 50)"
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import sqlglot
from duckdb.func import PythonUDFType
from sqlglot import exp

from .errors import RelationError, RowError, ViewError
from .plan.nodes import Scan, Schema, Type
from .plan.view import View

TOLERANCE = 1e-9
"""The maximum relative difference between two DOUBLE values that are considered equal."""

_ARROW: dict[Type, Any] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us"),
}
_DUCKDB = {t: t.value for t in Type} | {Type.STRING: "VARCHAR", Type.INT: "INTEGER"}
_PANDAS = {
    pa.string(): pd.StringDtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.date32(): pd.ArrowDtype(pa.date32()),
    pa.timestamp("us"): pd.ArrowDtype(pa.timestamp("us")),
}


# --- differences from DuckDB


def _divide(node: exp.Expr) -> exp.Expr:
    """Make x/0 return NULL, as in the kit. In DuckDB, it is infinite."""
    if isinstance(node, exp.Div):
        node.set("expression", exp.func("NULLIF", exp.paren(node.expression), exp.Literal.number(0)))
    return node


def _remainder(node: exp.Expr) -> exp.Expr:
    """Make x%0 return NULL, as in the kit, and replace x%-1 with x%1.

    In DuckDB, x%0 is an error or NaN, and x%-1 overflows if x is the smallest INT.
    """
    if isinstance(node, exp.Mod):
        by = exp.paren(node.expression)
        safe = exp.case(by).when("0", exp.null()).when("-1", "1").else_(by.copy())
        node.set("expression", exp.paren(safe))
    return node


def _decimal(node: exp.Expr) -> exp.Expr:
    """Make a number with a decimal point a DOUBLE, as in the kit. In DuckDB, it is a DECIMAL."""
    if isinstance(node, exp.Literal) and not node.is_string and "." in node.name:
        return exp.cast(exp.Literal.string(node.name), "DOUBLE", dialect="duckdb")
    return node


ADAPTATIONS = (_divide, _remainder, _decimal)
"""Functions that rewrite one node of the syntax tree. Each function is applied to every node."""


def _exact_sums(query: exp.Expr, connection: duckdb.DuckDBPyConnection) -> None:
    """Make SUM and AVG return the same values and types as in the kit. Changes ``query`` in place.

    In the kit, the SUM of integers is a BIGINT; in DuckDB, it is a HUGEINT. The kit rounds a SUM or AVG of DOUBLE
    values only once. DuckDB adds doubles in any order and rounds every partial sum, so 1e300 + 1 - 1e300 can be 0. The
    types of the arguments come from DuckDB's DESCRIBE.
    """
    for select in query.find_all(exp.Select):
        sums = [s for s in select.find_all(exp.Sum, exp.Avg) if s.parent_select is select]
        if not sums:
            continue
        asked = exp.select(*(exp.alias_(s.this.copy(), f"a{i}") for i, s in enumerate(sums)))
        for clause in ("from_", "joins"):
            asked.set(clause, select.copy().args.get(clause))
        types = [row[1] for row in connection.execute(f"DESCRIBE {_text(asked)}").fetchall()]
        for node, kind in zip(sums, types, strict=True):
            if kind == "DOUBLE":
                arg = _text(node.this)
                total = f"exact_sum(list({arg}) FILTER (WHERE ({arg}) IS NOT NULL))"
                mean = f"({total} / NULLIF(COUNT({arg}), 0))"
                node.replace(sqlglot.parse_one(total if isinstance(node, exp.Sum) else mean, dialect="duckdb"))
            elif isinstance(node, exp.Sum):
                node.replace(exp.cast(node.copy(), "BIGINT", dialect="duckdb"))


def _exact_sum(groups: Any) -> Any:
    sums = [None if g is None else _fsum(g) for g in groups.to_pylist()]
    return pa.array(sums, pa.float64())


def _fsum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        # A partial sum overflowed, but the total may be finite.
        return float(sum(map(Fraction, values)))


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="duckdb", identify=True, comments=False)


# --- recomputation


class Oracle:
    """Base relations in a DuckDB database. Use `apply` to change them and `recompute` to compute a view over them.

    ``views`` are the views that `recompute` finds by name; any other view must be passed as a View. ``relations`` maps
    the name of each relation to its columns, like ``catalog.relations``. Call `close` at the end, or use the oracle as
    a context manager.
    """

    def __init__(self, views: Iterable[View], relations: Mapping[str, Schema]) -> None:
        self._connection = duckdb.connect()
        self._connection.create_function(
            "exact_sum",
            _exact_sum,
            ["DOUBLE[]"],
            "DOUBLE",
            type=PythonUDFType.ARROW,
        )
        self._run("CREATE SCHEMA changes")
        self._views = {view.name.lower(): view for view in views}
        self._relations = {name.lower(): (name, schema) for name, schema in relations.items()}
        self._created: set[str] = set()
        self._stale: set[str] = set()
        for name, schema in relations.items():
            columns = ", ".join(f"{_quote(c.name)} {_DUCKDB[c.type]}" for c in schema)
            self._run(f"CREATE TABLE {_quote(name)} ({columns})")
            self._run(f"CREATE TABLE changes.{_quote(name)} ({columns}, diff BIGINT)")

    def apply(self, relation: str, changes: pd.DataFrame | pa.Table) -> None:
        """Apply changes to a relation. If ``changes`` does not have a ``diff`` column, each row is inserted once.

        Columns that the relation does not have, such as ``time``, are ignored. Raises RelationError for an unknown
        relation or a missing column.
        """
        if relation.lower() not in self._relations:
            known = ", ".join(n for n, _ in self._relations.values()) or "none"
            raise RelationError(f"oracle: there is no relation named {relation}; the relations are: {known}")
        name, schema = self._relations[relation.lower()]
        self._connection.register("incoming rows", _arrow(changes, schema))
        # NaN becomes NULL and -0.0 becomes 0.0, as in the engines.
        columns = ", ".join(
            f"CASE WHEN NOT isnan({_quote(c.name)}) THEN {_quote(c.name)} + 0 END"
            if c.type is Type.DOUBLE
            else _quote(c.name)
            for c in schema
        )
        self._run(f'INSERT INTO changes.{_quote(name)} SELECT {columns}, diff FROM "incoming rows"')
        self._connection.unregister("incoming rows")
        self._stale.add(name)

    def recompute(self, view: View | str) -> pd.DataFrame:
        """Compute a view, given as a View or by name, from all changes applied so far.

        The returned frame has the columns in SELECT order. Its rows are sorted by all columns, with NULL last. Raises
        RowError if a value overflows, is infinite or cannot be cast, and ViewError for an unknown name.
        """
        view = view if isinstance(view, View) else self._view(view)
        for name in self._stale:
            columns = ", ".join(_quote(c.name) for c in self._relations[name.lower()][1])
            net = f"SELECT {columns}, CAST(SUM(diff) AS BIGINT) AS diff FROM changes.{_quote(name)} GROUP BY ALL"
            self._run(f"CREATE OR REPLACE TABLE changes.{_quote(name)} AS {net} HAVING SUM(diff) <> 0")
            rows = f"SELECT {columns} FROM changes.{_quote(name)}, unnest(range(diff))"
            self._run(f"CREATE OR REPLACE TABLE {_quote(name)} AS {rows}")
        self._stale.clear()
        order = ", ".join(f"{i + 1} NULLS LAST" for i in range(len(view.schema)))
        try:
            # DuckDB folds constants when it binds a view, so CREATE VIEW can raise an overflow error.
            self._create(view)
            table = self._connection.sql(f"SELECT * FROM {_quote(view.name)} ORDER BY {order}").to_arrow_table()
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException) as error:
            raise RowError(f"view {view.name}: {error}") from error
        frame: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS.get)
        for column, kind in zip(frame.columns, table.schema.types, strict=True):
            if kind == pa.float64():
                frame[column] += 0.0
                if frame[column].abs().eq(math.inf).any():
                    raise RowError(f"view {view.name}: a value in column {column} is infinite")
        return frame

    def _view(self, name: str) -> View:
        if name.lower() not in self._views:
            known = ", ".join(v.name for v in self._views.values()) or "none"
            raise ViewError(f"oracle: there is no view named {name}; the views are: {known}")
        return self._views[name.lower()]

    def _create(self, view: View) -> None:
        """Create a view in DuckDB with the kit's types. The views that it refers to are created first."""
        if view.name in self._created:
            return
        for used in view.uses:
            self._create(used)
        # sqlglot parses a comment after the semicolon as a second statement.
        create = sqlglot.parse(view.sql, dialect="duckdb")[0]
        assert create is not None
        query = create.expression
        for adapt in ADAPTATIONS:
            query = query.transform(adapt)
        _exact_sums(query, self._connection)
        inner = _text(query)
        types = {row[0].lower(): row[1] for row in self._run(f"DESCRIBE {inner}").fetchall()}
        # Select columns by name: SQL puts USING columns first, but DuckDB keeps their position in the left table.
        columns = ", ".join(
            f"CAST({_quote(c.name)} AS BIGINT) AS {_quote(c.name)}"
            if types[c.name.lower()] == "HUGEINT"
            else f"{_quote(c.name)} AS {_quote(c.name)}"
            for c in view.schema
        )
        self._run(f"CREATE VIEW {_quote(view.name)} AS SELECT {columns} FROM ({inner})")
        self._created.add(view.name)

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        return self._connection.execute(sql)

    def close(self) -> None:
        """Close the DuckDB database."""
        self._connection.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recompute(view: View, tables: Mapping[str, pd.DataFrame | pa.Table]) -> pd.DataFrame:
    """Compute ``view`` from complete tables, and return a frame like `Oracle.recompute`.

    ``tables`` maps the name of each relation to its rows, with or without a ``diff`` column. Relations that are not in
    ``tables`` are empty.
    """
    relations = {n.relation: n.schema for n in view.plan.walk() if isinstance(n, Scan)}
    with Oracle([view], relations) as oracle:
        for name, rows in tables.items():
            # Skip tables that the view does not read.
            if name.lower() in (r.lower() for r in relations):
                oracle.apply(name, rows)
        return oracle.recompute(view)


def _arrow(rows: pd.DataFrame | pa.Table, schema: Schema) -> pa.Table:
    """Return the relation's columns and ``diff`` as a table. Column names are matched case-insensitively."""
    names = {str(n).lower(): n for n in (rows.column_names if isinstance(rows, pa.Table) else rows.columns)}
    lost = [c.name for c in schema if c.name.lower() not in names]
    if lost:
        raise RelationError(f"oracle: the rows have no column {', '.join(lost)}; their columns are: {', '.join(names)}")
    wanted = [(c.name, _ARROW[c.type]) for c in schema]
    columns = {name: _column(rows, names[name.lower()], kind) for name, kind in wanted}
    ones = pa.array([1] * len(rows), pa.int64())
    columns["diff"] = _column(rows, names["diff"], pa.int64()) if "diff" in names else ones
    return pa.table(columns)


def _column(rows: pd.DataFrame | pa.Table, name: str, kind: pa.DataType) -> Any:
    if isinstance(rows, pa.Table):
        return rows[name].cast(kind)
    return pa.array(rows[name].astype(object).where(rows[name].notna(), None), kind, from_pandas=True)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- comparison


def same(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return True if two frames contain the same rows; see `difference`."""
    return difference(a, b) is None


def difference(a: pd.DataFrame, b: pd.DataFrame) -> str | None:
    """Describe how two frames differ as bags of rows, or return None if they are equal.

    The names and the order of the columns must be the same. Dtypes and the order of the rows are ignored. Two DOUBLE
    values are considered equal if their relative difference is at most 1e-9.
    """
    if list(a.columns) != list(b.columns):
        return f"the columns differ: {list(a.columns)} and {list(b.columns)}"
    left, right = _bag(a), _bag(b)
    only_left, only_right = left - right, right - left
    if only_left and only_right:
        _pair_off(only_left, only_right)
    parts = [
        f"only in the {which} ({bag.total()} rows): {_sample(bag)}"
        for which, bag in (("first", only_left), ("second", only_right))
        if bag.total()
    ]
    return "; ".join(parts) or None


def _bag(frame: pd.DataFrame) -> Counter[tuple[Any, ...]]:
    columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
    values = [c.astype(object).where(c.notna(), None).tolist() for c in columns]
    return Counter(zip(*values, strict=True)) if values else Counter({(): len(frame)})


def _pair_off(left: Counter[tuple[Any, ...]], right: Counter[tuple[Any, ...]]) -> None:
    """Remove pairs of rows that are equal within the tolerance, one row from each bag."""
    near: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in right:
        near[tuple(float if isinstance(v, float) else v for v in row)].append(row)
    for row in list(left):
        for other in near[tuple(float if isinstance(v, float) else v for v in row)]:
            if all(
                math.isclose(x, y, rel_tol=TOLERANCE) for x, y in zip(row, other, strict=True) if isinstance(x, float)
            ):
                both = min(left[row], right[other])
                left[row] -= both
                right[other] -= both


def _sample(bag: Counter[tuple[Any, ...]]) -> str:
    rows = sorted((r for r, n in bag.items() if n > 0), key=repr)
    shown = ", ".join(f"{row!r}" + (f" x {bag[row]}" if bag[row] > 1 else "") for row in rows[:5])
    return shown + (", ..." if len(rows) > 5 else "")
