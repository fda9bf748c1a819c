"""What is refused, told by the expression that the caller wrote, its type, and both ways out."""

from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType

from ...errors import Error

WAYS = "tasks share what nobody can change, or what one process owns: {immutable}; or {owned}"
READ_ONLY = "hand over an Arrow table or a CSR graph, which every task maps read-only ({how})"
OWNED = "have the runtime own it, and send it batches ({how})"
EVERY = "ConcurrentSet, Cache, ConnectionPool, AsyncRuntime or Mailbox"
HINTS = {
    "dict": ("w.share(pa.table({'key': list(it), 'value': list(it.values())}))", "w.Cache(session, capacity=...)"),
    "list": ("w.share(pa.table({'value': it}))", "w.ConcurrentSet(session) for what tasks add to"),
    "set": ("w.share(pa.table({'value': list(it)}))", "w.ConcurrentSet(session) for what tasks add to"),
    "ndarray": ("w.share(pa.table({'value': it}))", EVERY),
    "pandas": ("w.share(pa.Table.from_pandas(it))", "w.Cache(session, capacity=...)"),
    "pyspark": ("w.share(it.toArrow())", EVERY),
    "connection": ("w.share(table) of what you would read through it", "w.ConnectionPool(session, dsn)"),
    "lock": ("w.share(table) of what it guards", "the runtime, which does one thing after the other: " + EVERY),
}


def error(call: str, value: object, expression: str, why: str = "") -> Error:
    """The error for a value that is not safe to share."""
    read_only, owned = HINTS.get(_sort(value), ("w.share(table)", EVERY))
    ways = WAYS.format(immutable=READ_ONLY.format(how=read_only), owned=OWNED.format(how=owned))
    return Error(f"{call}: {expression} is a {type_name(value)}, which is not safe to share{why}; {ways}")


def type_name(value: object) -> str:
    """The full name of a value's type."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def argument_text(called: str, name: str, position: int = 0) -> str:
    """The expression that stands for an argument in the call of ``called`` that the caller of this package wrote.

    Where the source cannot be read, or calls something else (``map(share, all)``), the argument's name.
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
    """What a called expression is called, where it is written and where it is from."""
    if isinstance(function, ast.Attribute):
        return {function.attr}
    if not isinstance(function, ast.Name):
        return set()
    found = frame.f_locals.get(function.id, frame.f_globals.get(function.id))
    return {function.id, str(getattr(found, "__name__", ""))}


def _call(frame: FrameType) -> ast.Call | None:
    """The call that a frame is in."""
    places = list(frame.f_code.co_positions())
    first, last, start, end = places[frame.f_lasti // 2]
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if first is None or last is None or start is None or end is None or last > len(lines):
        return None
    # Positions count bytes of UTF-8.
    text = [line.encode() for line in lines[first - 1 : last]]
    text[-1] = text[-1][:end]
    text[0] = text[0][start:]
    try:
        tree = ast.parse(b"(" + b"".join(text) + b")", mode="eval")
    except SyntaxError:
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None


def _sort(value: object) -> str:
    """Which hint suits a value."""
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
