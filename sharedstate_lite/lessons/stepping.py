"""Shows a loop of the engine, and runs it in Python one line at a time.

    source  returns the code of a loop
    steps   runs an action, and lists what the lines of a loop change

>>> import numpy as np
>>> from sharedstate_lite import loops
>>> print(source("lower").splitlines()[0])
def lower(words, start, stop, word):
>>> steps("lower", lambda: loops.lower(np.array([10, 20, 30]), 0, 3, 25), ["start", "middle", "stop"])
                           line  start middle  stop
0            while start < stop      0            3
1  middle = (start + stop) >> 1      0      1     3
2            start = middle + 1      2      1     3
3  middle = (start + stop) >> 1      2      2     3
4                 stop = middle      2      2     2
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from .. import loops
from ..loops.compiled import functions


def source(loop: str) -> str:
    """Return the code of a loop of ``sharedstate_lite.loops``, without types and docstring."""
    text = inspect.getsource(functions()[loop][0])
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.FunctionDef)
    names = ", ".join(argument.arg for argument in definition.args.args)
    return "\n".join([f"def {loop}({names}):", *text.splitlines()[definition.body[0].end_lineno :]])


def steps(loop: str, action: Callable[[], object], names: Sequence[str]) -> pd.DataFrame:
    """Run an action, and return the lines of a loop that change one of the variables ``names`` in its first call.

    Python runs the loop. Each line has the values after it. Of an array, the value is its first element.
    """
    function = functions()[loop][0]
    assert isinstance(function, FunctionType)
    code = inspect.getsource(function).splitlines()
    told: list[list[Any]] = []
    current: list[Any] = []

    def values(frame: FrameType) -> list[Any]:
        found = [frame.f_locals.get(name, "") for name in names]
        return [each.flat[0] if isinstance(each, np.ndarray) else each for each in found]

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code is function.__code__ and not current else None

    def line(frame: FrameType, event: str, _: Any) -> Any:
        now = values(frame)
        if current and (not told or now != told[-1][1:]):
            told.append([current[0], *now])
        current[:] = [code[frame.f_lineno - function.__code__.co_firstlineno].strip().rstrip(":")]
        return line

    compiled, before = getattr(loops, loop), sys.gettrace()
    setattr(loops, loop, function)
    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(before)
        setattr(loops, loop, compiled)
    return pd.DataFrame(told, columns=["line", *names])
