"""The plain carrier: a program's classes as they are written, one request after the other, each whole or not at all.

Every request is a transaction here, whether its method is declared so or not. An exception that leaves the request
undoes all that it has changed. One that a method catches undoes nothing. Arguments and results are copied at every
question, and a loop that asks goes over a copy of its list: as in blocks.

A method runs as ordinary Python, so an endless loop is not detected here. `bins` detects it, because it counts blocks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .declare import ATOMS, Reference, check_state, copied, key_of, text_of
from .errors import MOST_DEPTH, Refused
from .program import Program

_FRAMES = 20_000
"""Python's own limit must not be met before MOST_DEPTH."""


class Reply(NamedTuple):
    """The answer to a request: 200 with a value, 400 if it was refused, 500 for another exception."""

    status: int
    value: Any
    error: Exception | None = None


class PlainStore:
    """All entities of a program in one process.

    >>> from sharedstate_lite.entities import Program, Refused, entity
    >>> @entity
    ... class Item:
    ...     def __init__(self, item_id: str, stock: int):
    ...         self.item_id = item_id
    ...         self.stock = stock
    ...     def __key__(self):
    ...         return self.item_id
    ...     def take(self, n: int):
    ...         self.stock -= n
    ...         if self.stock < 0:
    ...             raise Refused("out of stock")
    >>> store = PlainStore(Program(Item))
    >>> store.create("Item", "apple", 3).value
    Item['apple']
    >>> store.call(Item["apple"], "take", 5).status
    400
    >>> store.state(Item["apple"])
    {'item_id': 'apple', 'stock': 3}
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tables: dict[str, dict[str, Any]] = {name: {} for name in program.declared}
        """For each class the entities by key."""
        self._undo: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._depth = 0
        self.references = {name: _reference(self, name) for name in program.declared}
        self._classes = program.classes(self.references)
        for name, cls in self._classes.items():
            for method in program.cut[name]:
                setattr(cls, "@" + method, getattr(cls, method))
                setattr(cls, method, _own(self, name, method))

    def call(self, who: Reference, method: str, *args: Any) -> Reply:
        """Run a method as a request. MemoryError and what is no Exception are raised, with everything undone."""
        return self._request(lambda: self._ask(who.cls, who.key, method, args))

    def read(self, who: Reference, method: str, *args: Any) -> Reply:
        """Run a method that must not change an entity. If it does, the change is undone and the answer is 500."""
        return self._request(lambda: self._ask(who.cls, who.key, method, args), keep=False)

    def create(self, cls: str, *args: Any) -> Reply:
        """Create an entity as a request; the value is its reference."""
        return self._request(lambda: self._create(cls, args))

    def many(self, cls: str, rows: Iterable[Sequence[Any]]) -> Reply:
        """Create an entity from each row of arguments as one request, and replace those that exist."""

        def run() -> None:
            made = {}
            for row in rows:
                me = self._made(cls, row)
                check_state(cls, me.__dict__)
                made[key_of(me)] = me
            self.tables[cls] |= made

        return self._request(run)

    def state(self, who: Reference) -> dict[str, Any]:
        """Return a copy of an entity's state. Raises KeyError for an unknown one."""
        return {name: copied(value) for name, value in self.tables[who.cls][who.key].__dict__.items()}

    def put(self, who: Reference, state: dict[str, Any]) -> None:
        """Set the state of an entity, in the form that `state` returns."""
        me: Any = object.__new__(self._classes[who.cls])
        me.__dict__ = {name: copied(value, name, self._refer) for name, value in state.items()}
        self.tables[who.cls][who.key] = me

    def _request(self, run: Any, keep: bool = True) -> Reply:
        self._undo = {}
        self._depth = 0
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _FRAMES))
        try:
            value = copied(run(), "the result")
            for cls, key in self._undo:
                check_state(cls, self.tables[cls][key].__dict__)
            if not keep:
                changed = [who for who, old in self._undo.items() if old != vars(self.tables[who[0]][who[1]])]
                self._take_back()
                if changed:
                    raise TypeError(f"a read changed {' '.join(changed[0])}; use a POST route")
            return Reply(200, value)
        except MemoryError:
            self._take_back()
            raise
        except Exception as error:
            self._take_back()
            return Reply(400 if isinstance(error, Refused) else 500, None, error)
        except BaseException:
            self._take_back()
            raise
        finally:
            sys.setrecursionlimit(limit)

    def _take_back(self) -> None:
        for (cls, key), state in self._undo.items():
            if state is None:
                self.tables[cls].pop(key, None)
            else:
                self.tables[cls][key].__dict__ = state

    def _found(self, cls: str, key: str) -> Any:
        if (me := self.tables[cls].get(key)) is None:
            raise Refused(f"{cls} {key} is unknown")
        return me

    def _refer(self, cls: str, key: str) -> Reference:
        made: Reference = type.__call__(self.references[cls], cls, key)
        return made

    def _arguments(self, args: Sequence[Any]) -> list[Any]:
        return [v if type(v) in ATOMS else copied(v, "an argument", self._refer) for v in args]

    def _ask(self, cls: str, key: str, method: str, args: Sequence[Any]) -> Any:
        if self._depth >= MOST_DEPTH:
            raise RecursionError(f"{MOST_DEPTH} questions wait for one another")
        given = self._arguments(args)
        me = self._found(cls, key)
        if (cls, key) not in self._undo:
            before = me.__dict__.items()
            self._undo[cls, key] = {n: v if type(v) in ATOMS else copied(v, n, self._refer) for n, v in before}
        self._depth += 1
        try:
            value = getattr(me, f"@{method}" if method in self.program.cut[cls] else method)(*given)
        except MemoryError:
            raise
        except Exception as error:
            raise self.program.error(*text_of(error)).with_traceback(error.__traceback__) from None
        finally:
            self._depth -= 1
        return value if type(value) in ATOMS else copied(value, f"the result of {method}", self._refer)

    def _look(self, cls: str, key: str, attribute: str) -> Any:
        value = getattr(self._found(cls, key), attribute)
        return value if type(value) in ATOMS else copied(value, attribute, self._refer)

    def _made(self, cls: str, args: Sequence[Any]) -> Any:
        me: Any = object.__new__(self._classes[cls])
        me.__init__(*self._arguments(args))
        return me

    def _create(self, cls: str, args: Sequence[Any]) -> Reference:
        me = self._made(cls, args)
        key = key_of(me)
        if key in self.tables[cls]:
            raise Refused(f"{cls} {key} exists")
        self._undo.setdefault((cls, key), None)
        self.tables[cls][key] = me
        return self._refer(cls, key)


def _reference(store: PlainStore, name: str) -> Any:
    """Make the class of references to one class of entities: its methods and attributes ask.

    ``Item("x", 3)`` creates an entity, ``Item["x"]`` makes a reference.
    """

    class Creates(type):
        def __call__(cls, *args: Any) -> Any:
            return store._create(name, args)

        def __getitem__(cls, key: str) -> Any:
            return store._refer(name, key)

    def asking(method: str) -> Any:
        return lambda self, *args: store._ask(name, self.key, method, args)

    def looking(attribute: str) -> Any:
        return property(lambda self: store._look(name, self.key, attribute))

    shape = store.program.shapes[name]
    body: dict[str, Any] = {attribute: looking(attribute) for attribute in shape.attributes if attribute != "key"}
    body |= {method: asking(method) for method in shape.methods if not method.startswith("__")}
    return Creates(name, (Reference,), {"__slots__": (), **body})


def _own(store: PlainStore, name: str, method: str) -> Any:
    """An own method that asks is a question to ``self``."""
    return lambda self, *args: store._ask(name, key_of(self), method, args)
