"""Text to syntax: ``CREATE VIEW name AS SELECT ...`` to a checked sqlglot tree.

sqlglot gives the tree, in its ``duckdb`` dialect: double quotes around identifiers,
single quotes around strings. It reads more than SQL, though: it closes parentheses and
supplies words by itself, and drops a few. So DuckDB's own grammar has the last word on
what is SQL at all, and what sqlglot drops is looked for among the tokens.
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
# What may end a type's name; where it is several words (WITHOUT TIME ZONE), the last.
_TYPE_ENDS = {*Dialect.get_or_raise("duckdb").parser_class.TYPE_TOKENS, TokenType.VAR}


def parse(text: str) -> tuple[str, exp.Expr]:
    """A view's name and its checked query.

    Raises SqlError for text that does not parse, for several statements, for anything
    but CREATE VIEW, and for any part of it that :mod:`.grammar` does not let in.
    """
    if not isinstance(text, str):
        raise SqlError(f"a view is given as SQL text, not as {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SqlError("the SQL has a lone surrogate, which is not text; mend it first") from None
    tokens, statements = _statements(text)
    if len(statements) != 1:
        raise SqlError(f"{len(statements)} statements where one was expected; give each view in a call of its own")
    create = statements[0]
    if isinstance(create, exp.Query):
        raise SqlError("a SELECT without a name; write CREATE VIEW name AS SELECT ...")
    if not isinstance(create, exp.Create) or create.args["kind"] != "VIEW" or create.expression is None:
        _check_syntax(text)
        if isinstance(create, exp.Command) and [t.text.upper() for t in tokens[:2]] == ["CREATE", "VIEW"]:
            _check_query(tokens, text)
        raise SqlError(f"{tokens[0].text.upper()} ... is no view; write CREATE VIEW name AS SELECT ...")
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
    """Name what sqlglot could not read in a view that it took for some command of another kind."""
    begin = next((at for at, t in enumerate(tokens, 1) if t.token_type is TokenType.ALIAS), len(tokens))
    try:
        Dialect.get_or_raise("duckdb").parser().parse(tokens[begin:], text)
    except ParseError as error:
        found = error.errors[0]
        raise SqlError(
            f"the SQL does not parse at {shorten(found['highlight'])}, line {found['line']}: "
            'quote a name with double quotes, and a reserved word as a name too: AS "select"'
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """What sqlglot cannot parse it logs and passes on as a Command; that is refused here, so the log is noise."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _check_dropped(tokens: list[Token], tree: exp.Expr) -> None:
    """Refuse what the parser leaves no trace of in its tree."""
    kinds = [t.token_type for t in tokens]
    for token, after in zip(tokens, tokens[1:], strict=False):
        if token.token_type is TokenType.NUMBER and after.token_type is TokenType.VAR and after.start == token.end + 1:
            raise SqlError(f"{token.text}{after.text} is no number here; write it in decimal digits")
        if token.token_type in _TEXTS and after.token_type is TokenType.L_PAREN:
            raise SqlError(f"{token.text} with a length is not supported: write STRING, which has any length")
        if token.text.upper() == "NVL" and after.token_type is TokenType.L_PAREN:
            raise SqlError("the function NVL is not supported: write COALESCE")  # and DuckDB has none of that name
    for kind, literal, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        # The parser casts the text and then makes the literal of it; by the grammar it is the other way round.
        if [literal.token_type, after.token_type] == [TokenType.STRING, TokenType.DCOLON]:
            if kind.token_type in _TYPE_ENDS:
                shown = f"{kind.text.upper()} {shorten(literal.text)}"
                raise SqlError(f"{shown}::... is not supported: write ({shown})::...")
    if kinds.count(TokenType.PLUS) != sum(1 for _ in tree.find_all(exp.Add)):
        raise SqlError("+ before a value is not supported: leave it out")
    # The tree has one node for a comma and for a JOIN that says nothing more.
    bare = (j for j in tree.find_all(exp.Join) if j.kind in ("", "INNER", "OUTER") and not j.args.get("method"))
    commas = sum(1 for j in bare if j.args.get("on") is None and not j.args.get("using"))
    if kinds.count(TokenType.JOIN) + commas > sum(1 for _ in tree.find_all(exp.Join)):
        raise SqlError("a JOIN without ON or USING is not supported: write JOIN ... USING (column) or ON a.x = b.y")


def _check_syntax(text: str, tree: exp.Expr | None = None) -> None:
    """Refuse what DuckDB's parser refuses.

    The names of ``tree`` are quoted first, so that none is taken for a reserved word;
    only an alias stays bare, as a reserved word there is a clause that was broken off.
    """
    import duckdb  # Here, as it takes a quarter of a second, and only a new view needs it.

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
    """A connection for its parser alone."""
    import duckdb

    return duckdb.connect()
