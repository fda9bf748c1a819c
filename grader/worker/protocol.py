"""Questions to a student's code, and its answers, over any channel that carries bytes.

A channel is a `Channel`: `client.Worker` (a process in the sandbox) or a plain process on the student's machine. `ask`
sends one question, answers what the student's code asks in return, and returns an `Answer`.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..outcomes import Outcome
from .answers import ASK, Answer, read

MOST = 1 << 20
"""The maximum number of bytes in an answer."""
MOST_ASKED = 10_000
"""The maximum number of times that the student's code may call functions of the grader in one question."""
Asks = Mapping[str, Callable[..., Any]]
"""The functions of the grader that the student's code can call, by name."""


class RefusedError(Exception):
    """A function of the grader refuses an argument. The student's code receives its text as a ValueError."""


class LateError(Exception):
    """No answer has arrived in time. The message says which limit was reached.

    ``waited``: whether a busy machine may be the reason; ``spent``: whether the time for all checks is used up.
    """

    def __init__(self, message: str, waited: bool = False, spent: bool = False) -> None:
        super().__init__(message)
        self.waited, self.spent = waited, spent


class OverError(Exception):
    """The process uses too much memory or disk. The message says how much."""


class Channel(Protocol):
    """Carries bytes to and from a process that runs `child.py`."""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises LateError, OverError, EOFError or OSError."""

    def read(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes. Raises LateError, OverError, EOFError or OSError."""


def encode(value: Any) -> Any:
    """Return a JSON value for an argument, with tuples as {"(": [...]}.

    >>> encode([(("Fruit", 2), 1)])
    [{'(': [{'(': ['Fruit', 2]}, 1]}]
    """
    if isinstance(value, tuple):
        return {"(": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    return value


def awaited(name: str, *first: Any) -> dict[str, list[Any]]:
    """Return an argument that is an async function of the grader in the student's code, with its first arguments."""
    return {"~": [name, *first]}


def ask(channel: Channel, steps: Sequence[Sequence[Any]], asks: Asks) -> Answer:
    """Send a question and return its answer. `child.py` lists the steps, and ``asks`` what the code can call."""
    number = secrets.token_hex(16)
    try:
        channel.write(_frame({"number": number, "steps": steps}))
        for _ in range(MOST_ASKED):
            (size,) = struct.unpack("!I", channel.read(4))
            if size > MOST:
                return Answer(Outcome.BAD, why=f"the answer has {size:,} bytes; the limit is {MOST:,}")
            answer = read(channel.read(size), number)
            if answer.kind != ASK:
                return answer
            name, args = answer.value
            if name not in asks:
                return Answer(Outcome.BAD, why="not an answer to this question")
            try:
                told = _frame({"told": encode(asks[name](*args))})
            except RefusedError as error:
                told = _frame({"refused": str(error)})
            except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
                told = _frame({"refused": f"{name} does not take these arguments ({type(error).__name__})"})
            channel.write(told)
        return Answer(Outcome.BAD, why=f"more than {MOST_ASKED:,} calls of {name} in one question")
    except LateError as error:
        return Answer(Outcome.TIMEOUT, why=str(error), waited=error.waited, spent=error.spent)
    except OverError as error:
        return Answer(Outcome.CRASH, why=str(error))
    except (EOFError, OSError):
        return Answer(Outcome.CRASH, why="the process exited")


def _frame(value: Any) -> bytes:
    """Return a message. Raises ValueError if the value contains infinity, or a number of more than 4,300 digits."""
    data = json.dumps(value, allow_nan=False).encode()
    return struct.pack("!I", len(data)) + data
