"""What happens in a run, step by step, as a table: each message that a bin handles, and the frame that it keeps.

>>> from sharedstate_lite.entities import AskMessage, Program, Reference, entity, rounds
>>> @entity
... class Item:
...     def __init__(self, item_id: str, stock: int):
...         self.item_id, self.stock = item_id, stock
...     def __key__(self):
...         return self.item_id
...     def put(self, n: int) -> int:
...         self.stock += n
...         return self.stock
>>> @entity
... class Shelf:
...     def __init__(self, name: str, item: Item):
...         self.name, self.item = name, item
...     def __key__(self):
...         return self.name
...     def fill(self, n: int) -> int:
...         stock = self.item.put(n)
...         return stock + n
>>> bins = [TracedBin(Program(Item, Shelf), number, 4) for number in range(4)]
>>> item, shelf = Reference("Item", "apple"), Reference("Shelf", "left")
>>> _ = rounds(bins, [AskMessage(0, item, "__init__", ("apple", 3), None)])
>>> _ = rounds(bins, [AskMessage(1, shelf, "__init__", ("left", item), None)])
>>> _ = rounds(bins, [AskMessage(2, shelf, "fill", (2,), None)])
>>> for step in steps(bins)[2:]:
...     print(step.entity, step.got, "|", step.sent, step.frame)
Shelf['left'] fill(2) | asks Item['apple'] for put(2) {'n': 2}
Item['apple'] put(2) | answers 5 {}
Shelf['left'] 5 | answers 7 {}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .bins import AnswerMessage, AskMessage, EntityBin, EntityMessage
from .declare import Reference


class TraceStep(NamedTuple):
    """One message that a bin has handled: the round, the bin, the request, the entity and the method that ran.

    ``got`` is the call or the answer that came, ``sent`` what was sent then. ``frame`` has the names of the method that
    waits now, and their values; it is empty once the method has ended.
    """

    round: int
    bin: int
    request: int
    entity: Reference
    method: str
    got: str
    sent: str
    frame: dict[str, Any]


class TracedBin(EntityBin):
    """A bin that writes down each step in ``steps``."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps: list[TraceStep] = []
        self._round = 0

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of one round."""
        self._round += 1
        return super().handle(messages)

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message, and write it down."""
        sent = self.step(message)
        if isinstance(message, AskMessage):
            who, method, got = message.who, message.what, _call(message)
        else:
            assert message.back is not None
            who, method, got = message.back.who, message.back.method, _shown(message)
        waits = sent.back if isinstance(sent, AskMessage) else None
        told = f"asks {sent.who} for {_call(sent)}" if isinstance(sent, AskMessage) else f"answers {_shown(sent)}"
        frame = dict(waits.frame) if waits else {}
        self.steps.append(TraceStep(self._round, self.number, message.request, who, method, got, told, frame))
        return [sent]


def steps(bins: Sequence[TracedBin]) -> list[TraceStep]:
    """Return all steps, in the order of rounds, then of bins."""
    return sorted((step for bin in bins for step in bin.steps), key=lambda step: (step.round, step.bin))


def _call(message: AskMessage) -> str:
    return message.what if message.args is None else f"{message.what}({', '.join(map(repr, message.args))})"


def _shown(message: AnswerMessage) -> str:
    return f"{message.error[0]}: {message.error[1]}" if message.error else repr(message.value)
