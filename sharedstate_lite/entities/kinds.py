"""What a name or an expression holds: data, a reference to which class, or a container of these.

The compiler needs it to know who is asked: ``item.price`` is a question if ``item`` is a reference. A kind is read from
annotations first, and follows assignments and loops.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .declare import Declaration

LAZY = ("map", "filter", "zip", "enumerate", "reversed", "range", "set", "frozenset", "iter")
"""Builtins whose result is no data."""
MUTATORS = frozenset("append extend insert remove pop clear sort reverse update setdefault popitem".split())
ROUNDS = 9
"""How often kinds are followed through assignments: each round one step further."""
_ATOMIC = "len int str float bool abs round any all ord chr repr sum".split()
_SPLITS = ("split", "rsplit", "splitlines")


class Kind(NamedTuple):
    """``form`` is data, reference (``of``: its class), list, dict, tuple (``parts``: what they hold) or lazy."""

    form: str
    of: str = ""
    parts: tuple[Kind | None, ...] = ()

    @property
    def part(self) -> Kind | None:
        """What each element is, as far as it is the same."""
        found: Kind | None = self.parts[0] if self.parts else None
        for other in self.parts[1:]:
            found = joined(found, other) if found and other else None
        return found


DATA = Kind("data")


class Conflict(Exception):
    """A reference and something else meet in one name."""


def joined(one: Kind | None, other: Kind | None, strict: bool = False) -> Kind | None:
    """Return the kind of what is one or the other; ``strict``: raise Conflict if a reference meets something else."""
    if one is None or other is None or one == other:
        return one or other
    if one.form == other.form and one.form in ("list", "dict") or len(one.parts) == len(other.parts) > 0:
        if one.form == other.form:
            parts = zip(one.parts or (None,), other.parts or (None,), strict=True)
            return Kind(one.form, "", tuple([joined(a, b) for a, b in parts]))
    if strict and "reference" in (one.form, other.form):
        raise Conflict
    return None


def immutable(kind: Kind | None) -> bool:
    """Whether nothing of the kind can be changed in place."""
    return kind is not None and (
        kind.form in ("data", "reference")
        or kind.form == "tuple"
        and bool(kind.parts)
        and all(map(immutable, kind.parts))
    )


def annotated(node: ast.expr | None, classes: Mapping[str, object]) -> Kind | None:
    """Return the kind that an annotation declares, or None."""
    match node:
        case ast.Constant(value=str(text)):
            return annotated(ast.parse(text, mode="eval").body, classes)
        case ast.Name(id="int" | "str" | "bool" | "float") | ast.Constant(value=None):
            return DATA
        case ast.Name(id="list" | "dict" | "tuple" as form):
            return Kind(form)
        case ast.Name(id=name) if name in classes:
            return Kind("reference", name)
        case ast.Subscript(value=ast.Name(id=form), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            kinds = tuple([annotated(part, classes) for part in parts])
            if form == "Optional":
                return kinds[0]
            if form == "tuple" and not isinstance(parts[-1], ast.Constant):  # not tuple[int, ...]
                return Kind("tuple", "", kinds)
            return Kind("dict", "", kinds[-1:]) if form == "dict" else Kind("list", "", kinds[:1])
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            parts = [side for side in (left, right) if not (isinstance(side, ast.Constant) and side.value is None)]
            return annotated(parts[0], classes) if len(parts) == 1 else None
    return None


class Signature(NamedTuple):
    """A method as others see it: how many arguments it needs and takes, and what it returns."""

    least: int
    most: int
    returns: Kind | None


class Shape:
    """A class as others see it: its attributes with their kinds, and its methods."""

    def __init__(self, declared: Declaration, classes: Mapping[str, Declaration]) -> None:
        self.declared = declared
        self.name = declared.name
        self.attributes: dict[str, Kind | None] = {}
        self.fixed: set[str] = set()
        """Attributes whose kind is declared."""
        self.replaced = set()
        """Attributes that a method gives a new value, rather than changing it in place."""
        for name, method in declared.methods.items():
            grown = {id(node.target) for node in ast.walk(method) if isinstance(node, ast.AugAssign)}
            for node in ast.walk(method) if name != "__init__" else ():
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and id(node) not in grown:
                    self.replaced.add(node.attr)
        self.methods = {
            name: Signature(
                len(m.args.args) - 1 - len(m.args.defaults), len(m.args.args) - 1, annotated(m.returns, classes)
            )
            for name, m in declared.methods.items()
        }
        self.changed: dict[str, set[str]] = {name: set() for name in self.methods}
        """For each method the parameters that it changes in place or keeps; ``self`` if it changes a list of it."""
        self.held: dict[str, set[str]] = {name: set() for name in self.methods}
        """For each method the parameters, and ``self``, whose lists and dicts its result can hold."""
        for part in declared.node.body:
            match part:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    self.attributes[name] = annotated(annotation, classes)
                    self.fixed.add(name)
                case ast.Assign(targets=targets, value=ast.Constant()):
                    self.attributes |= {t.id: DATA for t in targets if isinstance(t, ast.Name)}
        for node in ast.walk(declared.node):
            match node:
                case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                    self.attributes[name] = annotated(annotation, classes)
                    self.fixed.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    self.attributes.setdefault(name)


class Names:
    """The kinds of the names of a method, and of its expressions. Raises EntityError (Retyped)."""

    def __init__(self, shape: Shape, method: ast.FunctionDef, shapes: Mapping[str, Shape]) -> None:
        self.shape, self.shapes, self.method = shape, shapes, method
        self.names: dict[str, Kind | None] = {}
        for argument in method.args.args[1:]:
            self.names[argument.arg] = annotated(argument.annotation, shapes)
        self.bound = {name for node in ast.walk(method) for name in binds(node)}
        """Every name that the method gives a value to, its parameters included."""
        for _ in range(ROUNDS):
            before = dict(self.names), dict(shape.attributes)
            for node in ast.walk(method):
                self._follow(node)
            if before == (self.names, shape.attributes):
                break
        if method.returns is None:
            returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return) and node.value]
            kinds = [self.kind(value) for value in returned]
            found = Kind("list", "", tuple(kinds)).part if kinds else DATA
            shape.methods[method.name] = shape.methods[method.name]._replace(returns=found)

    def _follow(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, self.kind(value))
            case ast.AnnAssign(target=ast.Name() as target, annotation=annotation):
                self._bind(target, annotated(annotation, self.shapes))
            case ast.NamedExpr(target=target, value=value):
                self._bind(target, self.kind(value))
            case ast.AugAssign(target=ast.Name() as target, value=value):
                self._bind(target, self.kind(ast.BinOp(ast.Name(target.id, ast.Load()), ast.Add(), value)))
            case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
                self._bind(target, self.element(over))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                if (kind := self.names.get(name)) and kind.form == "list" and (part := self.kind(value)):
                    self._bind(ast.Name(name, ast.Store()), Kind("list", "", (joined(kind.part, part),)))

    def _bind(self, target: ast.expr, kind: Kind | None) -> None:
        match target:
            case ast.Name(id=name):
                self._join(self.names, name, kind, target)
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in self.shape.fixed:
                self._join(self.shape.attributes, name, kind, target)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                whole = kind is not None and kind.form == "tuple" and len(kind.parts) == len(targets)
                parts = kind.parts if kind and whole else (kind.part if kind else None,) * len(targets)
                for each, part in zip(targets, parts, strict=True):
                    self._bind(each, part)
            case ast.Starred(value=value):
                self._bind(value, Kind("list", "", (kind,)))

    def _join(self, known: dict[str, Kind | None], name: str, kind: Kind | None, target: ast.expr) -> None:
        try:
            known[name] = joined(known.get(name), kind, strict=True)
        except Conflict:
            text = f"{ast.unparse(target)} is a reference, and is given something else too; use another name"
            raise self.shape.declared.refuse("Retyped", target, text) from None

    def kind(self, node: ast.expr | None) -> Kind | None:
        """Return what an expression holds, or None if it is not known."""
        match node:
            case ast.Constant(value=value):
                return None if value is None else DATA
            case ast.JoinedStr() | ast.Compare() | ast.UnaryOp():
                return DATA
            case ast.Starred(value=value):
                return self.element(value)
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.List(elts=parts):
                return Kind("list", "", (Kind("list", "", tuple(map(self.kind, parts))).part,) if parts else ())
            case ast.Tuple(elts=parts):
                return Kind("tuple", "", tuple(map(self.kind, parts)))
            case ast.Dict(values=parts):
                return Kind("dict", "", (Kind("dict", "", tuple(map(self.kind, parts))).part,) if parts else ())
            case ast.ListComp(elt=part):
                return Kind("list", "", (self.kind(part),))
            case ast.DictComp(value=part):
                return Kind("dict", "", (self.kind(part),))
            case ast.Lambda() | ast.GeneratorExp() | ast.Set() | ast.SetComp():
                return Kind("lazy")
            case ast.IfExp(body=one, orelse=other):
                return joined(self.kind(one), self.kind(other))
            case ast.BoolOp(values=values):
                return Kind("list", "", tuple(map(self.kind, values))).part
            case ast.NamedExpr(value=value):
                return self.kind(value)
            case ast.BinOp(op=op) if not isinstance(op, ast.Add | ast.Mult | ast.BitOr):
                return DATA
            case ast.BinOp(left=left, right=right):
                sides = [kind for kind in (self.kind(left), self.kind(right)) if kind]
                lists = [kind for kind in sides if kind.form != "data"]
                return joined(lists[0], lists[-1]) if lists else DATA if len(sides) == 2 else None
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.kind(value)
            case ast.Subscript(value=ast.Name(id=name)) if name in self.shapes and name not in self.bound:
                return Kind("reference", name)
            case ast.Subscript(value=value, slice=index):
                return self._item(self.kind(value), index)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.shape.attributes.get(name)
            case ast.Attribute(value=value, attr=name) if (found := self.kind(value)) and found.form == "reference":
                return DATA if name == "key" else self.shapes[found.of].attributes.get(name)
            case ast.Call():
                return self._called(node)
        return None

    def asked(self, node: ast.AST) -> tuple[ast.expr | None, str, str] | None:
        """Return (who, class, what) if a node asks another entity; who is None, and what __init__, for a creation."""
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self.shapes and name not in self.bound:
                return None, name, "__init__"
            case (
                ast.Call(func=ast.Attribute(value=value, attr=name))
                | ast.Attribute(value=value, attr=name, ctx=ast.Load())
            ) if name != "key" and (kind := self.kind(value)) and kind.form == "reference":
                return value, kind.of, name
        return None

    def element(self, node: ast.expr) -> Kind | None:
        """Return what a loop over an expression holds in each round."""
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[over, *_]):
                return Kind("tuple", "", (DATA, self.element(over)))
            case ast.Call(func=ast.Name(id="zip"), args=overs):
                return Kind("tuple", "", tuple(map(self.element, overs)))
            case ast.Call(func=ast.Name(id="reversed"), args=[over]):
                return self.element(over)
            case ast.Call(func=ast.Name(id="range")):
                return DATA
        found = self.kind(node)
        return None if found is None else DATA if found.form in ("dict", "data") else found.part

    @staticmethod
    def _item(kind: Kind | None, index: ast.expr) -> Kind | None:
        if kind is None or kind.form == "data":
            return kind
        if kind.form == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
            return kind.parts[index.value] if -len(kind.parts) <= index.value < len(kind.parts) else None
        return kind.part

    def _called(self, node: ast.Call) -> Kind | None:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self.shapes and name not in self.bound:
                return Kind("reference", name)
            case ast.Call(func=ast.Name(id="list" | "@list" | "sorted" | "tuple"), args=[over, *_]):
                return Kind("list", "", (self.element(over),))
            case ast.Call(func=ast.Name(id="dict"), args=[over]):
                return self.kind(over)
            case ast.Call(func=ast.Name(id="list" | "dict" | "tuple" as form)):
                return Kind(form)
            case ast.Call(func=ast.Name(id="min" | "max"), args=[over]):
                return self.element(over)
            case ast.Call(func=ast.Name(id="min" | "max"), args=parts):
                return Kind("list", "", tuple(map(self.kind, parts))).part
            case ast.Call(func=ast.Name(id=name)):
                if name in LAZY:
                    return Kind("lazy")
                return DATA if name in _ATOMIC else None
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                found = self.shape.methods.get(name)
                return found.returns if found else None
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                kind = self.kind(value)
                if kind is None:
                    return None
                if kind.form == "reference":
                    found = self.shapes[kind.of].methods.get(name)
                    return found.returns if found else None
                if kind.form == "data":
                    return Kind("list", "", (DATA,)) if name in _SPLITS else DATA
                if name == "items":
                    return Kind("list", "", (Kind("tuple", "", (DATA, kind.part)),))
                if name == "values":
                    return Kind("list", "", (kind.part,))
                if name == "copy":
                    return kind
                return kind.part if name in ("get", "pop", "setdefault") else DATA
        return None


def binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node gives a value to."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name
