"""What a function that is sent to the runtime takes along: nothing that tasks could change behind each other's back.

A copy would be sent, so nothing could be corrupted; but what a task changes in its own
copy nobody else would see, which is not what whoever wrote it meant.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import dis
import enum
import functools
import re
import types
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from . import unsafe
from .handle import SharedHandle

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, types.ModuleType),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, uuid.UUID, enum.Enum),
    *(re.Pattern, np.generic, np.dtype, np.ufunc, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table),
    *(pa.Schema, pa.DataType, pa.Scalar, SharedHandle),
)


CHANGED = (dict, list, set, bytearray, np.ndarray)


def check(call: str, function: Any) -> None:
    """Raise Error where the function refers to something that can be changed, by the name that it has there."""
    seen: set[int] = set()
    own = getattr(function, "__name__", "the function")
    for name, value in _of(function, seen):
        if name in _assigned(function):
            raise unsafe.error(call, value, name, f" where it is assigned to: {own} would do so to a copy of it")
        if not _safe(value, seen):
            raise unsafe.error(call, value, name, f", and {own} would take a copy of it along")


def _of(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What a function refers to by itself and through the functions it calls, if they are sent with it."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from ((f"argument {at} of the partial", value) for at, value in enumerate(function.args))
        yield from function.keywords.items()
        yield from _of(function.func, seen)
    elif isinstance(function, types.MethodType):
        yield f"the object of {function.__qualname__}", function.__self__
        yield from _of(function.__func__, seen)
    elif isinstance(function, types.FunctionType):
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # nothing has been assigned to it yet
                yield name, cell.cell_contents
        # A function of a module is sent by its name, and finds its globals there.
        if _by_value(function):
            for name in _names(code, "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
                if name in function.__globals__:
                    yield name, function.__globals__[name]
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield "a default", value


def _assigned(function: Any) -> set[str]:
    """The names from outside that a function assigns to."""
    if not isinstance(function, types.FunctionType):
        return set()
    outside = _names(function.__code__, "STORE_DEREF") & set(function.__code__.co_freevars)
    return outside | (_names(function.__code__, "STORE_GLOBAL") if _by_value(function) else set())


def _by_value(what: Any) -> bool:
    """Whether a function or a class is sent as it is, and not by its name."""
    return what.__module__ == "__main__" or "<locals>" in what.__qualname__


def _names(code: types.CodeType, *operations: str) -> set[str]:
    """The names that code, and code within it, uses so; what has the name as an attribute is not meant."""
    out = {str(step.argval) for step in dis.get_instructions(code) if step.opname in operations}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            out |= _names(constant, *operations)
    return out


def _safe(value: Any, seen: set[int]) -> bool:
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, type):
        # A class that is sent takes along what its objects have in common.
        return not (_by_value(value) and any(isinstance(part, CHANGED) for part in _common(value)))
    if isinstance(value, tuple | frozenset):
        return all(_safe(part, seen) for part in value)
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        return not _assigned(value) and all(_safe(part, seen) for _, part in _of(value, seen))
    if callable(value) and not hasattr(value, "__dict__") and type(value).__module__ == "builtins":
        # That of a list, such as its append, has the list.
        return _safe(getattr(value, "__self__", None), seen)
    return False


def _common(kind: type) -> list[Any]:
    return [value for name, value in vars(kind).items() if not name.startswith("_")]
