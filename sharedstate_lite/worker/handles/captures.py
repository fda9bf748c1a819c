"""Checks, before a coroutine is sent to the runtime, that it captures only immutable values and handles.

The runtime receives a pickled copy of the coroutine. This would include a copy of each captured mutable value, and
changes to that copy would be lost without an error.
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

MUTABLE = (dict, list, set, bytearray, np.ndarray)


def check(call: str, function: Any) -> None:
    """Raise Error if the function refers to a mutable value.

    The message contains the name by which the function refers to the value. ``call`` is the name of the method that the
    user has called.
    """
    seen: set[int] = set()
    own = getattr(function, "__name__", "the function")
    for name, value in _of(function, seen):
        if name in _assigned(function):
            raise unsafe.error(call, value, name, f": {own} would assign to a copy of it")
        if not _safe(value, seen):
            raise unsafe.error(call, value, name, f": {own} would get a copy of it")


def _of(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each object that a function refers to and that is pickled with it."""
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
            with contextlib.suppress(ValueError):  # the cell is still empty
                yield name, cell.cell_contents
        # A function in an importable module is pickled by name, so its globals are not copied.
        if _by_value(function):
            for name in _names(code, "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
                if name in function.__globals__:
                    yield name, function.__globals__[name]
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield "a default argument", value


def _assigned(function: Any) -> set[str]:
    """Return the nonlocal and global names that a function assigns to."""
    if not isinstance(function, types.FunctionType):
        return set()
    outside = _names(function.__code__, "STORE_DEREF") & set(function.__code__.co_freevars)
    return outside | (_names(function.__code__, "STORE_GLOBAL") if _by_value(function) else set())


def _by_value(what: Any) -> bool:
    """Return True if cloudpickle copies a function or class instead of pickling only its name."""
    return what.__module__ == "__main__" or "<locals>" in what.__qualname__


def _names(code: types.CodeType, *operations: str) -> set[str]:
    """Return the names that these bytecode operations use in ``code`` and in the code nested in it."""
    out = {str(step.argval) for step in dis.get_instructions(code) if step.opname in operations}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            out |= _names(constant, *operations)
    return out


def _safe(value: Any, seen: set[int]) -> bool:
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, type):
        # A class that is pickled by value includes its class attributes.
        return not (_by_value(value) and any(isinstance(part, MUTABLE) for part in _attributes(value)))
    if isinstance(value, tuple | frozenset):
        return all(_safe(part, seen) for part in value)
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        return not _assigned(value) and all(_safe(part, seen) for _, part in _of(value, seen))
    if callable(value) and not hasattr(value, "__dict__") and type(value).__module__ == "builtins":
        # A bound method such as list.append refers to its list.
        return _safe(getattr(value, "__self__", None), seen)
    return False


def _attributes(kind: type) -> list[Any]:
    return [value for name, value in vars(kind).items() if not name.startswith("_")]
