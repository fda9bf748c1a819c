"""Defines the supported SQL syntax. Any other syntax is rejected with an error that names it.

`ALLOWED` lists the supported node classes of sqlglot's tree and their arguments. A tree that contains anything else is
rejected before it is bound, so no part of a view's text is silently ignored. For common unsupported syntax, `REFUSED`
contains a name and a rule, or advice on what to write instead.
"""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import exp
from sqlglot.generator import Generator

from ..errors import SqlError
from ..plan.nodes import Type

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

TYPES = {
    "TEXT": Type.STRING,
    "VARCHAR": Type.STRING,
    "INT": Type.INT,
    "BIGINT": Type.BIGINT,
    "DOUBLE": Type.DOUBLE,
    "BOOLEAN": Type.BOOLEAN,
    "DATE": Type.DATE,
    "TIMESTAMP": Type.TIMESTAMP,
    "TIMESTAMPNTZ": Type.TIMESTAMP,
    "DATETIME": Type.TIMESTAMP,
}
"""Maps sqlglot's names of the supported types to the types."""

_BAG = "the rows of a view have no order; to sort or limit a whole view, use the frame that read() returns"
_WINDOW = "the engines do not maintain windows"
EQUI = "a join needs an equality between columns, as in USING (column) or ON a.x = b.y"
_PER_GROUP = "combine one SELECT per grouping with UNION ALL, with CAST(NULL AS type) for the columns it leaves out"
_DISTINCT = "declare a view d as SELECT DISTINCT k FROM b"
_PRESENT = "write a LEFT JOIN d ON a.k = d.k, and replace"
_TEXT = "there are no string functions; compute the value before you insert the row"
_NUMBERS = "the arithmetic operators are + - * / %"
_FLAT = "a value must have one of the seven column types"
_SAME = "write COALESCE(a = b, a IS NULL AND b IS NULL)"
REWRITE = "docs/sql.md shows how to write it"
_AGGREGATE = "the aggregates are MAX, MIN, SUM, COUNT and AVG"
_FUNCTION = "the functions are COALESCE, CAST, MAX, MIN, SUM, COUNT and AVG"
LISTED = "docs/sql.md lists the supported SQL"

REFUSED: dict[type[exp.Expr] | tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.Create, "replace"): ("CREATE OR REPLACE", "a name can be declared only once; choose another name"),
    (exp.Create, "exists"): ("IF NOT EXISTS", "a name can be declared only once; leave out IF NOT EXISTS"),
    exp.Schema: ("a column list after the view's name", "name the columns with AS in the SELECT"),
    exp.TemporaryProperty: ("a temporary view", "a view lives as long as its catalog"),
    exp.MaterializedProperty: ("MATERIALIZED", "the engine decides what to materialise; leave out MATERIALIZED"),
    exp.SchemaCommentProperty: ("COMMENT", "write a comment after -- instead"),
    exp.With: ("WITH", "declare each common table expression as a view and use it in FROM"),
    (exp.With, "recursive"): ("WITH RECURSIVE", "a view cannot read itself"),
    exp.Order: ("ORDER BY", _BAG),
    exp.Limit: ("LIMIT", _BAG),
    exp.Fetch: ("FETCH", _BAG),
    exp.Offset: ("OFFSET", _BAG),
    exp.Sort: ("SORT BY", _BAG),
    exp.Distribute: ("DISTRIBUTE BY", _BAG),
    exp.Window: ("a window (OVER or WINDOW)", _WINDOW),
    exp.Qualify: ("QUALIFY", _WINDOW),
    exp.Into: ("INTO", "step() returns the changes of a view"),
    exp.Lock: ("FOR UPDATE (or FOR SHARE)", "reads take no locks"),
    (exp.Distinct, "on"): ("DISTINCT ON", "the rows of a view have no order"),
    (exp.Distinct, "expressions"): (
        "DISTINCT inside an aggregate",
        "declare a view with SELECT DISTINCT of the GROUP BY columns and the argument, and aggregate that argument",
    ),
    exp.Filter: ("FILTER", "write SUM(CASE WHEN condition THEN x END), and for COUNT(*), COUNT(CASE ... THEN 1 END)"),
    exp.IgnoreNulls: ("IGNORE NULLS", "aggregates always skip NULL"),
    exp.WithinGroup: ("WITHIN GROUP", _AGGREGATE),
    (exp.Group, "all"): ("GROUP BY ALL", "list the columns"),
    exp.Cube: ("CUBE", _PER_GROUP),
    exp.Rollup: ("ROLLUP", _PER_GROUP),
    exp.GroupingSets: ("GROUPING SETS", _PER_GROUP),
    (exp.Star, "except_"): ("EXCLUDE", "list the columns"),
    (exp.Star, "replace"): ("REPLACE", "list the columns"),
    (exp.Star, "rename"): ("RENAME", "list the columns"),
    (exp.Table, "db"): ("a qualified table name", "leave out the schema"),
    (exp.Table, "joins"): ("a join in parentheses", "declare the inner join as a view"),
    (exp.Subquery, "alias"): ("an alias after parentheses", "declare the part in parentheses as a view"),
    exp.TableSample: ("TABLESAMPLE (or USING SAMPLE)", "a view must depend only on its relations"),
    exp.Pivot: ("PIVOT", "write one aggregate per value, as in MAX(CASE WHEN k = 1 THEN x END)"),
    (exp.Pivot, "unpivot"): ("UNPIVOT", "combine one SELECT ... WHERE x IS NOT NULL per column with UNION ALL"),
    exp.Version: ("time travel", "read(view, at=epoch) returns the rows of an earlier epoch"),
    exp.Lateral: ("LATERAL (or APPLY)", "a table in FROM cannot use the columns of another one"),
    (exp.Lateral, "view"): ("LATERAL VIEW", _FLAT),
    exp.Unnest: ("UNNEST", _FLAT),
    exp.Explode: ("UNNEST", _FLAT),
    exp.Values: ("VALUES", "put the rows in a relation"),
    (exp.TableAlias, "columns"): ("a column list in a table alias", "rename the columns with AS in a separate view"),
    (exp.Column, "db"): ("a column name with more than one qualifier", "write table.column"),
    (exp.Join, "RIGHT"): (
        "RIGHT JOIN",
        "swap the sides and write LEFT JOIN; if a side is a join, declare it as a view",
    ),
    (exp.Join, "FULL"): (
        "FULL JOIN",
        "add the unmatched rows of the right table to a LEFT JOIN with UNION ALL (in full and shared state)",
    ),
    (exp.Join, "NATURAL"): ("NATURAL JOIN", "write USING with all columns that both tables have"),
    (exp.Join, "SEMI"): ("SEMI JOIN", f"{_DISTINCT}, and write a JOIN d ON a.k = d.k"),
    (exp.Join, "ANTI"): ("ANTI JOIN", "write a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL"),
    (exp.Join, "ASOF"): ("ASOF JOIN", EQUI),
    (exp.Join, "POSITIONAL"): ("POSITIONAL JOIN", EQUI),
    (exp.Join, "CROSS"): ("CROSS JOIN", EQUI),
    exp.Exists: (
        "EXISTS",
        f"if it compares b.k = a.k, {_DISTINCT}, {_PRESENT} EXISTS by d.k IS NOT NULL, or NOT EXISTS by d.k IS NULL",
    ),
    **dict.fromkeys(
        ((a, "expressions") for a in _AGGREGATES),
        ("an aggregate with several arguments", "an aggregate takes one argument"),
    ),
    (exp.Union, "distinct"): ("UNION without ALL", "write SELECT DISTINCT over a view with UNION ALL"),
    (exp.Union, "by_name"): ("BY NAME", "list the columns in the same order in every SELECT"),
    exp.Except: ("EXCEPT", REWRITE),
    (exp.Except, "all"): ("EXCEPT ALL", "only UNION ALL combines queries and keeps duplicates"),
    exp.Intersect: ("INTERSECT", REWRITE),
    (exp.Intersect, "all"): ("INTERSECT ALL", "only UNION ALL combines queries and keeps duplicates"),
    (exp.In, "query"): ("IN (SELECT ...)", f"{_DISTINCT}, {_PRESENT} a.k IN (...) by d.k IS NOT NULL"),
    (exp.In, "NOT query"): ("NOT IN (SELECT ...)", REWRITE),
    (exp.In, "correlated query"): ("a correlated IN (SELECT ...)", "its SELECT uses a column of the outer query"),
    (exp.In, "other query"): ("IN (SELECT ...)", REWRITE),
    (exp.In, "unnest"): ("UNNEST", _FLAT),
    exp.Any: ("ANY", "write one comparison per value, combined with OR"),
    (exp.Any, "query"): ("ANY", "an operand cannot be a SELECT"),
    exp.All: ("ALL", "an operand cannot be a SELECT"),
    (exp.Is, "value"): ("IS with a value", f"for a IS b, {_SAME}; for a IS NOT b, write NOT before it"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "the lower bound comes first"),
    **dict.fromkeys((exp.Placeholder, exp.Parameter), ("a parameter", "write the value as a literal")),
    exp.Like: ("LIKE", _TEXT),
    exp.ILike: ("ILIKE", _TEXT),
    exp.SimilarTo: ("SIMILAR TO", _TEXT),
    exp.RegexpLike: ("a regular expression", _TEXT),
    exp.Glob: ("GLOB", _TEXT),
    exp.DPipe: ("||", _TEXT),
    exp.JSONExtract: ("->", _TEXT),
    exp.JSONExtractScalar: ("->>", _TEXT),
    exp.Collate: ("COLLATE", "strings are always compared by code point"),
    exp.TryCast: ("TRY_CAST", "CAST raises an error for text that cannot be converted"),
    (exp.Cast, "format"): ("CAST with FORMAT", "dates and timestamps must be in ISO form"),
    exp.DataType: ("the type", "the types are STRING, INT, BIGINT, DOUBLE, BOOLEAN, DATE and TIMESTAMP"),
    exp.ByteString: ("a string with escapes", "write the characters themselves in single quotes"),
    exp.RawString: ("a dollar-quoted string", "write it in single quotes, and double each single quote in it"),
    exp.BitwiseAnd: ("&", _NUMBERS),
    exp.BitwiseOr: ("|", _NUMBERS),
    exp.BitwiseNot: ("~", _NUMBERS),
    exp.IntDiv: ("integer division", "for values of type INT, write CAST((a - a % b) / b AS BIGINT)"),
    exp.Pow: ("the power operator", _NUMBERS),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM (or <=>)", _SAME),
    (exp.NullSafeEQ, "join"): (
        "IS NOT DISTINCT FROM (or <=>) between tables",
        "declare views with COALESCE(k, 0) AS j and k IS NULL AS n, and join them with USING (j, n)",
    ),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", _SAME.replace("COALESCE", "NOT COALESCE")),
    (exp.If, "function"): ("IF", "write CASE WHEN ... THEN ... ELSE ... END"),
    exp.Nullif: ("NULLIF", "write CASE WHEN a = b THEN NULL ELSE a END"),
    (exp.Coalesce, "NVL"): ("the function", _FUNCTION),
    exp.Interval: ("INTERVAL", "there is no date arithmetic; compute the value before you insert the row"),
    exp.AtTimeZone: ("AT TIME ZONE", "timestamps have no time zone; convert the value before you insert the row"),
    exp.Tuple: ("a list of values in parentheses", "a comparison, IN and GROUP BY take single values"),
    exp.Array: ("an array", _FLAT),
    exp.Struct: ("a struct", _FLAT),
    exp.Bracket: ("a subscript", _FLAT),
    exp.Dot: ("a field of a struct", _FLAT),
}
"""Maps unsupported syntax to its name in SQL and to a rule or advice for the user.

A key is a node class, or a node class and one of its arguments or `_variant`s. Advice must give the same rows: the
table "Rewrites" of docs/sql.md has an example of each, and the tests compare it with other databases.
"""

_SIDE = "(?:LEFT|RIGHT|FULL|INNER|OUTER)"
FOREIGN: dict[str, str] = {
    r"EMIT (?:CHANGES|FINAL|ON WINDOW CLOSE)": "step() returns the changes of a view",
    r"WINDOW (?:TUMBLING|HOPPING|SESSION)|(?:TUMBLE|HOP|CUMULATE)(?= \( TABLE\b)": _WINDOW,
    r"MATCH_RECOGNIZE(?= \()": LISTED,
    rf"(?:{_SIDE} )*(?:ASOF|ANY|SEMI|ANTI)(?: {_SIDE})* JOIN": EQUI,
    r"0x\w+": "write the number in decimal digits",
    r"MINUS(?= SELECT)": "docs/sql.md shows how to write EXCEPT",
    r"TOP(?= \d)|SORT BY": _BAG,
}
"""Maps patterns of unsupported syntax that does not parse to a rule or advice. The text has one space between words."""


def check(tree: exp.Expr) -> None:
    """Raise SqlError for the first part of ``tree`` that is not listed in `ALLOWED`."""
    for node in tree.walk(bfs=False):
        if type(node) not in ALLOWED or _variant(node):
            _refuse(node)
        if isinstance(node, exp.In) and not (node.expressions or node.args.get("unnest")):
            raise SqlError(f"the list in {show(node)} is empty, but a list needs a value")
        for name, value in node.args.items():
            if name in ALLOWED[type(node)] or value is None or value is False or value == [] or name.startswith("_"):
                continue
            children = value.expressions if isinstance(value, exp.Properties) else value
            children = children if isinstance(children, list) else [children]
            for child in children:
                if isinstance(child, exp.Expr):
                    _refuse(child)
            raise _refusal(f"{name.strip('_').upper()} in {show(node)}", LISTED)


def _variant(node: exp.Expr) -> str:
    """Return the second part of the key of ``node`` in `REFUSED`, or "" if only its class can have a key."""
    if isinstance(node, exp.Join):
        words = [str(node.args.get(a) or "").upper() for a in ("method", "side", "kind")]
        odd = [w for w in words if w not in ("", "LEFT", "INNER", "OUTER")]
        return (odd[0] if len(odd) == 1 and (exp.Join, odd[0]) in REFUSED else "ASOF") if odd else ""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        inner = {table.alias_or_name.lower() for table in node.args["query"].find_all(exp.Table)}
        if any(c.table.lower() not in {"", *inner} for c in node.args["query"].find_all(exp.Column)):
            return "correlated query"
        if isinstance(_above(node, exp.Paren), exp.Not):
            return "NOT query"
        return "query" if isinstance(_above(node, exp.Paren, exp.And, exp.Or), exp.Where) else "other query"
    if isinstance(node, exp.NullSafeEQ):
        tables = {side.table for side in (node.this, node.expression) if isinstance(side, exp.Column)}
        required = isinstance(_above(node, exp.Paren, exp.And), (exp.Join, exp.Where))
        return "join" if required and len(tables) == 2 else ""
    if isinstance(node, exp.Any):
        return "query" if node.find(exp.Query) else ""
    if isinstance(node, (exp.Except, exp.Intersect)):
        return "" if node.args.get("distinct") else "all"
    if isinstance(node, exp.If):
        return "" if isinstance(node.parent, exp.Case) else "function"
    if isinstance(node, exp.Is):
        return "" if isinstance(node.expression, exp.Null) else "value"
    if isinstance(node, exp.Coalesce):
        return "NVL" if word(node).upper() == "NVL" else ""
    if isinstance(node, exp.DataType):
        known = getattr(node.this, "name", "") in TYPES
        return "" if known and "(" not in word(node) and not node.args.get("expressions") else "other"
    return next((a for a, value in node.args.items() if value and (type(node), a) in REFUSED), "")


def _above(node: exp.Expr, *through: type[exp.Expr]) -> exp.Expr | None:
    """Return the nearest node above ``node`` that is not an instance of ``through``."""
    above = node.parent
    while isinstance(above, through):
        above = above.parent
    return above


def _refuse(node: exp.Expr) -> NoReturn:
    if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
        node = node.this  # sqlglot adds this IGNORE NULLS itself
    for key in ((type(node), _variant(node)), *type(node).__mro__):
        if key in REFUSED:
            name, rule = REFUSED[key]
            raise _refusal(_own_name(node, name), rule)
    if isinstance(node, exp.AggFunc):
        raise _refusal(f"the aggregate {word(node)}", _AGGREGATE)
    if word(node):
        raise _refusal(f"the function {word(node)}", _FUNCTION)
    raise _refusal(show(node), LISTED)


def _own_name(node: exp.Expr, name: str) -> str:
    """Return the name of ``node`` in the words of its text. ``name`` is its name in `REFUSED`."""
    if isinstance(node, exp.Join):
        return " ".join(str(node.args[a]).upper() for a in ("method", "side", "kind") if node.args.get(a)) + " JOIN"
    if name in ("the type", "the function"):
        return f"{name} {word(node)}"
    return name if isinstance(node, (*_AGGREGATES, exp.Cast)) else word(node) or name


def _refusal(what: str, rule: str) -> SqlError:
    return SqlError(f"{what} is not supported: {rule}")


def foreign(text: str) -> SqlError | None:
    """Return the error for the first part of ``text`` that matches a pattern of `FOREIGN`, or None."""
    bare = " ".join(re.sub(r"""'[^']*'|"[^"]*"|--.*""", " ", text).replace("(", " ( ").split())
    for pattern, rule in FOREIGN.items():
        found = re.search(rf"\b(?:{pattern})", bare, re.IGNORECASE)
        if found:
            return _refusal(found[0], rule)
    return None


def word(node: exp.Expr) -> str:
    """Return the name of a function or of a type as it is written in the view's text, or "" if it is not known."""
    return str(node.meta.get("word", ""))


class _Shown(Generator):
    """Generates SQL with the view's own words for types and for COALESCE."""

    def datatype_sql(self, expression: exp.DataType) -> str:
        return word(expression) or super().datatype_sql(expression)

    def coalesce_sql(self, expression: exp.Coalesce) -> str:
        return self.func(word(expression), expression.this, *expression.expressions)


def show(node: exp.Expr) -> str:
    """Return the SQL of a node for error messages, shortened to at most 60 characters."""
    text = " ".join(_Shown(comments=False).generate(node).split())
    return text if len(text) <= 60 else text[:57] + "..."
