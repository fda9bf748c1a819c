"""A program: entity classes, linked. `Program` checks and compiles them.

>>> from sharedstate_lite.entities import Program, PlainStore, entity
>>> @entity
... class Item:
...     def __init__(self, item_id: str, stock: int):
...         self.item_id = item_id
...         self.stock = stock
...     def __key__(self):
...         return self.item_id
>>> @entity
... class User:
...     def __init__(self, name: str):
...         self.name = name
...     def __key__(self):
...         return self.name
...     def sees(self, item: Item) -> int:
...         return item.stock
>>> machine = Program(User, Item).machine(User.sees)
>>> [(ask.who, ask.what, ask.travels) for block in machine.blocks.values() for ask in block.asks]
[('item', 'stock', ())]
>>> Program(User, Item).graph()
[CallEdge(cls='User', method='sees', to='Item', what='stock')]
"""

from __future__ import annotations
import __future__

import ast
import copy
import hashlib
import linecache
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .declare import Declaration, Many, New, Reference, exception
from .errors import EntityError, NotPlain, Refused
from .kinds import ROUNDS, Names, Shape
from .machine import Ask, Machine, Return, create
from .rules import Rules, check_class, constant, follow, value_of
from .split import ASK, CREATE, LIST, MEMORY, REFERENCE, RETURN, Splitter, asks, no_memory_error
from .write import assemble

Target = Callable[..., Any] | New | Many


_RUNTIME = {ASK: Ask, RETURN: Return, REFERENCE: Reference, CREATE: create, LIST: list, MEMORY: MemoryError}


class CallEdge(NamedTuple):
    """A method asks a class for one of its methods or attributes."""

    cls: str
    method: str
    to: str
    what: str


class _References:
    """What the name of an entity class is in compiled code: ``Item["apple"]``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, key: str) -> Reference:
        return Reference(self.name, key)


class Program:
    """Entity classes and the routes to their methods. Raises EntityError if a class breaks a rule.

    ``strict`` also refuses what is only a warning otherwise: a method with ``-> bool`` that can end without a return.
    """

    def __init__(self, *classes: type, routes: Mapping[str, Target] | None = None, strict: bool = False) -> None:
        self.declared: dict[str, Declaration] = {}
        for cls in classes:
            declared = vars(cls).get("__entity__")
            if declared is None:
                raise EntityError("Form", cls.__module__, 0, f"{cls.__name__} is no entity; put @entity above it")
            if declared.name in self.declared:
                raise declared.refuse("Form", declared.node, f"two classes have the name {declared.name}; rename one")
            self.declared[declared.name] = declared
        self.routes = dict(routes or {})
        self.shapes = {name: Shape(declared, self.declared) for name, declared in self.declared.items()}
        names = self._names()
        self.cut = self._cut(names)
        """For each class, its methods that ask, that loop with while, or that call themselves."""
        for shape in self.shapes.values():
            check_class(shape, self.shapes)
        for (name, _), each in names.items():
            Rules(each, strict).check(self.cut[name])
        while any(follow(each) for each in names.values()):
            pass
        self.exceptions: dict[str, type[BaseException]] = {"Refused": Refused, "NotPlain": NotPlain}
        """The program's own exception classes, by name."""
        self._code = {name: _class_code(declared, names, self.cut[name]) for name, declared in self.declared.items()}
        self._known: dict[str, dict[str, Any]] = {}
        for name, declared in self.declared.items():
            self._known[name] = known = _constants(declared, names)
            self.exceptions |= {
                v.__name__: v for v in known.values() if isinstance(v, type) and issubclass(v, BaseException)
            }
        handles: dict[str, Any] = {name: _References(name) for name in self.declared}
        self.instances = self.classes(handles)
        """For each class, the one whose objects a carrier of blocks makes: ``object.__new__``, then its state."""
        self._machines: dict[tuple[str, str], Machine] = {}
        for name, declared in self.declared.items():
            lines = linecache.getlines(declared.file)
            known = self._known[name] | handles | _RUNTIME
            known |= {f"{CREATE} {other}": cls for other, cls in self.instances.items()}
            for method in declared.methods:
                splitter = Splitter(names[name, method], self.cut[name])
                self._machines[name, method] = assemble(names[name, method], splitter.blocks, lines, known)

    def machine(self, method: Callable[..., Any] | str, cls: str = "") -> Machine:
        """Return a compiled method: ``machine(User.buy_item)``, or ``machine("buy_item", "User")``.

        Raises KeyError if the program has no such method.
        """
        if isinstance(method, str):
            return self._machines[cls, method]
        owner = method.__qualname__.rpartition(".")[0].rpartition(".")[2]
        return self._machines[owner, method.__name__]

    def graph(self) -> list[CallEdge]:
        """Return who asks whom: the edges between the operators of the dataflow."""
        calls = {
            CallEdge(cls, method, ask.cls, ask.what)
            for (cls, method), machine in self._machines.items()
            for block in machine.blocks.values()
            for ask in block.asks
        }
        return sorted(calls)

    def classes(self, handles: Mapping[str, Any]) -> dict[str, type]:
        """Compile the classes again, unsplit, with ``handles`` for the names of entity classes.

        The bodies are as declared, but a loop that asks goes over a copy, and no handler catches MemoryError.
        """
        made = {}
        for name, code in self._code.items():
            scope = {**self._known[name], **handles, **_RUNTIME, "__name__": __name__}
            exec(code, scope)
            made[name] = scope[name]
            made[name].__entity__ = self.declared[name]
            scope[name] = handles[name]  # the class statement has bound its name to the class
        return made

    def error(self, name: str, text: str) -> Exception:
        """Return an exception that has crossed: the class of this name, and one string."""
        return exception(name, text, self.exceptions)

    @property
    def digest(self) -> str:
        """A hash of the classes' syntax trees and of the routes: a log can be replayed only by the same program."""
        parts = []
        for name, declared in sorted(self.declared.items()):
            constants = {n: v for n, v in sorted(self._known[name].items()) if not isinstance(v, type)}
            parts.append(f"{ast.dump(declared.node)} {constants}")
        for path, target in sorted(self.routes.items()):
            match target:
                case New(cls, name):
                    parts.append(f"{path} new {cls.__name__} {name}")
                case Many(number, cls, arguments):
                    parts.append(f"{path} many {number} {cls.__name__}{_code_text(arguments.__code__)}")
                case _:
                    parts.append(f"{path} {target.__qualname__}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _names(self) -> dict[tuple[str, str], Names]:
        names: dict[tuple[str, str], Names] = {}
        for _ in range(ROUNDS):
            before = [(dict(shape.attributes), dict(shape.methods)) for shape in self.shapes.values()]
            for name, declared in self.declared.items():
                for method, node in declared.methods.items():
                    names[name, method] = Names(self.shapes[name], node, self.shapes)
            if before == [(shape.attributes, shape.methods) for shape in self.shapes.values()]:
                break
        return names

    def _cut(self, names: Mapping[tuple[str, str], Names]) -> dict[str, set[str]]:
        cut = {}
        for name, declared in self.declared.items():
            calls = {}
            found = set()
            for method, node in declared.methods.items():
                calls[method] = set(_own_calls(node)) & set(declared.methods)
                asked = names[name, method].asked
                if any(isinstance(n, ast.While) or asked(n) for n in ast.walk(node)):
                    found.add(method)
            for method in calls:
                if method in _closure(calls[method], calls):
                    found.add(method)
            while more := {method for method in calls if calls[method] & found} - found:
                found |= more
            cut[name] = found
        return cut


def _own_calls(node: ast.AST) -> Iterable[str]:
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield name


def _closure(first: set[str], calls: Mapping[str, set[str]]) -> set[str]:
    found = set(first)
    while more := set().union(*(calls[name] for name in found)) - found:
        found |= more
    return found


def _code_text(code: types.CodeType) -> str:
    consts = [_code_text(const) if isinstance(const, types.CodeType) else const for const in code.co_consts]
    return f" {code.co_code.hex()} {code.co_names} {consts}"


class _AsSplit(ast.NodeTransformer):
    """The class as its blocks run it: a loop that asks goes over a copy, and no handler catches MemoryError."""

    def __init__(self, names: Names, cut: set[str]) -> None:
        self.names, self.cut = names, cut

    def visit_For(self, node: ast.For) -> ast.AST:
        if asks(node, self.names, self.cut):
            node.iter = ast.copy_location(ast.Call(ast.Name(LIST, ast.Load()), [node.iter], []), node.iter)
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self.generic_visit(node)
        return no_memory_error(node)


def _class_code(declared: Declaration, names: Mapping[tuple[str, str], Names], cut: set[str]) -> Any:
    node = copy.deepcopy(declared.node)
    node.decorator_list = []
    node.body = [part for part in node.body if not (isinstance(part, ast.AnnAssign) and part.value is None)]
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            part.decorator_list = []
            _AsSplit(names[declared.name, part.name], cut).visit(part)
    module = ast.fix_missing_locations(ast.Module([node], []))
    return compile(module, declared.file, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)


def _constants(declared: Declaration, names: Mapping[tuple[str, str], Names]) -> dict[str, Any]:
    """The values of the global names that the methods use, entity classes left out."""
    found = {}
    for method, node in declared.methods.items():
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in names[declared.name, method].bound:
                found[inner.id] = value_of(declared, method, inner.id)
    return {name: value for name, value in found.items() if constant(value)}
