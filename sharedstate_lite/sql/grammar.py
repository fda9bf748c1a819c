"""Defines the supported SQL syntax. Any other syntax is rejected with an error that names it.

`ALLOWED` lists the supported node classes of sqlglot's tree and their arguments. A tree that contains anything else is
rejected before it is bound, so no part of a view's text is silently ignored. For common unsupported syntax, `REFUSED`
contains a name and advice on what to write instead.
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
"""Maps each supported node class to the arguments that the binder reads."""

_BAG = "the rows of a view have no order; sort or slice the frame that read() returns"
_OVER = "the engines do not maintain window functions; declare a view with GROUP BY and join it"
_SUBQUERY = "declare the inner SELECT as a view and use it in FROM"
_EQUI = "only equality joins are supported; write JOIN ... USING (column) or ON a.x = b.y"
_WITHOUT = "list the columns in GROUP BY, and declare one view per grouping"
_TEXT = "there are no string functions; compute the value before you insert the row"
_NUMBERS = "the arithmetic operators are + - * / %"
_FLAT = "a value must have one of the seven column types; use several columns"
_CASE = "write CASE WHEN ... THEN ... END"
_LITERAL = "write the value as a literal"

REFUSED: dict[type[exp.Expr] | tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.Create, "replace"): ("CREATE OR REPLACE", "a name can be declared only once; choose another name"),
    (exp.Create, "exists"): ("IF NOT EXISTS", "a name can be declared only once; leave it out"),
    exp.Schema: ("a column list after the view's name", "name the columns with AS in the SELECT"),
    exp.TemporaryProperty: ("TEMPORARY", "a view lives as long as its catalog; leave it out"),
    exp.MaterializedProperty: ("MATERIALIZED", "the engine decides what to materialise; leave it out"),
    exp.SchemaCommentProperty: ("COMMENT", "write a comment after -- instead"),
    exp.With: ("WITH", "declare each common table expression as a view and use it in FROM"),
    exp.Order: ("ORDER BY", _BAG),
    exp.Limit: ("LIMIT", _BAG),
    exp.Fetch: ("FETCH", _BAG),
    exp.Offset: ("OFFSET", _BAG),
    exp.Window: ("a window (OVER)", _OVER),
    exp.Qualify: ("QUALIFY", _OVER),
    exp.Into: ("INTO", "step() returns the changes of a view; leave it out"),
    exp.Lock: ("FOR UPDATE", "reads take no locks; leave it out"),
    (exp.Distinct, "on"): ("DISTINCT ON", "group by those columns and take MAX or MIN of the others"),
    (exp.Distinct, "expressions"): (
        "DISTINCT inside an aggregate",
        "declare a view with SELECT DISTINCT and aggregate over it",
    ),
    exp.Filter: ("FILTER", "write SUM(CASE WHEN condition THEN x END)"),
    exp.IgnoreNulls: ("IGNORE NULLS", "aggregates always skip NULL; leave it out"),
    (exp.Group, "all"): ("GROUP BY ALL", _WITHOUT),
    exp.Cube: ("CUBE", _WITHOUT),
    exp.Rollup: ("ROLLUP", _WITHOUT),
    exp.GroupingSets: ("GROUPING SETS", _WITHOUT),
    (exp.Star, "except_"): ("EXCLUDE", "list the columns"),
    (exp.Star, "replace"): ("REPLACE", "list the columns"),
    (exp.Star, "rename"): ("RENAME", "list the columns"),
    (exp.Table, "db"): ("a qualified table name", "leave out the schema"),
    (exp.Table, "joins"): ("a join in parentheses", "leave out the parentheses, or declare the inner join as a view"),
    (exp.Subquery, "alias"): ("an alias after parentheses", "declare the part in parentheses as a view"),
    exp.TableSample: ("TABLESAMPLE", "a view must depend only on its relations; filter by a column"),
    exp.Pivot: ("PIVOT", "write one SUM(CASE WHEN ... THEN x END) per column"),
    exp.Version: ("time travel in SQL", "pass at= to read()"),
    exp.Lateral: ("LATERAL", _EQUI),
    exp.Unnest: ("UNNEST", _FLAT),
    exp.Values: ("VALUES", "put the rows in a relation"),
    (exp.TableAlias, "columns"): ("a column list in a table alias", "rename the columns with AS in a separate view"),
    (exp.Column, "db"): ("a column name with more than one qualifier", "write table.column"),
    exp.Exists: ("EXISTS", _SUBQUERY),
    **dict.fromkeys(((a, "expressions") for a in _AGGREGATES), ("an aggregate with several arguments", "pass one")),
    (exp.Union, "distinct"): ("UNION without ALL", "write SELECT DISTINCT over a view with UNION ALL"),
    (exp.Union, "by_name"): ("BY NAME", "list the columns in the same order in every SELECT"),
    (exp.In, "query"): ("IN (SELECT ...)", "declare a view that selects the distinct values and join it"),
    (exp.In, "unnest"): ("UNNEST", _FLAT),
    exp.Any: ("ANY", "write IN (...)"),
    exp.All: ("ALL", "write several comparisons combined with AND"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "write the lower bound first"),
    exp.Placeholder: ("a parameter", _LITERAL),
    exp.Parameter: ("a parameter", _LITERAL),
    exp.Like: ("LIKE", _TEXT),
    exp.ILike: ("ILIKE", _TEXT),
    exp.SimilarTo: ("SIMILAR TO", _TEXT),
    exp.RegexpLike: ("a regular expression", _TEXT),
    exp.Glob: ("GLOB", _TEXT),
    exp.DPipe: ("||", _TEXT),
    exp.Collate: ("COLLATE", "strings are always compared by code point; leave it out"),
    exp.TryCast: ("TRY_CAST", "write CAST, which raises an error for text that cannot be converted"),
    (exp.Cast, "format"): ("CAST with FORMAT", "dates and timestamps must be in ISO form"),
    (exp.DataType, "expressions"): (
        "a type with parameters",
        "write STRING, INT, BIGINT, DOUBLE or another type without parameters",
    ),
    exp.ByteString: ("a string with escapes", "write it in single quotes"),
    exp.RawString: ("a dollar-quoted string", "write it in single quotes"),
    exp.BitwiseAnd: ("&", _NUMBERS),
    exp.BitwiseOr: ("|", _NUMBERS),
    exp.BitwiseNot: ("~", _NUMBERS),
    exp.IntDiv: ("//", "write CAST((a - a % b) / b AS BIGINT)"),
    exp.Pow: ("the power operator", _NUMBERS),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", "write a = b OR (a IS NULL AND b IS NULL)"),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", "compare with <> and IS NULL"),
    exp.If: ("IF()", _CASE),
    exp.Nullif: ("NULLIF", _CASE),
    exp.Interval: ("INTERVAL", "there is no date arithmetic; compute the value before you insert the row"),
    exp.AtTimeZone: ("AT TIME ZONE", "timestamps have no time zone; convert the value before you insert the row"),
    exp.Tuple: ("a list of values in parentheses", "compare single columns, and group by single columns"),
    exp.Array: ("an array", _FLAT),
    exp.Struct: ("a struct", _FLAT),
    exp.Bracket: ("a subscript", _FLAT),
    exp.Dot: ("a field of a struct", _FLAT),
}
"""Maps an unsupported node class, or an unsupported argument of one, to its name in SQL and to advice for the user."""


def check(tree: exp.Expr) -> None:
    """Raise SqlError for the first part of ``tree`` that is not listed in `ALLOWED`."""
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
        raise _refusal(f"the aggregate {_name(node)}", "use MAX, MIN, SUM, COUNT or AVG")
    if isinstance(node, (exp.Except, exp.Intersect)):
        raise _refusal(type(node).__name__.upper(), "join the two sides, or compare their counts")
    if isinstance(node, exp.Func):
        raise _refusal(f"the function {_name(node)}", "use COALESCE, CAST or one of the five aggregates")
    raise _refusal(show(node), "docs/sql.md lists the supported SQL")


def _name(node: exp.Func) -> str:
    return str(node.this).upper() if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) else node.sql_name()


def _refusal(what: str, way_out: str) -> SqlError:
    return SqlError(f"{what} is not supported: {way_out}")


def show(node: exp.Expr) -> str:
    """Return the SQL of a node for error messages, shortened to at most 60 characters."""
    text = " ".join(node.sql(comments=False).split())
    return text if len(text) <= 60 else text[:57] + "..."
