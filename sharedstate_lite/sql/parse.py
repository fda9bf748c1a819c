"""Parses ``CREATE VIEW name AS SELECT ...`` into a checked sqlglot tree.

sqlglot's ``duckdb`` dialect builds the tree. It also accepts invalid SQL, because it adds missing parentheses and words
and drops some words. Therefore DuckDB's parser must accept the text too, and the tokens are searched for words that
sqlglot drops.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import SqlError, shorten
from .grammar import ALLOWED, EQUI, LISTED, check, foreign

if TYPE_CHECKING:
    import duckdb

TOO_DEEP = "the SQL is nested too deeply; split it into several views"
_NO_QUERY = re.compile(r"\s*CREATE\s+VIEW\s+(\S+)\s+AS(?:\s+|--.*\n)*(CREATE\b|;|(?:--.*)?$)", re.IGNORECASE)
# Tokens that can end the name of a type. A name can have several words, as in TIMESTAMP WITHOUT TIME ZONE.
_TYPE_ENDS = {*Dialect.get_or_raise("duckdb").parser_class.TYPE_TOKENS, TokenType.VAR}


def parse(text: str) -> tuple[str, exp.Expr]:
    """Parse a CREATE VIEW statement. Return the view's name and its checked query.

    Raises SqlError if the text does not parse, if it is not exactly one CREATE VIEW statement, or if it contains syntax
    that `grammar` does not list.
    """
    if not isinstance(text, str):
        raise SqlError(f"a view must be a string, not {type(text).__name__}; write CREATE VIEW name AS SELECT ...")
    tokens, statements = _statements(text)
    if not statements:
        raise SqlError("the SQL is empty; write CREATE VIEW name AS SELECT ...")
    if len(statements) != 1:
        raise SqlError(f"expected one statement, got {len(statements)}; declare each view in a separate call")
    create = statements[0]
    if isinstance(create, exp.Query):
        raise SqlError("the SELECT does not name a view; write CREATE VIEW name AS SELECT ...")
    if not isinstance(create, exp.Create) or create.args["kind"] != "VIEW" or create.expression is None:
        _check_syntax(text)
        if isinstance(create, exp.Command) and [t.text.upper() for t in tokens[:2]] == ["CREATE", "VIEW"]:
            _check_query(tokens, text)
        raise SqlError(f"{tokens[0].text.upper()} ... does not declare a view; write CREATE VIEW name AS SELECT ...")
    name = create.this.find(exp.Table).name
    try:
        check(create)
        _check_dropped(tokens, create)
        _check_syntax(text, create)
    except SqlError as error:
        raise SqlError(f"view {name}: {error}") from error.__cause__
    return name, create.expression


class _Parser(DuckDBParser):
    """Stores the word that the text uses for a function or a type, because many words become the same node."""

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        begin = self._curr
        call = node = super()._parse_function_call(*args, **kwargs)
        while isinstance(node, (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
            node = node.this
        if node is not None:
            node.meta["word"] = begin.text
        return call

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        begin = self._curr
        node = super()._parse_types(*args, **kwargs)
        if isinstance(node, exp.DataType):
            node.meta["word"] = " ".join(self.sql[begin.start : self._prev.end + 1].split())
        return node

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        # The number of arguments of an unsupported function does not matter.
        unsupported = isinstance(expression, exp.Func) and type(expression) not in ALLOWED
        return expression if unsupported else super().validate_expression(expression, args)


def _statements(text: str) -> tuple[list[Token], list[exp.Expr]]:
    dialect = Dialect.get_or_raise("duckdb")
    try:
        with _quiet():
            tokens = dialect.tokenize(text)
            parsed = _Parser(dialect=dialect).parse(tokens, text)
    except RecursionError as error:
        raise SqlError(TOO_DEEP) from error
    except SqlglotError as error:
        _check_syntax(text)
        raise _unparsed(error) from error
    return tokens, [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]


def _unparsed(error: SqlglotError) -> SqlError:
    """Return the error for text that DuckDB's parser accepts and sqlglot's does not."""
    if not isinstance(error, ParseError):
        return SqlError(f"the SQL does not parse: {str(error).splitlines()[0]}")
    found, line = error.errors[0]["highlight"], error.errors[0]["line"]
    quote = 'to use a reserved word as a name, put it in double quotes, as in AS "select"'
    rule = quote if re.fullmatch(r"\w+|`", found) else LISTED
    return SqlError(f"the SQL does not parse at {shorten(found)}, line {line}; {rule}")


def _check_query(tokens: list[Token], text: str) -> None:
    """Raise SqlError if the query of a CREATE VIEW has a syntax error.

    sqlglot does not report this error. It returns the complete statement as an unknown command instead.
    """
    begin = next((at for at, t in enumerate(tokens, 1) if t.token_type is TokenType.ALIAS), len(tokens))
    try:
        Dialect.get_or_raise("duckdb").parser().parse(tokens[begin:], text)
    except ParseError as error:
        raise _unparsed(error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence sqlglot's log. It warns about text that it returns as a Command, but the kit rejects a Command anyway."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _check_dropped(tokens: list[Token], tree: exp.Expr) -> None:
    """Raise SqlError for syntax that sqlglot accepts but does not keep in its tree."""
    kinds = [t.token_type for t in tokens]
    for token, after in zip(tokens, tokens[1:], strict=False):
        if token.token_type is TokenType.NUMBER and after.token_type is TokenType.VAR and after.start == token.end + 1:
            raise SqlError(f"{token.text}{after.text} is not a valid number; write it in decimal digits")
    for kind, literal, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        # sqlglot parses TYPE 'text'::T as TYPE ('text'::T), but in SQL it means (TYPE 'text')::T.
        if [literal.token_type, after.token_type] == [TokenType.STRING, TokenType.DCOLON]:
            if kind.token_type in _TYPE_ENDS:
                shown = f"{kind.text.upper()} {shorten(literal.text)}"
                raise SqlError(f"{shown}::... is not supported: write ({shown})::...")
    if kinds.count(TokenType.PLUS) != sum(1 for _ in tree.find_all(exp.Add)):
        raise SqlError("a unary + is not supported: leave it out")
    # sqlglot uses the same node for a comma and for a JOIN without a condition.
    bare = (j for j in tree.find_all(exp.Join) if j.kind in ("", "INNER", "OUTER") and not j.args.get("method"))
    commas = sum(1 for j in bare if j.args.get("on") is None and not j.args.get("using"))
    if kinds.count(TokenType.JOIN) + commas > sum(1 for _ in tree.find_all(exp.Join)):
        raise SqlError(f"a JOIN without ON or USING is not supported: {EQUI}")


def _check_syntax(text: str, tree: exp.Expr | None = None) -> None:
    """Raise SqlError if DuckDB's parser rejects the text.

    The names in ``tree`` are quoted first, because DuckDB reserves more words than sqlglot. Aliases are not quoted,
    because a reserved word in the place of an alias is the beginning of an incomplete clause.
    """
    import duckdb  # imported here because the import takes 0.25 s and only a new view needs it

    names = [] if tree is None else [n for n in tree.find_all(exp.Identifier) if "start" in n.meta]
    for name in sorted(names, key=lambda n: -int(n.meta["start"])):
        if not name.args.get("quoted") and not isinstance(name.parent, (exp.Alias, exp.TableAlias)):
            start, end = name.meta["start"], name.meta["end"] + 1
            text = f'{text[:start]}"{text[start:end]}"{text[end:]}'
    try:
        _connection().extract_statements(text)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0].removeprefix("Parser Error: ").replace('""', '"')
        if "expression depth" in reason:
            raise SqlError(TOO_DEEP) from error
        line = re.search(r"^LINE (\d+):", str(error), re.MULTILINE)
        place = f"{reason}{f', line {line[1]}' if line else ''}"
        raise (
            _no_query(text)
            or foreign(text)
            or SqlError(f"the SQL does not parse: {place}; this is either a typo or unsupported SQL ({LISTED})")
        ) from error


def reserved(name: str) -> bool:
    """Return whether DuckDB's parser does not accept this name as that of a column, unless it is quoted."""
    import duckdb

    try:
        _connection().extract_statements(f"SELECT {name}, 1 FROM t")
    except duckdb.Error:
        return True
    return False


def _no_query(text: str) -> SqlError | None:
    """Return the error for a view whose query is missing, or is a CREATE VIEW itself; None for any other text."""
    found = _NO_QUERY.match(text)
    if found is None:
        return None
    rule = "must not begin with CREATE VIEW" if found[2].upper() == "CREATE" else "is empty"
    return SqlError(f"view {found[1]}: the query after AS {rule}; write a SELECT there, such as SELECT a, b FROM t")


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that is used only to parse text."""
    import duckdb

    return duckdb.connect()
