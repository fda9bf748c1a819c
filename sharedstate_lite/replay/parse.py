"""Parses messages from tuples, dictionaries and typed text. Every error message is a single line.

    ("visit", ("Potato", "Eve", 60))        ("visit", ("Potato", "Eve", 60), -1)
    {"visit": [(("Potato", "Eve", 60), +1)], "info": frame}         one epoch; the diffs of a frame are in
                                                                    its ``diff`` column, or all +1
    ("read", "result", "Vegetable")         ("evict", "result", None)
    ("install", "visits")  ("drop", "visits")  ("hold", "slow", 3)  ("pause",)  ("resume",)
    "+1 visit Potato, Eve, 60; -1 visit Carrot, Bob, 50"            "read result Vegetable"

Typed values are parsed according to the column types of the relation. Text in quotes is taken literally.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from numbers import Integral
from typing import Any

import pandas as pd

from ..changelog.read_tables import index_remedy
from ..errors import Error, RelationError, RowError, ViewError, shorten
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from .messages import (
    Deliver,
    Drop,
    Epoch,
    Evict,
    Hold,
    Install,
    Message,
    Pause,
    Read,
    Resume,
    Unreadable,
    Values,
    typed_name,
)

MESSAGES = (Epoch, Read, Evict, Install, Drop, Hold, Pause, Deliver, Resume, Unreadable)
VERBS = ("read", "evict", "install", "drop", "hold", "pause", "deliver", "resume")
_SIGN = re.compile(r"([+−-])\s*([0-9]*)\s+(?=\S)|(insert|delete)\s+", re.IGNORECASE)
_NAME = re.compile(r'"((?:[^"]|"")+)"|(\w[^\s;,"(\[]*)')


class MessageParser:
    """Parses messages that refer to the relations and views of a catalog."""

    def __init__(self, relations: Mapping[str, Schema], views: Mapping[str, View]) -> None:
        self._relations, self._views = relations, views

    def message(self, given: Any) -> Message:
        """Parse one message. A message that is already parsed is returned unchanged.

        Raises RelationError, RowError, ViewError or Error if the input is not a valid message.
        """
        if isinstance(given, MESSAGES):
            return given
        if isinstance(given, str):
            return self._text(given)
        if isinstance(given, Mapping):
            return Epoch(
                tuple(self._change(r, *self._pair(r, p)) for r, rows in given.items() for p in self._rows(r, rows))
            )
        if isinstance(given, Sequence) and given and isinstance(given[0], str):
            if given[0].lower() in VERBS and not self._is_row(given):
                return self._verb(given[0].lower(), list(given[1:]))
            return Epoch((self._short(given),))
        if isinstance(given, Sequence) and not isinstance(given, bytes) and all(self._is_row(g) for g in given):
            return Epoch(tuple(self._short(g) for g in given))
        raise Error(f"{shorten(given)} is not a message; pass (relation, row), (relation, row, diff) or a string")

    # --- rows -------------------------------------------------------------------

    @staticmethod
    def _is_row(given: Any) -> bool:
        return (
            isinstance(given, Sequence)
            and len(given) in (2, 3)
            and isinstance(given[0], str)
            and isinstance(given[1], tuple | list)
            and (len(given) == 2 or isinstance(given[2], int))
        )

    def _short(self, given: Sequence[Any]) -> tuple[str, Values, int]:
        if not self._is_row(given):
            if given[0].lower() not in map(str.lower, self._relations):
                known = ", ".join(self._relations) or "none"
                raise Error(f"{given[0]} is neither a relation ({known}) nor one of {', '.join(VERBS)}")
            raise RowError(f"{given[0]}: {shorten(given)} is not a change; pass (relation, (value, ...), +1)")
        return self._change(given[0], given[1], given[2] if len(given) == 3 else 1)

    def _change(self, relation: str, row: Any, diff: Any) -> tuple[str, Values, int]:
        name, schema = self._relation(relation)
        if len(row) != len(schema):
            raise _width(name, len(row), schema)
        if isinstance(diff, bool) or not isinstance(diff, Integral):
            raise RowError(f"{name}: {shorten(diff)} is not a diff; use an integer such as +1 (insert) or -1 (delete)")
        return name, tuple(row), int(diff)

    def _rows(self, relation: Any, rows: Any) -> Any:
        if isinstance(rows, pd.DataFrame):
            return self._frame(relation, rows)
        if isinstance(rows, str | Mapping) or not isinstance(rows, Sequence):
            raise RowError(f"{relation}: {type(rows).__name__} is not a list of rows; pass [((value, ...), diff), ...]")
        return rows

    def _frame(self, relation: Any, frame: pd.DataFrame) -> list[tuple[Values, Any]]:
        """Return the rows of a frame with their diffs. Columns are matched by name.

        If the frame does not have a ``diff`` column, every diff is +1.
        """
        name, schema = self._relation(relation)
        found = {str(c).lower(): i for i, c in enumerate(frame.columns)}
        lacks = [c.name for c in schema if c.name.lower() not in found]
        if lacks:
            raise RowError(
                f"{name}: the frame lacks {', '.join(lacks)}; its columns must be {', '.join(c.name for c in schema)}"
                f"{index_remedy(frame, lacks)}"
            )
        places = [found[c.name.lower()] for c in schema]
        lines = [_cells(frame.iloc[:, i]) for i in places]
        diffs = _cells(frame.iloc[:, found["diff"]]) if "diff" in found else [1] * len(frame)
        return list(zip(zip(*lines, strict=True), diffs, strict=True))

    @staticmethod
    def _pair(relation: Any, pair: Any) -> tuple[Any, Any]:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], tuple | list):
            raise RowError(f"{relation}: {shorten(pair)} is not a change; pass ((value, ...), +1)")
        return pair[0], pair[1]

    def _relation(self, name: Any) -> tuple[str, Schema]:
        for known, schema in self._relations.items():
            if isinstance(name, str) and known.lower() == name.lower():
                return known, schema
        raise RelationError(f"relation {name} does not exist; the relations are {', '.join(self._relations) or 'none'}")

    # --- operations -------------------------------------------------------------

    def _verb(self, verb: str, rest: list[Any]) -> Message:
        if verb in ("pause", "resume"):
            return Pause() if verb == "pause" else Resume()
        if not rest:
            raise Error(f"{verb} needs a name; for example: {_EXAMPLE[verb]}")
        first = rest[0].name if isinstance(rest[0], View) else rest[0]
        if verb == "deliver":
            if len(rest) != 2:
                raise Error(f"deliver needs a sender and a receiver; for example: {_EXAMPLE[verb]}")
            return Deliver(str(first), str(rest[1]))
        if verb == "hold":
            time = rest[1] if len(rest) > 1 else None
            if time is not None and (isinstance(time, bool) or not isinstance(time, int)):
                raise Error(f"hold {first}: the time must be the number of an epoch, not {shorten(time)}")
            return Hold(str(first), time)
        view = self._view(first)
        if verb in ("install", "drop"):
            return Install(view.name) if verb == "install" else Drop(view.name)
        key = rest[1] if len(rest) > 1 else None
        if key is not None or (len(rest) > 1 and verb == "read"):
            key = tuple(key) if isinstance(key, tuple | list) else (key,)
        return Read(view.name, key) if verb == "read" else Evict(view.name, key)

    def _view(self, name: Any) -> View:
        for view in self._views.values():
            if isinstance(name, str) and view.name.lower() == name.lower():
                return view
        raise ViewError(f"view {name} does not exist; the views are {', '.join(self._views) or 'none'}")

    # --- text -------------------------------------------------------------------

    def _text(self, text: str) -> Message:
        text = text.strip()
        word = text.split(None, 1)[0].lower() if text else ""
        if not text:
            raise Error("the message is empty; type a message such as " + self._example())
        if word in VERBS and word not in (r.lower() for r in self._relations):
            return self._typed_verb(word, text[len(word) :].strip())
        return Epoch(tuple(self._typed(part) for part in _split(text, ";") if part.strip()))

    def _typed_verb(self, verb: str, rest: str) -> Message:
        words = [_plain(found) for found in _NAME.finditer(rest)]
        if verb in ("read", "evict"):
            first = _NAME.match(rest)
            head, tail = ("", rest) if first is None else (_plain(first), rest[first.end() :])
            named = head.lower() in (v.lower() for v in self._views)
            if not named and len(self._views) == 1 and rest:
                head, tail = next(iter(self._views)), rest
            view = self._view(head) if head else None
            if view is None:
                return self._verb(verb, [])
            key = tuple(view.schema[i] for i in view.key)
            return self._verb(
                verb, [view.name, _values(tail, key, f"the key of {view.name}")] if tail.strip() else [view.name]
            )
        if verb == "hold" and len(words) > 1:
            if not re.fullmatch(r"[0-9]{1,18}", words[1]):
                raise Error(f"hold {words[0]}: the time must be the number of an epoch, not {words[1][:40]}")
            return Hold(words[0], int(words[1]))
        return self._verb(verb, words)

    def _typed(self, text: str) -> tuple[str, Values, int]:
        sign = _SIGN.match(text.strip() + " ")
        diff, rest = 1, text.strip()
        if sign:
            rest = rest[sign.end() :]
            # int() refuses strings of several thousand digits, and a valid diff has at most 19.
            times = int((sign[2] or "1").lstrip("0")[:40] or "0")
            diff = times if (sign[1] or sign[3].lower()) in ("+", "insert") else -times
        found = _NAME.match(rest)
        if not found:
            raise Error(f"{text.strip()[:40]} is not a message; type a message such as " + self._example())
        name, schema = self._relation(_plain(found))
        return name, _values(rest[found.end() :], schema, name), diff

    def _example(self) -> str:
        name, schema = next(iter(self._relations.items()), ("relation", ()))
        return f"+1 {typed_name(name)} {', '.join(_SAMPLE[c.type] for c in schema)}"


def _plain(found: re.Match[str]) -> str:
    """Return a typed name without its quotes."""
    return found[2] or found[1].replace('""', '"')


def _cells(column: pd.Series[Any]) -> list[Any]:
    """Return a column as Python values, with None for NULL."""
    values = column.astype(object).where(column.notna(), None).tolist()
    return [v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in values]


_EXAMPLE = {
    "read": "read result Vegetable",
    "evict": "evict result Vegetable",
    "install": "install visits",
    "drop": "drop visits",
    "hold": "hold slow 3",
    "deliver": "deliver visit result.join1",
}
_SAMPLE = {
    Type.STRING: "text",
    Type.INT: "1",
    Type.BIGINT: "1",
    Type.DOUBLE: "1.5",
    Type.BOOLEAN: "TRUE",
    Type.DATE: "2024-02-29",
    Type.TIMESTAMP: "2024-02-29 12:00:00",
}


def _width(name: str, given: int, schema: Schema) -> RowError:
    wanted = ", ".join(c.name for c in schema)
    many = "value" if len(schema) == 1 else "values"
    return RowError(f"{name} takes {len(schema)} {many} ({wanted}), but the message has {given}")


def _split(text: str, mark: str) -> list[str]:
    """Split a text at each ``mark`` that is not within quotes."""
    parts, quote = [""], ""
    for c in text:
        quote = "" if c == quote else quote or (c if c in "'\"" else "")
        if c == mark and not quote:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _values(text: str, schema: Schema, name: str) -> Values:
    """Parse typed values according to the types of the columns.

    Values are separated by commas, or by spaces if splitting at spaces yields the right number of values.
    """
    inner = text.strip()
    if inner[:1] in "([" and inner[-1:] in ")]":
        inner = inner[1:-1]
    parts = _split(inner, ",") if inner.strip() else []
    if len(parts) != len(schema) and len(words := [w for w in _split(inner, " ") if w]) == len(schema):
        parts = words
    if len(parts) != len(schema):
        raise _width(name, len(parts), schema)
    return tuple(_value(p.strip(), c, name) for p, c in zip(parts, schema, strict=True))


def _value(text: str, column: Column, name: str) -> Any:
    quoted = len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]
    bare = text[1:-1].replace("''", "'") if quoted else text
    if not quoted and bare.upper() == "NULL":
        return None
    try:
        # Text pasted from a web page can contain a typographic minus.
        return _AS[column.type](bare if column.type is Type.STRING else bare.replace("−", "-"))
    except (ValueError, KeyError):
        raise RowError(f"{name}: {column.name} must be {_WORDS[column.type]}, not {text or 'empty'}") from None


_AS: dict[Type, Any] = {
    Type.STRING: str,
    Type.INT: int,
    Type.BIGINT: int,
    Type.DOUBLE: float,
    Type.BOOLEAN: lambda t: {"true": True, "false": False, "yes": True, "no": False}[t.lower()],
    Type.DATE: date.fromisoformat,
    Type.TIMESTAMP: datetime.fromisoformat,
}
_WORDS = {
    Type.STRING: "a string",
    Type.INT: "a whole number",
    Type.BIGINT: "a whole number",
    Type.DOUBLE: "a number",
    Type.BOOLEAN: "TRUE or FALSE",
    Type.DATE: "a date such as 2024-02-29",
    Type.TIMESTAMP: "a time such as 2024-02-29 12:00:00",
}
