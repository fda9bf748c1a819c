"""The errors of an entity program: refused at declaration, refused while it runs, state that is not data."""

from __future__ import annotations

MOST_DEPTH = 500
"""How many questions of a request can wait for one another. The next one raises RecursionError in its asker."""


MOST_BLOCKS = 1_000_000
"""How many blocks of a method can run without a question. Then it ends with RuntimeError: it would never end."""


class Refused(Exception):
    """A method raises it to refuse its request: the answer is 400, and the request's changes are undone."""


class NotPlain(TypeError):
    """An entity's state, an argument or a result is not data. Data are int, str, bool, None, a finite float, a
    reference, and lists, tuples and dicts (with str keys) of data."""


class EntityError(Exception):
    """A class or a program that cannot be compiled: which rule, in which file and line, and what to write instead."""

    def __init__(self, rule: str, file: str, line: int, text: str) -> None:
        super().__init__(f"{file}:{line}: {rule}: {text}")
        self.rule, self.file, self.line, self.text = rule, file, line, text


class EntityWarning(UserWarning):
    """What `EntityError` says, for a rule that only ``Program(..., strict=True)`` refuses."""
