"""What SQL is let in: a table of syntax that the binder consumes, everything else refused by name.

:data:`ALLOWED` lists every node class and argument that is consumed. A tree that holds
anything else is refused before binding starts, so that nothing in a view's text is ever
ignored; :data:`REFUSED` gives names and ways out to what people are likely to write.
"""

from __future__ import annotations

from sqlglot import exp

from ..errors import SqlError

_PAIR = {"this", "expression"}
_AGGREGATES = (exp.Max, exp.Min, exp.Sum, exp.Avg, exp.Count)
_BINARY = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)

ALLOWED: dict[type[exp.Expr], set[str]] = {
    exp.Create: {"this", "kind", "expression"},
    exp.Select: {"expressions", "from_", "joins", "where", "group", "having", "distinct"},
    exp.Union: _PAIR,
    exp.Subquery: {"this"},
    exp.From: {"this"},
    exp.Table: {"this", "alias"},
    exp.TableAlias: {"this"},
    exp.Identifier: {"this", "quoted"},
    exp.Join: {"this", "method", "side", "kind", "on", "using"},
    exp.Where: {"this"},
    exp.Group: {"expressions"},
    exp.Having: {"this"},
    exp.Distinct: set(),
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table"},
    exp.Star: set(),
    exp.Paren: {"this"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    **dict.fromkeys(_BINARY, _PAIR),
    exp.Div: _PAIR,
    exp.Is: _PAIR,
    exp.Neg: {"this"},
    exp.Not: {"this"},
    exp.In: {"this", "expressions"},
    exp.Between: {"this", "low", "high"},
    exp.Case: {"this", "ifs", "default"},
    exp.If: {"this", "true"},
    exp.Coalesce: {"this", "expressions"},
    exp.Cast: {"this", "to"},
    exp.DataType: {"this"},
    **dict.fromkeys(_AGGREGATES, {"this", "big_int"}),
}
"""Node class -> the arguments that the binder consumes."""

_BAG = "a view is a bag of rows without an order; sort or cut the frame that read() returns"
_OVER = (
    "an answer that depends on a row's neighbours is no incremental operator here; use GROUP BY in a view and join it"
)
_SUBQUERY = "make the inner SELECT a view of its own and name it in FROM"
_EQUI = "joins find partners by equality; write JOIN ... USING (column) or ON a.x = b.y"
_WITHOUT = "write the GROUP BY columns out, one view for each grouping"
_TEXT = "strings are compared and carried, not taken apart; compute the column before it comes in"
_NUMBERS = "the operators are + - * / %"
_FLAT = "a value is one of the seven column types; spread it over columns"
_CASE = "write CASE WHEN ... THEN ... END"
_LITERAL = "write the value into the text"

REFUSED: dict[type[exp.Expr] | tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.Create, "replace"): ("CREATE OR REPLACE", "a name is given once; choose another"),
    (exp.Create, "exists"): ("IF NOT EXISTS", "a name is given once; leave it out"),
    exp.Schema: ("a column list after the view's name", "name columns with AS in the SELECT"),
    exp.TemporaryProperty: ("TEMPORARY", "a view lives as long as its catalog; leave it out"),
    exp.MaterializedProperty: ("MATERIALIZED", "the engine decides what is materialised; leave it out"),
    exp.SchemaCommentProperty: ("COMMENT", "write -- comment"),
    exp.With: ("WITH", "make each common table expression a view of its own and name it in FROM"),
    exp.Order: ("ORDER BY", _BAG),
    exp.Limit: ("LIMIT", _BAG),
    exp.Fetch: ("FETCH", _BAG),
    exp.Offset: ("OFFSET", _BAG),
    exp.Window: ("a window (OVER)", _OVER),
    exp.Qualify: ("QUALIFY", _OVER),
    exp.Into: ("INTO", "a view's rows are emitted by step(); leave it out"),
    exp.Lock: ("FOR UPDATE", "reads take no locks; leave it out"),
    (exp.Distinct, "on"): ("DISTINCT ON", "group by those columns and take MAX or MIN of the others"),
    (exp.Distinct, "expressions"): (
        "DISTINCT inside an aggregate",
        "make a view with SELECT DISTINCT and aggregate over that",
    ),
    exp.Filter: ("FILTER", "put the condition inside: SUM(CASE WHEN condition THEN x END)"),
    exp.IgnoreNulls: ("IGNORE NULLS", "aggregates skip NULL anyway; leave it out"),
    (exp.Group, "all"): ("GROUP BY ALL", _WITHOUT),
    exp.Cube: ("CUBE", _WITHOUT),
    exp.Rollup: ("ROLLUP", _WITHOUT),
    exp.GroupingSets: ("GROUPING SETS", _WITHOUT),
    (exp.Star, "except_"): ("EXCLUDE", "write out the columns that you want"),
    (exp.Star, "replace"): ("REPLACE", "write out the columns that you want"),
    (exp.Star, "rename"): ("RENAME", "write out the columns that you want"),
    (exp.Table, "db"): ("a qualified table name", "relations have plain names; leave the schema out"),
    (exp.Table, "joins"): ("a join in parentheses", "write the joins in a row, or make the inner one a view"),
    (exp.Subquery, "alias"): ("an alias after parentheses", "make what is inside a view of its own and name that"),
    exp.TableSample: ("TABLESAMPLE", "a view is a function of its relations; filter by a column"),
    exp.Pivot: ("PIVOT", "write one SUM(CASE WHEN ... THEN x END) for each column"),
    exp.Version: ("time travel in SQL", "pass at= to read()"),
    exp.Lateral: ("LATERAL", _EQUI),
    exp.Unnest: ("UNNEST", _FLAT),
    exp.Values: ("VALUES", "put the rows in a relation"),
    (exp.TableAlias, "columns"): ("a column list in a table alias", "rename columns with AS in a view"),
    (exp.Column, "db"): ("a column with more than a table before it", "write table.column"),
    exp.Exists: ("EXISTS", _SUBQUERY),
    **dict.fromkeys(((a, "expressions") for a in _AGGREGATES), ("an aggregate of several values", "give it one")),
    (exp.Union, "distinct"): ("UNION without ALL", "write SELECT DISTINCT over a view with UNION ALL"),
    (exp.Union, "by_name"): ("BY NAME", "put the columns in one order"),
    (exp.In, "query"): ("IN (SELECT ...)", "join with a view that is SELECT DISTINCT of that column"),
    (exp.In, "unnest"): ("UNNEST", _FLAT),
    exp.Any: ("ANY", "write IN (...)"),
    exp.All: ("ALL", "write the comparisons out with AND"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "put the lower bound first"),
    exp.Placeholder: ("a parameter", _LITERAL),
    exp.Parameter: ("a parameter", _LITERAL),
    exp.Like: ("LIKE", _TEXT),
    exp.ILike: ("ILIKE", _TEXT),
    exp.SimilarTo: ("SIMILAR TO", _TEXT),
    exp.RegexpLike: ("a regular expression", _TEXT),
    exp.Glob: ("GLOB", _TEXT),
    exp.DPipe: ("||", _TEXT),
    exp.Collate: ("COLLATE", "strings compare by code point"),
    exp.TryCast: ("TRY_CAST", "write CAST; text that does not parse is an error, not NULL"),
    (exp.Cast, "format"): ("CAST with FORMAT", "dates and timestamps are read in ISO form"),
    (exp.DataType, "expressions"): (
        "a type with parameters",
        "write STRING, INT, BIGINT, DOUBLE or another plain type",
    ),
    exp.ByteString: ("a string with escapes", "write it between single quotes"),
    exp.RawString: ("a string between dollars", "write it between single quotes"),
    exp.BitwiseAnd: ("&", _NUMBERS),
    exp.BitwiseOr: ("|", _NUMBERS),
    exp.BitwiseNot: ("~", _NUMBERS),
    exp.IntDiv: ("//", "write CAST((a - a % b) / b AS BIGINT)"),
    exp.Pow: ("a power", _NUMBERS),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", "write a = b OR (a IS NULL AND b IS NULL)"),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", "compare with <> and IS NULL"),
    exp.If: ("IF()", _CASE),
    exp.Nullif: ("NULLIF", _CASE),
    exp.Interval: ("INTERVAL", "dates are compared and grouped, not added to"),
    exp.AtTimeZone: ("AT TIME ZONE", "timestamps have no zone"),
    exp.Tuple: ("a list of values in parentheses", "compare and group by single columns"),
    exp.Array: ("an array", _FLAT),
    exp.Struct: ("a struct", _FLAT),
    exp.Bracket: ("a subscript", _FLAT),
    exp.Dot: ("a field of a struct", _FLAT),
}
"""Node class, or a node class and one of its arguments -> its name in SQL and the way out."""


def check(tree: exp.Expr) -> None:
    """Raise SqlError, naming it, at the first part of ``tree`` that :data:`ALLOWED` does not list."""
    for node in tree.walk(bfs=False):
        if type(node) not in ALLOWED or (isinstance(node, exp.If) and not isinstance(node.parent, exp.Case)):
            _refuse(node)
        for name, value in node.args.items():
            if name in ALLOWED[type(node)] or value is None or value is False or value == [] or name.startswith("_"):
                continue
            if (type(node), name) in REFUSED:
                raise _refusal(*REFUSED[type(node), name])
            children = value.expressions if isinstance(value, exp.Properties) else value
            children = children if isinstance(children, list) else [children]
            for child in children:
                if isinstance(child, exp.Expr):
                    _refuse(child)
            raise _refusal(f"{name.strip('_').upper()} in {show(node)}", "leave it out")


def _refuse(node: exp.Expr) -> None:
    for key in type(node).__mro__:
        if key in REFUSED:
            raise _refusal(*REFUSED[key])
    if isinstance(node, exp.AggFunc):
        raise _refusal(f"the aggregate {_name(node)}", "the aggregates are MAX, MIN, SUM, COUNT and AVG")
    if isinstance(node, (exp.Except, exp.Intersect)):
        raise _refusal(type(node).__name__.upper(), "join the two sides, or count each side's rows and compare")
    if isinstance(node, exp.Func):
        raise _refusal(f"the function {_name(node)}", "functions are COALESCE, CAST and the five aggregates")
    raise _refusal(show(node), "see docs/sql.md for what is")


def _name(node: exp.Func) -> str:
    return str(node.this).upper() if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) else node.sql_name()


def _refusal(what: str, way_out: str) -> SqlError:
    return SqlError(f"{what} is not supported: {way_out}")


def show(node: exp.Expr) -> str:
    """SQL text of a part of a view, shortened, for messages."""
    text = " ".join(node.sql(comments=False).split())
    return text if len(text) <= 60 else text[:57] + "..."
