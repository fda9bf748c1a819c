"""Shows a loop of the engine, and runs it in Python one line at a time.

    source  returns the code of a loop, without its docstring
    steps   runs an action, and lists the lines that it executes in a loop

>>> import numpy as np
>>> from sharedstate_lite import loops
>>> print(source("lower").splitlines()[0])
def lower(words: Any, start: int, stop: int, word: int) -> int:
>>> steps("lower", lambda: loops.lower(np.array([10, 20, 30]), 0, 3, 20), ["start", "stop"]).tail(2)
                line  start  stop
8  while start < stop:      1     1
9        return start      1     1
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

import pandas as pd

from .. import loops
from ..loops.compiled import functions


def source(loop: str) -> str:
    """Return the code of a loop of ``sharedstate_lite.loops``, without its signature for Numba and its docstring."""
    text = inspect.getsource(functions()[loop][0])
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.FunctionDef)
    told, lines = definition.body[0], text.splitlines()
    return "\n".join(lines[definition.lineno - 1 : told.lineno - 1] + lines[told.end_lineno :])


def steps(loop: str, action: Callable[[], object], names: Sequence[str]) -> pd.DataFrame:
    """Run an action, and return each line that it executes in its first call of a loop, which Python runs.

    The columns after the line are the variables ``names`` when the line has been executed.
    """
    function = functions()[loop][0]
    assert isinstance(function, FunctionType)
    code, (first, *_) = inspect.getsource(function).splitlines(), [function.__code__.co_firstlineno]
    told: list[dict[str, Any]] = []
    call: list[FrameType] = []

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not function.__code__ or call:
            return None
        call.append(frame)
        return line

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if told:
            told[-1] |= {name: frame.f_locals.get(name, "") for name in names}
        if event == "line":
            told.append({"line": code[frame.f_lineno - first]})
        return line

    compiled, before = getattr(loops, loop), sys.gettrace()
    setattr(loops, loop, function)
    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(before)
        setattr(loops, loop, compiled)
    return pd.DataFrame(told)
