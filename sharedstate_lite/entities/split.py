"""A method becomes blocks: its statements are cut where another entity is asked.

A statement that asks no entity stays whole. A question becomes the end of a block: who is asked, what, and the name
that the answer gets in the next block. Operands to the left of a question are evaluated before it, as in Python, and
kept under names of their own. Control flow around a question (if, while, for, try, and, or, conditional expressions)
becomes edges between blocks.

Source: Psarakis et al., Stateful Entities, EDBT 2024: StateFlow splits functions in the same places.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .kinds import MUTATORS, Kind, Names, immutable

REFERENCE, ASK, CREATE, RETURN, LIST, MEMORY = "@reference", "@ask", "@create", "@return", "@list", "@memory"
"""Names of the runtime in the code of a block. No name of a program can be one of these."""


class Suspend(NamedTuple):
    """Ask ``who`` for ``what``; the answer is ``name`` in the block ``then``.

    ``args`` is None for an attribute. For a creation ``who`` is None, and ``what`` is ``__init__``.
    """

    who: ast.expr | None
    cls: str
    what: str
    args: list[ast.expr] | None
    name: str
    then: Block


class Caught(NamedTuple):
    """A handler of a block: the expression of its classes, the name of the exception, and where it goes."""

    types: ast.expr
    name: str
    to: Block


@dataclass(eq=False)
class Block:
    """A part of a method: statements that ask no entity, and where control goes after them.

    With a ``test`` it goes to the first or to the second of ``after``, else to the only one. With ``asks`` it waits for
    an answer. With none of these, the body has returned or raised.
    """

    number: int
    handlers: tuple[Caught, ...]
    line: int
    body: list[ast.stmt] = field(default_factory=list)
    test: ast.expr | None = None
    after: list[Block] = field(default_factory=list)
    asks: Suspend | None = None
    ended: bool = False
    live: tuple[str, ...] = ()
    """The names that the block needs: its frame has these."""

    @property
    def next(self) -> list[Block]:
        """Where control can go from here, handlers included."""
        return self.after + ([self.asks.then] if self.asks else []) + [handler.to for handler in self.handlers]

    @property
    def reads(self) -> list[ast.expr]:
        """The expressions at the end: the test, or who is asked with which arguments."""
        asked = [self.asks.who, *(self.asks.args or [])] if self.asks else []
        return [part for part in (self.test, *asked) if part]

    def end(self, *after: Block, test: ast.expr | None = None, asks: Suspend | None = None) -> None:
        """Say where control goes."""
        self.after, self.test, self.asks, self.ended = list(after), test, asks, True


def asks(node: ast.AST, names: Names, cut: set[str]) -> bool:
    """Whether a question is anywhere in a node."""
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name in cut:
                return True
        if names.asked(inner) is not None:
            return True
    return False


class Splitter:
    """Splits one method; ``blocks`` are the result, the first one first.

    ``cut`` has the names of the own methods that are asked like another entity's. Raises EntityError.
    """

    def __init__(self, names: Names, cut: set[str]) -> None:
        self.declared, self.names, self.cut = names.shape.declared, names, cut
        self.blocks: list[Block] = []
        self._used: dict[str, int] = {}
        self._loops: list[tuple[Block, Block]] = []
        self._handlers: tuple[Caught, ...] = ()
        self._caught: str | None = None
        method = _NoAnnotations().visit(copy.deepcopy(names.method))
        self._here = self._block(method)
        self._statements(method.body)
        if not self._here.ended:
            self._return(self._nothing())

    # Who is asked

    def question(self, node: ast.AST) -> tuple[ast.expr | None, str, str, list[ast.expr] | None] | None:
        """Return (who, class, what, arguments) if a node is a question, else None."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name in self.cut:
                return self._me(), self.declared.name, name, self._positional(node, name)
        if (found := self.names.asked(node)) is None:
            return None
        return *found, self._positional(node, found[2]) if isinstance(node, ast.Call) else None

    def asks(self, node: ast.AST) -> bool:
        """Whether a question is anywhere in a node."""
        return asks(node, self.names, self.cut)

    def _me(self) -> ast.expr:
        return _call(REFERENCE, ast.Constant(self.declared.name), _call_method("self", "__key__"))

    def _nothing(self) -> ast.expr:
        """The result of a method that ends without one: the reference, if it is ``__init__``."""
        return self._me() if self.names.method.name == "__init__" else ast.Constant(None)

    def _positional(self, node: ast.Call, name: str) -> list[ast.expr]:
        if node.keywords and node.keywords[0].arg:
            raise self._refuse("Keywords", node, f"{name} of an entity is asked with arguments by position")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self._refuse("Star", node, f"{name} of an entity is asked without * and **; name each argument")
        return [self._me() if isinstance(a, ast.Name) and a.id == "self" else a for a in node.args]

    # Blocks

    def _refuse(self, rule: str, node: ast.AST, text: str) -> Exception:
        return self.declared.refuse(rule, node, text)

    def _block(self, node: ast.AST) -> Block:
        block = Block(len(self.blocks), self._handlers, getattr(node, "lineno", 0))
        self.blocks.append(block)
        return block

    def _fresh(self, name: str) -> str:
        """A name that no program can have: ``item.price``, and ``item.price 2`` for the next one."""
        self._used[name] = self._used.get(name, 0) + 1
        count = self._used[name]
        return name if count == 1 and not name.isidentifier() else f"{name} {count}"

    def _keep(self, name: str, value: ast.expr) -> ast.expr:
        """Evaluate an expression now, under a name."""
        self._here.body.append(_assign(name, value))
        return self._named(name, value)

    def _named(self, name: str, node: ast.expr) -> ast.expr:
        """The name that has the value of an expression."""
        self.names.names[name] = self.names.kind(node)
        return ast.copy_location(_load(name), node)

    # Expressions: the result asks no entity

    def _value(self, node: ast.expr) -> ast.expr:
        if not self.asks(node):
            return node
        if found := self.question(node):
            who, cls, what, args = found
            name = self._fresh(f"new {cls}" if who is None else f"{'self' if is_me(who) else ast.unparse(who)}.{what}")
            parts = self._in_order([*([who] if who else []), *(args or [])])
            asked = None if args is None else parts[1:] if who else parts
            here, self._here = self._here, self._block(node)
            here.end(asks=Suspend(parts[0] if who else None, cls, what, asked, name, self._here))
            return self._named(name, node)
        match node:
            case ast.BoolOp(op=op, values=values):
                name = self._fresh("and" if isinstance(op, ast.And) else "or")
                ways = []
                for value in values:
                    self._keep(name, self._value(value))
                    ways.append((self._here, self._block(value)))
                    self._here = ways[-1][1]
                for here, then in ways[:-1]:
                    here.end(*((then, self._here) if isinstance(op, ast.And) else (self._here, then)), test=_load(name))
                ways[-1][0].end(self._here)
                return self._named(name, node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                name, test = self._fresh("if"), self._value(test)
                yes, no, after = self._block(body), self._block(orelse), self._block(node)
                self._here.end(yes, no, test=test)
                for self._here, value in ((yes, body), (no, orelse)):
                    self._keep(name, self._value(value))
                    self._here.end(after)
                self._here = after
                return self._named(name, node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
                raise self._refuse("Inside", node, "a comprehension or a lambda asks no entity; write a for loop")
            case ast.Compare(ops=[_, _, *_]):
                raise self._refuse("Chain", node, "a chain of comparisons asks no entity; write a < b and b < c")
            case ast.NamedExpr():
                raise self._refuse("Form", node, ":= asks no entity; assign in a line of its own")
        slots = list(_slots(node))
        for slot, value in zip(slots, self._in_order([_get(*slot) for slot in slots]), strict=True):
            _set(*slot, value)
        return node

    def _in_order(self, parts: list[ast.expr]) -> list[ast.expr]:
        """Evaluate from left to right: what stands left of the last question is kept under a name."""
        last = max((i for i, part in enumerate(parts) if self.asks(part)), default=-1)
        walrus = any(isinstance(n, ast.NamedExpr) for part in parts for n in ast.walk(part))
        out = []
        for i, part in enumerate(parts):
            value = self._value(part)
            steady = isinstance(value, ast.Constant | ast.Name) or is_me(value)
            if i < last and (walrus or not (steady or self._late(value))):
                value = self._keep(self._fresh("kept"), value)
            out.append(value)
        return out

    def _late(self, node: ast.expr) -> bool:
        """Whether a node is a list or dict of ``self``: it is looked up after the questions to its right."""
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                kind = self.names.kind(node)
                if kind is None or immutable(kind):
                    return False
                if name in self.names.shape.replaced:
                    text = f"self.{name} can be replaced while this statement asks; ask in a line before it"
                    raise self._refuse("Alias", node, text)
                return True
        return False

    # Statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _return(self, value: ast.expr) -> None:
        self._here.body.append(ast.copy_location(ast.Return(_call(RETURN, value)), value))
        self._here.end()

    def _statement(self, s: ast.stmt) -> None:
        if not self._cuts(s):
            whole = _Whole(self._caught, self._nothing()).visit(s)
            self._here.body.append(whole)
            if not falls([s]):
                self._here.end()
            return
        match s:
            case ast.Return(value=value):
                self._return(self._value(value) if value else self._nothing())
            case ast.Raise(exc=exc, cause=cause):
                parts = self._in_order([part for part in (exc, cause) if part])
                self._here.body.append(ast.copy_location(ast.Raise(*parts), s))
                self._here.end()
            case ast.Break():
                self._here.end(self._loops[-1][1])
            case ast.Continue():
                self._here.end(self._loops[-1][0])
            case ast.If(test=test, body=body, orelse=orelse):
                test = self._value(test)
                yes, no = self._block(body[0]), self._block(orelse[0] if orelse else s)
                self._here.end(yes, no, test=test)
                ends = []
                for self._here, part in ((yes, body), (no, orelse)):
                    self._statements(part)
                    ends.append(self._here)
                self._join(ends, s)
            case ast.While(test=test, body=body, orelse=[]):
                self._loop(s, test, [], body)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                self._unchanged(ast.unparse(over), body)
                rest = self._fresh("rest of " + ast.unparse(over))
                element = self.names.element(over)
                self._keep(rest, _call(LIST, self._value(over)))
                self.names.names[rest] = Kind("list", "", (element,))
                take = ast.Assign([target], _call_method(rest, "pop", ast.Constant(0)))
                self._loop(s, _load(rest), [ast.copy_location(take, s)], body)
            case ast.While() | ast.For():
                raise self._refuse("Else", s, "a loop with an else asks no entity; set a name in the loop, and test it")
            case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]):
                self._try(s, body, handlers)
            case ast.Try():
                raise self._refuse("Finally", s, "a try with finally or else asks no entity; use except alone")
            case ast.With():
                raise self._refuse(
                    "With", s, "a with block asks no entity: it would stay open meanwhile; ask before it"
                )
            case ast.Assign(targets=targets, value=value):
                value = self._value(value)
                if any(map(self.asks, targets)):
                    value = self._keep(self._fresh("kept"), value)
                for target in targets:
                    self._target(target)
                s.value = value
                self._here.body.append(s)
            case ast.AugAssign(target=target, op=op, value=value):
                self._target(target)
                if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant | ast.Name):
                    target.slice = self._keep(self._fresh("kept"), target.slice)
                load: ast.expr = copy.deepcopy(target)
                vars(load)["ctx"] = ast.Load()
                if not isinstance(target, ast.Name) and immutable(self.names.kind(load)):
                    value = ast.BinOp(self._keep(self._fresh("kept"), load), op, self._value(value))
                    self._here.body.append(ast.copy_location(ast.Assign([target], value), s))
                else:
                    if not isinstance(target, ast.Name) and not self._late(load):
                        text = f"{ast.unparse(target)} can be a list or dict; declare it, or ask in a line before it"
                        raise self._refuse("Alias", s, text)
                    s.value = self._value(value)
                    self._here.body.append(s)
            case ast.Expr(value=value):
                if not isinstance(value := self._value(value), ast.Name):
                    self._here.body.append(ast.copy_location(ast.Expr(value), s))
            case ast.Assert(test=test, msg=msg) if not (msg and self.asks(msg)):
                s.test = self._value(test)
                self._here.body.append(s)
            case ast.FunctionDef():
                raise self._refuse(
                    "Inside", s, f"{s.name} is a function in a method: it asks no entity; make it a method"
                )
            case _:
                raise self._refuse("Form", s, f"{type(s).__name__} asks no entity; ask in a line before it")

    def _unchanged(self, over: str, body: list[ast.stmt]) -> None:
        """Refuse a loop whose body changes the list: it goes over a copy."""
        for node in (inner for s in body for inner in ast.walk(s)):
            match node:
                case ast.Call(func=ast.Attribute(value=place, attr=name)) if name in MUTATORS:
                    pass
                case ast.AugAssign(target=place) | ast.Subscript(value=place, ctx=ast.Store() | ast.Del()):
                    pass
                case _:
                    continue
            if ast.unparse(place) == over:
                text = f"this changes {over} in a loop over it, which goes over a copy as it asks; write list({over})"
                raise self._refuse("Alias", node, text)

    def _cuts(self, node: ast.stmt) -> bool:
        """Whether a statement has to be cut: it asks, it may run for ever, or it leaves a loop that is cut."""
        leaves = bool(self._loops) and any(_leaves([node]))
        return leaves or self.asks(node) or any(isinstance(n, ast.While) for n in ast.walk(node))

    def _target(self, target: ast.expr) -> None:
        """Ask the question in the index of a place to assign to."""
        if self.asks(target):
            match target:
                case ast.Subscript(value=value, slice=index) if not self.asks(value):
                    target.slice = self._value(index)
                case _:
                    raise self._refuse("Form", target, "this target asks an entity; ask in a line before it")

    def _join(self, ends: list[Block], node: ast.AST) -> None:
        """Go on after a statement in one block, if any of its ends goes on."""
        if going := [block for block in ends if not block.ended]:
            self._here = self._block(node)
            for block in going:
                block.end(self._here)

    def _loop(self, s: ast.stmt, test: ast.expr, head: list[ast.stmt], body: list[ast.stmt]) -> None:
        top = self._block(s)
        self._here.end(top)
        self._here = top
        test = self._value(test)
        inner, after = self._block(body[0]), self._block(s)
        always = isinstance(test, ast.Constant) and bool(test.value)
        self._here.end(*([inner] if always else [inner, after]), test=None if always else test)
        inner.body += head
        self._here = inner
        self._loops.append((top, after))
        self._statements(body)
        self._loops.pop()
        if not self._here.ended:
            self._here.end(top)
        self._here = after
        if always and not any(isinstance(leaf, ast.Break) for leaf in _leaves(body)):
            after.end()

    def _try(self, s: ast.stmt, body: list[ast.stmt], handlers: list[ast.ExceptHandler]) -> None:
        outer, caught = self._handlers, self._caught
        found = []
        for handler in handlers:
            name = self._fresh("except")
            found.append((handler, Caught(handler.type or _load("Exception"), name, self._block(handler))))
        self._handlers = tuple(c for _, c in found) + outer
        start = self._block(body[0])
        self._here.end(start)
        self._here = start
        self._statements(body)
        self._handlers = outer
        ends = [self._here]
        for handler, (_, name, block) in found:
            self._here, self._caught = block, name
            if handler.name:
                block.body.append(_assign(handler.name, _load(name)))
            self._statements(handler.body)
            ends.append(self._here)
        self._caught = caught
        self._join(ends, s)


def no_memory_error(node: ast.Try) -> ast.Try:
    """Let no handler of a try catch MemoryError: a replay with more memory would go another way."""
    if node.handlers:
        handler = ast.ExceptHandler(_load(MEMORY), None, [ast.copy_location(ast.Raise(), node)])
        node.handlers.insert(0, ast.copy_location(handler, node))
    return node


class _NoAnnotations(ast.NodeTransformer):
    """Annotations are not evaluated in a method."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        done = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return ast.copy_location(done, node)


class _Whole(ast.NodeTransformer):
    """A statement that stays whole: its returns leave the block, and a bare raise raises what was caught."""

    def __init__(self, caught: str | None, nothing: ast.expr) -> None:
        self.caught, self.nothing = caught, nothing

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.copy_location(ast.Return(_call(RETURN, node.value or self.nothing)), node)

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return node if node.exc or not self.caught else ast.copy_location(ast.Raise(_load(self.caught)), node)

    def visit_Try(self, node: ast.Try) -> ast.Try:
        for handler in node.handlers:
            handler.body = [_Whole(None, self.nothing).visit(s) for s in handler.body]
        node.body = [self.visit(s) for s in node.body]
        node.orelse = [self.visit(s) for s in node.orelse]
        node.finalbody = [self.visit(s) for s in node.finalbody]
        return no_memory_error(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def falls(body: list[ast.stmt]) -> bool:
    """Whether control can reach the end of a list of statements."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return False
        case ast.If(body=one, orelse=other):
            return falls(one) or falls(other)
        case ast.While(test=ast.Constant(value=value), body=inner) if value:
            return any(isinstance(leaf, ast.Break) for leaf in _leaves(inner))
        case ast.Try(body=inner, handlers=handlers, orelse=orelse, finalbody=final):
            if final and not falls(final):
                return False
            return (falls(inner) and falls(orelse)) or any(falls(h.body) for h in handlers)
        case ast.With(body=inner):
            return falls(inner)
        case ast.Match(cases=cases) if takes_all(cases[-1]):
            return any(falls(case.body) for case in cases)
    return True


def takes_all(case: ast.match_case) -> bool:
    """Whether a case matches whatever is left."""
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def _leaves(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the breaks and continues in statements that belong to a loop around them."""
    for s in body:
        match s:
            case ast.Break() | ast.Continue():
                yield s
            case ast.For(orelse=orelse) | ast.While(orelse=orelse):
                yield from _leaves(orelse)
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case _:
                for name in ("body", "orelse", "finalbody"):
                    yield from _leaves(getattr(s, name, []))
                for part in [*getattr(s, "handlers", []), *getattr(s, "cases", [])]:
                    yield from _leaves(part.body)


Slot = tuple[ast.AST, str, int | None]
_PARTS = ast.Starred | ast.keyword | ast.Slice | ast.FormattedValue
"""What is no value by itself: its own operands are."""


def _slots(node: ast.AST) -> Iterator[Slot]:
    """Yield where the operands of an expression stand, in the order in which Python evaluates them."""
    slots: list[Slot] = []
    for name, value in ast.iter_fields(node):
        slots += [(node, name, i) for i in range(len(value))] if isinstance(value, list) else [(node, name, None)]
    if isinstance(node, ast.Dict):
        slots.sort(key=lambda slot: slot[2] or 0)  # key, value, key, value
    for slot in slots:
        part: Any = _get(*slot)
        if isinstance(part, _PARTS) or slot[1] in ("func", "format_spec") and not isinstance(part, ast.Name):
            yield from _slots(part) if part else ()
        elif isinstance(part, ast.expr) and slot[1] != "func":
            yield slot


def _get(holder: ast.AST, name: str, index: int | None) -> ast.expr:
    found = getattr(holder, name)
    value: ast.expr = found if index is None else found[index]
    return value


def _set(holder: ast.AST, name: str, index: int | None, value: ast.expr) -> None:
    if index is None:
        setattr(holder, name, value)
    else:
        getattr(holder, name)[index] = value


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), value)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(args), [])


def _call_method(name: str, method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(_load(name), method, ast.Load()), list(args), [])


def is_me(node: ast.expr) -> bool:
    """Whether a node is the reference of ``self``."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name == REFERENCE
    return False
