"""Entities: Python classes compiled to blocks that can wait for one another, so that a dataflow can run them.

>>> from sharedstate_lite.entities import PlainStore, Program, Refused, entity, transactional
>>> @entity
... class Item:
...     def __init__(self, item_id: str, price: int, stock: int):
...         self.item_id, self.price, self.stock = item_id, price, stock
...     def __key__(self):
...         return self.item_id
...     def take(self, n: int):
...         if self.stock < n:
...             raise Refused("out of stock")
...         self.stock -= n
>>> @entity
... class User:
...     def __init__(self, name: str, balance: int):
...         self.name, self.balance = name, balance
...     def __key__(self):
...         return self.name
...     @transactional
...     def buy(self, n: int, item: Item) -> bool:
...         item.take(n)
...         self.balance -= n * item.price
...         return True
>>> store = PlainStore(Program(User, Item))
>>> store.create("Item", "apple", 3, 5).status, store.create("User", "ann", 100).status
(200, 200)
>>> store.call(User["ann"], "buy", 2, Item["apple"]).value, store.state(User["ann"])["balance"]
(True, 94)

Modules, from the bottom: ``errors``; ``declare`` (classes, references, what is data); ``kinds`` (which names are
references); ``split`` (statements to blocks); ``rules`` (what is refused); ``machine`` (a compiled method),
``liveness`` (the names in a frame) and ``write`` (blocks to functions); ``program``; ``plain`` (a store in one
process); ``bins`` (entities by key, and messages between them); ``epochs`` (transactions over bins) and ``locks``
(their peer); ``routes``, ``log``, ``http1`` and ``serve`` (a program behind HTTP) and ``export`` (that as a folder of
its own). They need only the standard library. ``on_spark`` (bins in Spark's state store) and ``serve_on_spark`` need
the library and PySpark, and are imported only by name.

    python -m sharedstate_lite.entities serve shop.py --port 8000 --data data
    python -m sharedstate_lite.entities export shop.py FOLDER

Source: Psarakis et al., Stateful Entities, EDBT 2024 (StateFlow), where a class is an operator, an object's state the
operator's state, a call an event, and its result the event's payload.
"""

from .bins import AskMessage, EntityBin, rounds
from .declare import Reference, entity, many, new, transactional
from .epochs import Epochs
from .errors import EntityError, EntityWarning, NotPlain, Refused
from .locks import Locks
from .machine import Ask, Machine, Return
from .plain import PlainStore, Reply
from .program import Program
from .trace import TracedBin, steps

Entity = entity
"""The decorator as the talk writes it."""

__all__ = [
    "Ask",
    "AskMessage",
    "Entity",
    "EntityBin",
    "EntityError",
    "EntityWarning",
    "Epochs",
    "Locks",
    "Machine",
    "NotPlain",
    "PlainStore",
    "Program",
    "Reference",
    "Refused",
    "Reply",
    "Return",
    "TracedBin",
    "entity",
    "many",
    "new",
    "rounds",
    "steps",
    "transactional",
]
