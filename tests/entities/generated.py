"""Generated entity programs, and the oracle that runs them: the classes undecorated, as plain Python."""

from __future__ import annotations

import copy
import textwrap
from random import Random
from typing import Any

from carriers import cell

from sharedstate_lite.entities import EntityError, Program, Reference, Refused

HEAD = """
from __future__ import annotations
@entity
class Account:
    peer: Item
    def __init__(self, name: str, n: int, peer: Item):
        self.name, self.n, self.peer = name, n, peer
        self.xs, self.tags, self.seen = [n, 2], {"k": n}, []
    def __key__(self):
        return self.name
    def bump(self, e: int) -> int:
        self.n += e
        self.xs.append(e)
        return self.n
    def pure(self, e: int) -> int:
        return e + self.n
    def fill(self, xs: list[int], x: Item) -> list[int]:
        xs.append(x.n)
        return xs
    def mine(self, x: Item) -> list[int]:
        self.n += x.n
        return self.xs
    def kin(self, e: int) -> Account:
        return Account["ann" if e % 3 else "bob"]
    def down(self, e: int) -> int:
        return self.down(e - 1) + 1 if e > 0 else self.peer.n
"""
GO = """
    def go(self, x: Item, y: Item, e: int) -> int:
        return self.run(x, [y, x], e)
"""
TAIL = """
@entity
class Item:
    def __init__(self, name: str, n: int):
        if n < 0:
            raise Refused("negative")
        self.name, self.n = name, n
    def __key__(self):
        return self.name
    def total(self, xs: list[int]) -> int:
        xs.append(self.n)
        return sum(xs)
    def put(self, e: int) -> int:
        self.n += e
        return self.n
    def take(self, e: int):
        if self.n < e:
            raise Refused(f"{self.n} left")
        self.n -= e
    def many(self, e: int) -> list[int]:
        return [self.n] * min(e, 3)
    def twin(self, e: int) -> Item:
        return Item(f"{self.name}-{e}", self.n) if e % 2 else Item[self.name]
    def back(self, account: Account, e: int) -> int:
        self.n += 1
        return account.bump(e) + self.n
"""


class Writer:
    """Writes the statements of a method. ``asks``: questions are among them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.loops = self.caught = 0
        self.counters = 0
        self.items = ["x", "self.peer", "Item['i1']"]

    def number(self, depth: int = 2) -> str:
        """An expression of an int or bool."""
        if depth == 0 or self.rng.random() < 0.25:
            return self.rng.choice(["a", "b", "e", "self.n", "0", "1", "2", "-1", "len(self.xs)", "self.tags['k']"])
        x, y, z = (self.number(depth - 1) for _ in range(3))
        item = self.rng.choice(self.items)
        other = self.rng.choice(self.items)
        name = x[:1] if x[0] in "abe" else "1"
        shown = "a" if "'" in item else f"len(f'{{{item}.n}}{{b}}')"
        return self.rng.choice(
            [
                f"({x} + {y})", f"({x} - {y})", f"({x} < {y})", f"(not {x})", f"({x} // {y})", f"max({x}, {y})",
                f"({x} if {y} else {z})", f"({x} and {y})", f"({x} or {y} or {z})", f"sum([{x}, {y}])",
                f"[{x}, {y}][{z}]", f"{{'p': {x}, 'q': {y}}}['q']", f"self.xs[{x}]", shown,
                f"sum(q + {name} for q in self.xs)", f"({x} + {item}.n + {y})",
                f"{item}.n", f"{item}.put({x})", f"{item}.back(self, {x})", f"len({item}.many({x}))",
                f"{item}.key.count('i')", f"int({item} == {other})", f"Item('m' + str({x}), {y}).n",
                f"{item}.total(xs)", f"len(xs + [{x}])", f"sum(a for a in xs) + int((lambda b: b + {name})(a))",
                f"self.pure({x})", f"self.own({item}, {x})", f"self.down({x} % 4)",
                "Account['bob'].n", f"Account['ann'].bump({x})", f"{item}.back(Account['bob'], {x})",
                f"Account('c' + str({x}), {y}, {item}).n", f"int(Account['bob'] == self.kin({x}))",
                f"{item}.twin({x}).n",
            ]
        )  # fmt: skip

    def body(self, depth: int) -> tuple[list[str], bool]:
        """Statements, and whether control reaches their end."""
        lines: list[str] = []
        for _ in range(self.rng.randrange(1, 4)):
            more, falls = self.statement(depth)
            lines += more
            if not falls:
                return lines, False
        return lines, True

    def statement(self, depth: int) -> tuple[list[str], bool]:
        """One statement."""
        e, f = self.number(), self.number(1)
        item = self.rng.choice(self.items)
        kind = self.rng.randrange(10, 34) if depth else self.rng.randrange(24)
        simple = [
            f"a = {e}", f"b = {e}", f"a += {e}", f"self.n = {e}", f"self.n -= {e}", f"self.xs.append({e})",
            f"self.xs[{f}] = {e}", f"self.tags['k'] = {e}", f"self.tags['k'] += {e}", f"a, b = {e}, {f}",
            f"self.xs += [{e}]", f"{item}.take({e})", f"Item('new' + str({f}), {e})",
            f"self.seen.append(({item}, {e}))", f"xs = [{e}, {f}]", f"xs.append({e})", "xs = list(self.xs)",
            "self.xs[:] = list(xs)", "xs += self.xs[:2]", f"xs = {item}.many({e})",
            f"Account('d' + str({f}), {e}, {item})", f"self.kin({f}).bump({e})",
            self.rng.choice(["self.fill(xs, x)", "xs = self.fill(xs, x)", "xs = self.mine(x)"]),
            self.rng.choice([f"a = len(self.mine({item}))", "for q in self.mine(x): a += q", "ys = self.mine(x)"]),
        ]  # fmt: skip
        if kind < 24:
            return [simple[kind]], True
        if kind == 24:
            return [f"return {e}"], False
        if kind == 25:
            return [f"raise {self.rng.choice(['Refused', 'ValueError'])}(str({e}))"], False
        if kind == 26 and self.loops:
            return [self.rng.choice(["break", "continue"])], False
        if kind == 27 and self.caught:
            return ["raise"], False
        if kind in (26, 27, 28):
            one, falls = self.body(depth - 1)
            other, falls_too = self.body(depth - 1)
            if self.rng.random() < 0.5:
                return [f"if {e}:", *_inside(one)], True
            return [f"if {e}:", *_inside(one), "else:", *_inside(other)], falls or falls_too
        if kind in (29, 30, 31):
            self.counters += 1
            c = f"c{self.counters}"
            self.loops += 1
            caught, self.caught = self.caught, 0
            if kind == 29:
                self.items.append(c)
                head = [f"for {c} in {self.rng.choice(['items', '[x, self.peer]'])}:"]
                body, _ = self.body(depth - 1)
                self.items.pop()
            elif kind == 30:
                over = self.rng.choice([f"a, {c} in [({e}, {f}), (1, 2)]", f"{c} in xs[:3]", "b in list(xs)"])
                head = [f"for {over}:"]
                body, _ = self.body(depth - 1)
            else:
                head = [f"{c} = 0", f"while {c} < 3:", f"    {c} += 1"]
                body, _ = self.body(depth - 1)
            self.loops -= 1
            self.caught = caught
            return [*head, *_inside(body)], True
        body, falls = self.body(depth - 1)
        lines = ["try:", *_inside(body)]
        for what in ("Refused as w", "(ValueError, IndexError)", "Exception")[: self.rng.randrange(1, 4)]:
            self.caught += 1
            handler, falls_too = self.body(depth - 1)
            self.caught -= 1
            first = ["a = len(str(w))"] if what.endswith("w") and self.rng.random() < 0.5 else []
            lines += [f"except {what}:", *_inside(first + handler)]
            falls = falls or falls_too
        return lines, falls


def _inside(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def source(rng: Random) -> str:
    """A program that is accepted. Rule Alias refuses many that give lists to own methods that ask."""
    while True:
        text = drawn(rng)
        if "self.fill(" not in text.partition(GO)[2] and "self.mine(" not in text.partition(GO)[2]:
            return text
        scope = cell(text)
        try:
            Program(scope["Account"], scope["Item"])
            return text
        except EntityError as error:
            assert error.rule == "Alias", error


def drawn(rng: Random) -> str:
    """A program with two generated methods: ``own`` does not call itself, ``run`` calls it. ``go`` calls ``run``."""
    text = HEAD + GO
    for name, parameters, depth in (("own", "x: Item, e: int", 1), ("run", "x: Item, items: list[Item], e: int", 3)):
        writer = Writer(rng)
        if name == "own":
            writer.number = lambda depth=2, w=writer: _leaf(w, depth)  # type: ignore[method-assign]
        lines, falls = writer.body(depth)
        while name == "own" and any("items" in line for line in lines):
            lines, falls = writer.body(depth)
        body = ["a, b, xs = 0, 1, [3]", *lines] + (["return a + b"] if falls else [])
        text += textwrap.indent(f"def {name}(self, {parameters}):\n" + "\n".join(_inside(body)) + "\n", "    ")
    return text + TAIL


def transactions(text: str) -> str:
    """The program with every method that changes something declared as a transaction."""
    for method in ("run", "go", "put", "take", "total", "back", "bump"):
        text = text.replace(f"    def {method}(", f"    @transactional\n    def {method}(")
    return text


def _leaf(writer: Writer, depth: int) -> str:
    while "self.own(" in (text := Writer.number(writer, depth)):
        pass
    return text


class World:
    """The oracle: objects of the undecorated classes. A question copies arguments and result, and loses an exception's
    class but for its name, and what it holds but for one string."""

    def __init__(self, text: str, names: dict[str, Any] | None = None) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.scope: dict[str, Any] = {"Refused": Refused, "entity": lambda cls: cls, **(names or {})}
        exec(text, self.scope)
        self.classes = {name: self.scope[name] for name in ("Account", "Item")}
        for name in self.classes:
            self.scope[name] = Maker(self, name)

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Run a request as a transaction: its result, or the exception that undid it."""
        before = copy.deepcopy({name: vars(me) for name, me in self.objects.items()})
        try:
            if method == "__init__":
                return _plain(self.scope[who.cls](*self.copied(args)))
            return _plain(getattr(Handle(self, who.cls, who.key), method)(*args))
        except Exception as error:
            self.objects = {name: me for name, me in self.objects.items() if name in before}
            for name, me in self.objects.items():
                vars(me).clear()
                vars(me).update(before[name])
            return error

    def copied(self, value: Any) -> Any:
        """Copy a value; an object of the program, or a reference, becomes a handle."""
        if type(value) in (list, tuple):
            return type(value)([self.copied(part) for part in value])
        if type(value) is dict:
            return {key: self.copied(part) for key, part in value.items()}
        if type(value) is Reference:
            return Handle(self, value.cls, value.key)
        if type(value) in self.classes.values():
            return Handle(self, type(value).__name__, value.name)
        return value

    @property
    def state(self) -> dict[tuple[str, str], Any]:
        """All states; handles as references."""
        return {name: _plain(vars(me)) for name, me in self.objects.items()}


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_plain(part) for part in value])
    if type(value) is dict:
        return {key: _plain(part) for key, part in value.items()}
    return Reference(value.cls, value.key) if type(value) is Handle else value


class Maker:
    """What the name of a class is to the undecorated methods."""

    def __init__(self, world: World, cls: str) -> None:
        self.world, self.cls = world, cls

    def __getitem__(self, key: str) -> Handle:
        return Handle(self.world, self.cls, key)

    def __call__(self, *args: Any) -> Handle:
        me = self.world.classes[self.cls](*self.world.copied(args))
        if (self.cls, me.name) in self.world.objects:
            raise Refused(f"{self.cls} {me.name} exists")
        self.world.objects[self.cls, me.name] = me
        return Handle(self.world, self.cls, me.name)


class Handle:
    """A reference of the oracle."""

    def __init__(self, world: World, cls: str, key: str) -> None:
        self.world, self.cls, self.key = world, cls, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and (self.cls, self.key) == (other.cls, other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def _me(self) -> Any:
        if (self.cls, self.key) not in self.world.objects:
            raise Refused(f"{self.cls} {self.key} is unknown")
        return self.world.objects[self.cls, self.key]

    def __deepcopy__(self, memo: Any) -> Handle:
        return self

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.world.classes[self.cls], name):
            return self.world.copied(getattr(self._me(), name))

        def ask(*args: Any) -> Any:
            me = self._me()  # the message is sent after its arguments are known
            try:
                return self.world.copied(getattr(me, name)(*self.world.copied(args)))
            except Exception as error:
                raise type(error)(*[str(error.args[0])] if error.args else []) from None

        return ask
