"""Routes map requests to methods, and parts of the path to arguments.

A route such as ``"POST /stock/add/{item}/{n:int}": Item.put`` contains parts in braces. The first one is the key of
the entity. The others are the arguments of the method: they have the names and the order of its parameters. With `new`,
the server chooses a random key. A GET request must not change an entity, so it is not logged.

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
sharedstate_lite.entities.routes.HttpError: -3 is not a number from 0 to 9007199254740992
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from .declare import Many, New, Reference
from .errors import EntityError
from .plain import PlainStore, Reply
from .program import Program, Target
from .rules import BUILTINS

MOST = 2**53
"""The largest number in a path. JSON parsers that use doubles represent all integers up to it exactly."""
MOST_KEY = 256
"""The maximum length of a key in bytes."""
MOST_MANY = 1_000_000
"""The maximum number of entities that one request can create."""
MANY = "@many"
"""What a request asks that creates many entities. The key of its reference is the pattern of the route."""
_PART = re.compile(r"\{(\w+)(:int)?\}")


class HttpError(Exception):
    """A request that is rejected before it runs, with the status of the answer and the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _number(word: bytes, most: int = MOST) -> int:
    if not word.isdigit() or len(word) > 16 or int(word) > most:  # bytes.isdigit accepts only 0 to 9
        raise HttpError(400, f"{word[:40].decode(errors='replace')} is not a number from 0 to {most}")
    return int(word)


def _count(word: bytes) -> int:
    return _number(word, MOST_MANY)


def _text(word: bytes) -> str:
    word = unquote_to_bytes(word) if b"%" in word else word
    try:
        if 0 < len(word) <= MOST_KEY:
            return word.decode()
    except UnicodeDecodeError:
        pass
    raise HttpError(400, f"{word[:40]!r} is not a key; a key is 1 to {MOST_KEY} bytes of UTF-8")


class EntityRoute:
    """One route. Raises EntityError (Route) if its path does not match the parameters of its method."""

    def __init__(self, program: Program, pattern: str, target: Target) -> None:
        self.program, self.pattern, self.target = program, pattern, target
        self.method, _, path = pattern.partition(" /")
        self.words = path.split("/")
        self.parts = [word for word in self.words if "{" in word]
        self.names = [word.strip("{}").removesuffix(":int") for word in self.parts]
        self.reads: list[Callable[[bytes], Any]] = [_number if word.endswith(":int}") else _text for word in self.parts]
        """For each part in braces, the function that parses it."""
        self.draws = isinstance(target, New)
        """Whether each request needs a new random key."""
        self._refers = [""] * len(self.parts)
        if self.method not in ("GET", "POST") or not all(map(_PART.fullmatch, self.parts)):
            raise self.refuse("a route is a method and a path, such as POST /stock/add/{item}/{n:int}")
        if self.method == "GET" and isinstance(target, New | Many):
            raise self.refuse("it creates entities, which a GET must not do; use POST")
        if isinstance(target, Many):
            self._check_many(target)
        elif isinstance(target, New):
            self.cls, self.name = target.cls.__name__, "__init__"
            self._check(0)
        else:
            owner, _, self.name = getattr(target, "__qualname__", "").rpartition(".")
            self.cls = owner.rpartition(".")[2]
            self._check(1)

    def refuse(self, text: str) -> EntityError:
        """Return the error for this route."""
        file = next((declared.file for declared in self.program.declared.values()), "")
        return EntityError("Route", file, 0, f"{self.pattern}: {text}")

    def _check(self, keys: int) -> None:
        """Compare the parts after the key with the parameters of the method, and find those that are references."""
        declared = self.program.declared.get(self.cls)
        method = declared.methods.get(self.name) if declared else None
        if method is None or keys and (self.name.startswith("__") or self.reads[:1] != [_text]):
            raise self.refuse("its target is no method of the program, or its first part is not a key such as {item}")
        parameters = method.args.args[2 - keys :]
        taken = {a.arg: ast.unparse(a.annotation).strip("'\"") if a.annotation else "no type" for a in parameters}
        wanted = [f"{{{name}:int}}" if kind == "int" else f"{{{name}}}" for name, kind in taken.items()]
        given = self.parts[keys:]
        least = len(parameters) - len(method.args.defaults)
        kinds = [taken[name] for name in self.names[keys:] if name in taken]
        known = {"int", "str", *self.program.declared}
        if given != wanted[: len(given)] or len(given) < least or not known.issuperset(kinds):
            text = f"{self.cls}.{self.name} takes {', '.join(f'{n}: {k}' for n, k in taken.items()) or 'nothing'}"
            raise self.refuse(f"{text}; use these names, {{x:int}} for an int, {{x}} for a str or an entity")
        self._refers = [""] * keys + [kind if kind in self.program.declared else "" for kind in kinds]

    def _check_many(self, target: Many) -> None:
        names = [name for name in self.names if name != target.number]
        count, taken = f"{{{target.number}:int}}", list(inspect.signature(target.arguments).parameters)
        if taken[1:] != names or count not in self.parts:
            raise self.refuse(f"many needs {count}, and a function with the parameters i, {', '.join(names)}")
        self.reads[self.names.index(target.number)] = _count
        used = inspect.getclosurevars(target.arguments)
        values = {**used.globals, **used.nonlocals}
        if drawn := {n for n, v in values.items() if not hasattr(v, "__entity__")} | (used.builtins.keys() - BUILTINS):
            raise self.refuse(f"its function uses {min(drawn)}, which may differ in a replay; use only its arguments")

    def question(self, args: Sequence[Any], drawn: str) -> tuple[Reference, str, tuple[Any, ...]]:
        """Return the entity that a request asks, the method, and its arguments. For `many`, see `MANY`."""
        if isinstance(self.target, Many):
            return Reference(self.target.cls.__name__, self.pattern), MANY, tuple(args)
        given = [Reference(cls, arg) if cls else arg for cls, arg in zip(self._refers, args, strict=True)]
        if isinstance(self.target, New):
            return Reference(self.cls, drawn), self.name, (drawn, *given)
        return Reference(self.cls, args[0]), self.name, tuple(given[1:])

    def result(self, value: Any) -> Any:
        """Return what a request answers whose method has returned ``value``."""
        if isinstance(self.target, New):
            return {self.target.name: value.key}
        return {} if value is None else value

    def run(self, store: PlainStore, args: Sequence[Any], drawn: str) -> Reply:
        """Run a request. ``args``: as returned by `Routes.find`. ``drawn``: the new key, if the route needs one."""
        if isinstance(self.target, Many):
            parts = dict(zip(self.names, args, strict=True))
            n, make = parts.pop(self.target.number), self.target.arguments
            reply = store.many(self.target.cls.__name__, (make(i, **parts) for i in range(n)))
            return reply._replace(value={"msg": f"{n} of {self.target.cls.__name__}"})
        who, what, given = self.question(args, drawn)
        if isinstance(self.target, New):
            reply = store.create(who.cls, *given)
        else:
            reply = (store.read if self.method == "GET" else store.call)(who, what, *given)
        return reply if reply.error else reply._replace(value=self.result(reply.value))


class Routes:
    """All routes of a program. ``all`` contains them by pattern. Raises EntityError (Route)."""

    def __init__(self, program: Program) -> None:
        self.all = {pattern: EntityRoute(program, pattern, target) for pattern, target in program.routes.items()}
        self._tree: dict[Any, Any] = {}
        for route in self.all.values():
            node = self._tree.setdefault(route.method.encode(), {})
            for word in route.words:
                below = node.setdefault(None if "{" in word else word.encode(), {})
                if None in node and len(node.keys() - {""}) > 1:
                    raise route.refuse("one route has a word where another has a part in braces; change one")
                node = below
            if node.setdefault("", route) is not route:
                raise route.refuse(f"it has the same path as {node[''].pattern}; change one")

    def find(self, method: bytes, path: bytes) -> tuple[EntityRoute, list[Any]]:
        """Return the route and the arguments of a request. Raises HttpError: 404 no route, 400 bad argument."""
        node, given = self._tree.get(method, {}), []
        for word in path.partition(b"?")[0].split(b"/")[1:]:
            below = node.get(word)
            if below is None:
                below = node.get(None, {})
                given.append(word)
            node = below
        if "" not in node:
            raise HttpError(404, f"no route for {(method + b' ' + path)[:80].decode(errors='replace')}")
        route: EntityRoute = node[""]
        return route, [read(word) for read, word in zip(route.reads, given, strict=True)]
