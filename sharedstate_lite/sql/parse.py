"""Parses ``CREATE VIEW name AS SELECT ...`` to a checked sqlglot tree.

sqlglot's ``duckdb`` dialect builds the tree. It accepts more than SQL: it adds missing parentheses and words, and drops
some words. So DuckDB's parser must accept the text too, and words that sqlglot drops are found among the tokens.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import SqlError, shorten
from .grammar import check

if TYPE_CHECKING:
    import duckdb

TOO_DEEP = "the SQL is nested too deeply; split it over views"
_TEXTS = (TokenType.VARCHAR, TokenType.CHAR, TokenType.NVARCHAR, TokenType.NCHAR, TokenType.BPCHAR, TokenType.TEXT)
# The last token of a type's name, which may have several words (TIMESTAMP WITHOUT TIME ZONE).
_TYPE_ENDS = {*Dialect.get_or_raise("duckdb").parser_class.TYPE_TOKENS, TokenType.VAR}


def parse(text: str) -> tuple[str, exp.Expr]:
    """Return a view's name and its checked query.

    Raises SqlError for text that does not parse, for anything but one CREATE VIEW, and for syntax that `grammar` does
    not list.
    """
    if not isinstance(text, str):
        raise SqlError(f"a view must be SQL text, not {type(text).__name__}")
    tokens, statements = _statements(text)
    if len(statements) != 1:
        raise SqlError(f"{len(statements)} statements instead of one; declare each view in its own call")
    create = statements[0]
    if isinstance(create, exp.Query):
        raise SqlError("a SELECT without a name; write CREATE VIEW name AS SELECT ...")
    if not isinstance(create, exp.Create) or create.args["kind"] != "VIEW" or create.expression is None:
        _check_syntax(text)
        if isinstance(create, exp.Command) and [t.text.upper() for t in tokens[:2]] == ["CREATE", "VIEW"]:
            _check_query(tokens, text)
        raise SqlError(f"{tokens[0].text.upper()} ... is not a view; write CREATE VIEW name AS SELECT ...")
    name = create.this.find(exp.Table).name
    try:
        check(create)
        _check_dropped(tokens, create)
        _check_syntax(text, create)
    except SqlError as error:
        raise SqlError(f"view {name}: {error}") from error.__cause__
    return name, create.expression


def _statements(text: str) -> tuple[list[Token], list[exp.Expr]]:
    dialect = Dialect.get_or_raise("duckdb")
    try:
        with _quiet():
            tokens = dialect.tokenize(text)
            parsed = dialect.parser().parse(tokens, text)
    except RecursionError as error:
        raise SqlError(TOO_DEEP) from error
    except SqlglotError as error:
        _check_syntax(text)
        raise SqlError(f"the SQL does not parse: {str(error).splitlines()[0]}") from error
    return tokens, [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]


def _check_query(tokens: list[Token], text: str) -> None:
    """Raise SqlError for the syntax error because of which sqlglot returned a view as an unknown command."""
    begin = next((at for at, t in enumerate(tokens, 1) if t.token_type is TokenType.ALIAS), len(tokens))
    try:
        Dialect.get_or_raise("duckdb").parser().parse(tokens[begin:], text)
    except ParseError as error:
        found = error.errors[0]
        raise SqlError(
            f"the SQL does not parse at {shorten(found['highlight'])}, line {found['line']}: "
            'quote it with double quotes: AS "select"'
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence sqlglot's log. It warns of text that it returns as a Command, which is refused anyway."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _check_dropped(tokens: list[Token], tree: exp.Expr) -> None:
    """Refuse syntax that is missing in sqlglot's tree."""
    kinds = [t.token_type for t in tokens]
    for token, after in zip(tokens, tokens[1:], strict=False):
        if token.token_type is TokenType.NUMBER and after.token_type is TokenType.VAR and after.start == token.end + 1:
            raise SqlError(f"{token.text}{after.text} is not a number here; write it in decimal digits")
        if token.token_type in _TEXTS and after.token_type is TokenType.L_PAREN:
            raise SqlError(f"{token.text} with a length is not supported: write STRING, which has no limit")
        if token.text.upper() == "NVL" and after.token_type is TokenType.L_PAREN:
            raise SqlError("the function NVL is not supported: write COALESCE")  # DuckDB does not have it either
    for kind, literal, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        # sqlglot reads TYPE 'text'::T as TYPE ('text'::T); in SQL it is (TYPE 'text')::T.
        if [literal.token_type, after.token_type] == [TokenType.STRING, TokenType.DCOLON]:
            if kind.token_type in _TYPE_ENDS:
                shown = f"{kind.text.upper()} {shorten(literal.text)}"
                raise SqlError(f"{shown}::... is not supported: write ({shown})::...")
    if kinds.count(TokenType.PLUS) != sum(1 for _ in tree.find_all(exp.Add)):
        raise SqlError("+ before a value is not supported: leave it out")
    # In the tree, a comma and a JOIN without a condition are the same node.
    bare = (j for j in tree.find_all(exp.Join) if j.kind in ("", "INNER", "OUTER") and not j.args.get("method"))
    commas = sum(1 for j in bare if j.args.get("on") is None and not j.args.get("using"))
    if kinds.count(TokenType.JOIN) + commas > sum(1 for _ in tree.find_all(exp.Join)):
        raise SqlError("a JOIN without ON or USING is not supported: write JOIN ... USING (column) or ON a.x = b.y")


def _check_syntax(text: str, tree: exp.Expr | None = None) -> None:
    """Raise SqlError if DuckDB's parser refuses the text.

    The names of ``tree`` are quoted first, because DuckDB reserves more words. An alias is not: a reserved word there
    starts an incomplete clause.
    """
    import duckdb  # late: it takes 0.25 s, and only a new view needs it

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
        raise SqlError(f"the SQL does not parse: {reason}{f', line {line[1]}' if line else ''}") from error


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return a connection that is used for its parser only."""
    import duckdb

    return duckdb.connect()
