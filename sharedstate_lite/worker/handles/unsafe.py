"""The error for a value that is not safe to share.

The message contains the caller's expression, its type, and two ways to share it.
"""

from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType

from ...errors import Error

WAYS = "Tasks can share immutable values, or values that one process owns: {immutable}, or {owned}."
IMMUTABLE = "share an Arrow table or a CSR graph, which every task maps read-only ({how})"
OWNED = "let the runtime own it, and send batches to the runtime ({how})"
EVERY = "ConcurrentSet, Cache, ConnectionPool, AsyncRuntime or Mailbox"
HINTS = {
    "dict": ("w.share(pa.table({'key': list(it), 'value': list(it.values())}))", "w.Cache(session, capacity=...)"),
    "list": ("w.share(pa.table({'value': it}))", "w.ConcurrentSet(session) for values that tasks add"),
    "set": ("w.share(pa.table({'value': list(it)}))", "w.ConcurrentSet(session) for values that tasks add"),
    "ndarray": ("w.share(pa.table({'value': it}))", EVERY),
    "pandas": ("w.share(pa.Table.from_pandas(it))", "w.Cache(session, capacity=...)"),
    "pyspark": ("w.share(it.toArrow())", EVERY),
    "connection": (
        "w.share(table) with the rows that you would read",
        "w.ConnectionPool(session, dsn), or w.Pool(session, connect)",
    ),
    "lock": ("w.share(table) with the data that it protects", "the runtime handles one request at a time: " + EVERY),
}


def error(call: str, value: object, expression: str, why: str = "") -> Error:
    """Return the error that ``call`` raises for a value. ``why`` is appended to "not safe to share".

    ``expression`` is the value's expression in the caller's source text, or another name for it.
    """
    immutable, owned = HINTS.get(_hint(value), ("w.share(table)", EVERY))
    ways = WAYS.format(immutable=IMMUTABLE.format(how=immutable), owned=OWNED.format(how=owned))
    return Error(f"{call}: {expression} is a {type_name(value)}, which is not safe to share{why}. {ways}")


def type_name(value: object) -> str:
    """Return the qualified name of a value's type, such as ``numpy.ndarray``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def argument_text(called: str, name: str, position: int = 0) -> str:
    """Return the source text of an argument in the user's call to ``called``.

    ``name`` and ``position`` identify the parameter. Return ``name`` if the source text is not available, or if the
    user does not call the function directly, as in ``map(share, tables)``.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(f"{__package__}."):
        frame = frame.f_back
    call = _call(frame) if frame is not None else None
    if frame is None or call is None or called not in _names(call.func, frame):
        return name
    found = [keyword.value for keyword in call.keywords if keyword.arg == name]
    if not found and len(call.args) > position and not isinstance(call.args[position], ast.Starred):
        found = [call.args[position]]
    return ast.unparse(found[0]) if found else name


def _names(function: ast.expr, frame: FrameType) -> set[str]:
    """Return the names of the function that a call refers to: the name in the call, and the name in its definition."""
    if isinstance(function, ast.Attribute):
        return {function.attr}
    if not isinstance(function, ast.Name):
        return set()
    found = frame.f_locals.get(function.id, frame.f_globals.get(function.id))
    return {function.id, str(getattr(found, "__name__", ""))}


def _call(frame: FrameType) -> ast.Call | None:
    """Return the syntax tree of the call that a frame is executing, or None if it cannot be found."""
    places = list(frame.f_code.co_positions())
    first, last, start, end = places[frame.f_lasti // 2]
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if first is None or last is None or start is None or end is None or last > len(lines):
        return None
    # Column positions count UTF-8 bytes.
    text = [line.encode() for line in lines[first - 1 : last]]
    text[-1] = text[-1][:end]
    text[0] = text[0][start:]
    try:
        tree = ast.parse(b"(" + b"".join(text) + b")", mode="eval")
    except SyntaxError:
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None


def _hint(value: object) -> str:
    """Return the key in HINTS for a value, or another string if HINTS has no entry for it."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if kind.__name__.lower().endswith(("connection", "cursor", "socket", "session", "client")):
        return "pyspark" if package == "pyspark" and kind.__name__ != "SparkSession" else "connection"
    if package in ("pandas", "pyspark"):
        return package
    for base in (dict, list, set):
        if isinstance(value, base):
            return base.__name__
    return "lock" if "lock" in kind.__name__.lower() else kind.__name__
