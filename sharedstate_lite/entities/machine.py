"""A compiled method: blocks, which are functions ``(self, frame) -> (next block, frame) | Ask | Return``.

A frame is a dict of the names that the rest of the method still needs. It is data: it can be logged, sent, and shown.

A carrier runs a `Machine` so: give ``machine.blocks[0].run`` the entity and ``machine.frame(args)``. A tuple names the
next block and its frame. `Ask` is a question: when the answer is there, put it into ``frame[ask.name]`` and run
``blocks[ask.then]``; if the answer is an exception, `Machine.caught` says which block goes on. `Return` is the end. A
block may change the lists in its frame: a carrier that keeps a frame copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .declare import Reference, copied, key_of

Frame = dict[str, Any]


class Ask:
    """A question: ``who`` is a reference, ``args`` is None if ``what`` is an attribute, else a copy of them.

    ``what`` is ``__init__`` for a creation; its answer is the reference, or Refused if the key exists.
    """

    __slots__ = ("who", "what", "args", "then", "name", "frame")

    def __init__(
        self, who: Reference, what: str, args: tuple[Any, ...] | None, then: int, name: str, frame: Frame
    ) -> None:
        if not isinstance(who, Reference):
            raise AttributeError(f"{type(who).__name__!r} object has no attribute {what!r}")
        self.who, self.what, self.then, self.name, self.frame = who, what, then, name, frame
        self.args: tuple[Any, ...] | None = copied(args, "an argument")


class Return:
    """The end of a method: its result."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Step = tuple[int, Frame] | Ask | Return


def copied_frame(frame: Frame) -> Frame:
    """Return a copy of a frame. Raises NotPlain, with the name, for what is neither data nor an exception."""
    return {name: value if isinstance(value, Exception) else copied(value, name) for name, value in frame.items()}


class Handler(NamedTuple):
    """An except clause: a block with it hands an exception of ``types``, as ``name``, to block ``to``."""

    types: tuple[type[BaseException], ...]
    name: str
    to: int
    live: tuple[str, ...]


class Edge(NamedTuple):
    """Where a block can go: ``label`` is empty, the name of an answer, or ``except`` with its classes."""

    to: int
    label: str


class Asked(NamedTuple):
    """A question in a block: who is asked, of which class, for what, and which names travel until the answer."""

    who: str
    cls: str
    what: str
    args: tuple[str, ...] | None
    name: str
    then: int
    travels: tuple[str, ...]


class CompiledBlock(NamedTuple):
    """A block of a machine: its function, and what a picture of it needs."""

    number: int
    run: Callable[[Any, Frame], Step]
    live: tuple[str, ...]
    handlers: tuple[Handler, ...]
    lines: tuple[tuple[int, str], ...]
    edges: tuple[Edge, ...]
    asks: tuple[Asked, ...]


class Machine(NamedTuple):
    """A compiled method. ``blocks`` by number; the first is 0. ``annotations``: for each parameter a text, or empty."""

    cls: str
    method: str
    parameters: tuple[str, ...]
    annotations: tuple[str, ...]
    defaults: tuple[Any, ...]
    transactional: bool
    blocks: dict[int, CompiledBlock]

    def frame(self, args: Iterable[Any]) -> Frame:
        """Return the first frame. Raises TypeError if there are too many or too few arguments."""
        values = tuple(args)
        missing = len(self.parameters) - len(values)
        if missing < 0 or missing > len(self.defaults):
            raise TypeError(f"{self.cls}.{self.method} takes {len(self.parameters)} arguments, not {len(values)}")
        return dict(zip(self.parameters, values + self.defaults[len(self.defaults) - missing :], strict=True))

    def caught(self, block: int, error: BaseException, frame: Frame) -> tuple[int, Frame] | None:
        """Return where an exception goes that answers a question of a block, or None if the method ends with it."""
        for types, name, to, live in self.blocks[block].handlers:
            if isinstance(error, types):
                return to, {n: error if n == name else frame[n] for n in live}
        return None


def create(cls: type, name: str, args: tuple[Any, ...], then: int, to: str, frame: Frame) -> Ask:
    """Return the question that creates an entity: its key is what ``__key__`` says after ``__init__``."""
    draft: Any = object.__new__(cls)
    draft.__init__(*copied(args, "an argument"))
    return Ask(Reference(name, key_of(draft)), "__init__", args, then, to, frame)
