"""Routes: which request runs which method, and what the parts of its path are.

``"POST /stock/add/{item}/{n:int}": Item.put`` gives the key of an item and then, in their order and under their names,
the method's parameters. With `new`, the key is drawn when the request arrives. A GET changes nothing, so it is not
logged.

>>> from sharedstate_lite.entities import PlainStore, Program, entity, new
>>> @entity
... class Item:
...     def __init__(self, item_id: str, price: int):
...         self.item_id, self.price, self.stock = item_id, price, 0
...     def __key__(self):
...         return self.item_id
...     def put(self, n: int):
...         self.stock += n
...     def find(self):
...         return {"stock": self.stock, "price": self.price}
>>> routes = {"POST /create/{price:int}": new(Item, "item_id"), "POST /add/{item}/{n:int}": Item.put}
>>> program = Program(Item, routes=routes | {"GET /find/{item}": Item.find})
>>> store, routes = PlainStore(program), Routes(program)
>>> for path, drawn in (("/create/7", "a1"), ("/add/a1/3", "")):
...     route, args = routes.find(b"POST", path.encode())
...     route.run(store, args, drawn)
Reply(status=200, value={'item_id': 'a1'}, error=None)
Reply(status=200, value={}, error=None)
>>> route, args = routes.find(b"GET", b"/find/a1")
>>> route.pattern, args, route.run(store, args, "").value
('GET /find/{item}', ['a1'], {'stock': 3, 'price': 7})
>>> routes.find(b"POST", b"/add/a1/-3")
Traceback (most recent call last):
sharedstate_lite.entities.routes.HttpError: -3 is no number; write the digits of 0 to 9007199254740992
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from .declare import Many, New, Reference
from .errors import EntityError, Refused
from .plain import PlainStore, Reply
from .program import Program, Target
from .rules import BUILTINS, constant

MOST = 2**53
"""The largest number in a path: the largest up to which JSON readers agree on every whole number."""
MOST_KEY = 256
"""How many bytes a key has at most."""
MOST_MANY = 1_000_000
"""How many entities one request creates at most."""
_PART = re.compile(r"\{(\w+)(:int)?\}")


class HttpError(Exception):
    """A request that is answered before it is numbered: its status and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 16 or int(word) > MOST:  # of bytes: only 0 to 9 are digits
        raise HttpError(400, f"{word[:40].decode(errors='replace')} is no number; write the digits of 0 to {MOST}")
    return int(word)


def _text(word: bytes) -> str:
    word = unquote_to_bytes(word) if b"%" in word else word
    try:
        if 0 < len(word) <= MOST_KEY:
            return word.decode()
    except UnicodeDecodeError:
        pass
    raise HttpError(400, f"a key in the path is UTF-8 of 1 to {MOST_KEY} bytes, and this is not: {word[:40]!r}")


class Route:
    """One route. Raises EntityError (Route) if its path does not give what its method takes."""

    def __init__(self, program: Program, pattern: str, target: Target) -> None:
        self.program, self.pattern, self.target = program, pattern, target
        self.method, _, path = pattern.partition(" /")
        self.words = path.split("/")
        parts = [found for word in self.words if (found := _PART.fullmatch(word))]
        self.names = [part[1] for part in parts]
        self.reads = [_number if part[2] else _text for part in parts]
        """For each part in braces, the function that reads it."""
        self.draws = isinstance(target, New)
        self._refers: list[str] = [""] * len(parts)
        if self.method not in ("GET", "POST") or any("{" in w and not _PART.fullmatch(w) for w in self.words):
            raise self._refuse("write a method and a path, as in POST /stock/add/{item}/{n:int}")
        if self.method == "GET" and isinstance(target, New | Many):
            raise self._refuse("it creates, and a GET changes nothing; make it a POST")
        if isinstance(target, Many):
            self._check_many(target)
            return
        first = 0 if isinstance(target, New) else 1
        self.cls, self.name = (target.cls.__name__, "__init__") if isinstance(target, New) else _owner(target)
        method = program.declared[self.cls].methods.get(self.name) if self.cls in program.declared else None
        if method is None or first and (self.name.startswith("__") or parts[:1] == [] or parts[0][2]):
            raise self._refuse(
                "it leads to a method of an entity of the program, and its first part is the key: {item}"
            )
        taken = method.args.args[2 - first :]
        least = len(taken) - len(method.args.defaults)
        if self.names[first:] != [a.arg for a in taken][: max(least, len(parts) - first)]:
            names = ", ".join(a.arg for a in taken)
            raise self._refuse(
                f"{self.cls}.{self.name} takes ({names}); give the parts in braces these names, in order"
            )
        for at, argument in enumerate(taken[: len(parts) - first], first):
            kind = ast.unparse(argument.annotation).strip("'\"") if argument.annotation else "nothing"
            if (kind == "int") != (self.reads[at] is _number) or kind not in ("int", "str", *program.declared):
                text = f"{argument.arg} is declared as {kind}; a part is {{x:int}} for int, {{x}} for str or an entity"
                raise self._refuse(text)
            self._refers[at] = kind if kind in program.declared else ""

    def _check_many(self, target: Many) -> None:
        names = [name for name in self.names if name != target.number]
        taken = list(inspect.signature(target.arguments).parameters)
        if taken[1:] != names or len(names) == len(self.names) or self.reads[self.names.index(target.number)] is _text:
            text = f"many counts {{{target.number}:int}}, and its function takes a number and then {', '.join(names)}"
            raise self._refuse(text)
        used = inspect.getclosurevars(target.arguments)
        outside = {**used.globals, **used.nonlocals}
        drawn = {n for n, v in outside.items() if not (hasattr(v, "__entity__") or constant(v))}
        if drawn := drawn | {name for name in used.builtins if name not in BUILTINS}:
            raise self._refuse(
                f"its function uses {drawn.pop()}, which may differ at a replay; use its arguments alone"
            )

    def _refuse(self, text: str) -> EntityError:
        file = next((declared.file for declared in self.program.declared.values()), "")
        return EntityError("Route", file, 0, f"{self.pattern}: {text}")

    def run(self, store: PlainStore, args: Sequence[Any], drawn: str) -> Reply:
        """Run a request: ``args`` as `Routes.find` returns them, ``drawn`` the new key. The value is for JSON."""
        if isinstance(self.target, Many):
            return self._many(store, self.target, dict(zip(self.names, args, strict=True)))
        args = [Reference(cls, arg) if cls else arg for cls, arg in zip(self._refers, args, strict=True)]
        if isinstance(self.target, New):
            reply = store.create(self.cls, drawn, *args)
            return reply._replace(value={self.target.name: drawn}) if reply.status == 200 else reply
        run = store.read if self.method == "GET" else store.call
        reply = run(Reference(self.cls, args[0]), self.name, *args[1:])
        return reply._replace(value={}) if reply.value is None else reply

    def _many(self, store: PlainStore, target: Many, parts: dict[str, Any]) -> Reply:
        n = parts.pop(target.number)
        try:
            if n > MOST_MANY:
                raise Refused(f"{n} at once; at most {MOST_MANY}")
            store.many(target.cls.__name__, (target.arguments(i, **parts) for i in range(n)))
        except MemoryError:
            raise
        except Exception as error:
            return Reply(400 if isinstance(error, Refused) else 500, None, error)
        return Reply(200, {"msg": f"{n} of {target.cls.__name__}"})


def _owner(target: Callable[..., Any]) -> tuple[str, str]:
    """The class and the name of a method: of ``Item.put``, Item and put."""
    owner, _, name = getattr(target, "__qualname__", "").rpartition(".")
    return owner.rpartition(".")[2], name


class Routes:
    """All routes of a program, by their patterns."""

    def __init__(self, program: Program) -> None:
        self.all = {pattern: Route(program, pattern, target) for pattern, target in program.routes.items()}
        self._tree: dict[Any, Any] = {}
        for route in self.all.values():
            node = self._tree.setdefault(route.method.encode(), {})
            for word in route.words:
                below = node.setdefault(None if "{" in word else word.encode(), {})
                if None in node and len(node.keys() - {""}) > 1:
                    raise route._refuse("two routes have a word and a part in braces in one place; rename one")
                node = below
            if "" in node:
                raise route._refuse("two routes have the same path")
            node[""] = route

    def find(self, method: bytes, path: bytes) -> tuple[Route, list[Any]]:
        """Return the route of a request, and the parts of its path. Raises HttpError: 404, 400."""
        node, given = self._tree.get(method, {}), []
        for word in path.partition(b"?")[0].split(b"/")[1:]:
            below = node.get(word)
            if below is None:
                below = node.get(None, {})
                given.append(word)
            node = below
        if "" not in node:
            raise HttpError(404, f"no route for {(method + b' ' + path)[:80].decode(errors='replace')}")
        route: Route = node[""]
        return route, [read(word) for read, word in zip(route.reads, given, strict=True)]
