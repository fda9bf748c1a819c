"""What a function that is sent to the runtime takes along: nothing that tasks could change behind each other's back.

A copy would be sent, so nothing could be corrupted; but what a task changes in its own
copy nobody else would see, which is not what whoever wrote it meant.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import re
import types
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from . import refusal
from .handles import Handle

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, type, types.ModuleType, types.BuiltinFunctionType),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal, uuid.UUID, enum.Enum),
    *(re.Pattern, np.generic, np.dtype, np.ufunc, pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table),
    *(pa.Schema, pa.DataType, pa.Scalar, Handle),
)


def check(call: str, function: Any) -> None:
    """Raise Error where the function refers to something that can be changed, by the name that it has there."""
    seen: set[int] = set()
    for name, value in _of(function, seen):
        if not _safe(value, seen):
            where = f", and {getattr(function, '__name__', 'the function')} would take a copy of it along"
            raise refusal.refuse(call, value, name, where)


def _of(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What a function refers to by itself and through the functions it calls, if they are sent with it."""
    if id(function) in seen or not isinstance(function, types.FunctionType):
        return
    seen.add(id(function))
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    # A function of a module is sent by its name, and finds its globals there.
    if function.__module__ == "__main__" or "<locals>" in function.__qualname__:
        for name in _names(code):
            if name in function.__globals__:
                yield name, function.__globals__[name]
    for value in function.__defaults__ or ():
        yield "a default", value


def _names(code: types.CodeType) -> set[str]:
    """The names that code, and code within it, looks up."""
    out = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            out |= _names(constant)
    return out


def _safe(value: Any, seen: set[int]) -> bool:
    if isinstance(value, PLAIN):
        return True
    if isinstance(value, tuple | frozenset):
        return all(_safe(part, seen) for part in value)
    if isinstance(value, types.FunctionType):
        return all(_safe(part, seen) for _, part in _of(value, seen))
    return callable(value) and not hasattr(value, "__dict__") and type(value).__module__ == "builtins"
