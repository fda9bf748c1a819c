"""Entities: classes whose objects have a key and state that is data, and references to them.

`entity` reads a class's source and checks what the class alone shows. `Program` checks the rest: it links classes.

>>> @entity
... class Item:
...     def __init__(self, item_id: str, price: int):
...         self.item_id = item_id
...         self.price = price
...     def __key__(self):
...         return self.item_id
>>> Item["apple"]
Item['apple']
>>> Item["apple"].key, Item("apple", 3).price                # outside a program the class is plain Python
('apple', 3)
"""

from __future__ import annotations

import ast
import builtins
import linecache
import math
import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from .errors import EntityError, NotPlain

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
ATOMS = frozenset({int, str, bool, type(None)})


class Reference:
    """The class and the key of an entity: what one entity holds of another.

    Only compiled code asks through a reference: ``item.price`` in a method is a question to that entity.
    """

    __slots__ = ("cls", "key")

    def __init__(self, cls: str, key: str) -> None:
        self.cls, self.key = cls, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.key == other.key and self.cls == other.cls

    def __hash__(self) -> int:
        return hash((self.cls, self.key))

    def __repr__(self) -> str:
        return f"{self.cls}[{self.key!r}]"

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return Reference, (self.cls, self.key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self!r} is a reference: {name} is asked only in a method that declares it, as in 'item: {self.cls}'"
        )


def copied(value: Any, where: str = "a value", refer: Callable[[str, str], Reference] = Reference) -> Any:
    """Return a copy of data; ``refer`` makes its references. An entity (``self``) becomes its reference.

    Raises NotPlain, with ``where``, for anything else.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is list:
        return [v if type(v) in ATOMS else copied(v, where, refer) for v in value]
    if kind is tuple:
        return tuple([v if type(v) in ATOMS else copied(v, where, refer) for v in value])
    if isinstance(value, Reference):
        return refer(value.cls, value.key)
    if kind is dict and all(type(key) is str for key in value):
        return {k: v if type(v) in ATOMS else copied(v, where, refer) for k, v in value.items()}
    if kind is float and math.isfinite(value):
        return value
    if hasattr(kind, "__entity__"):
        return refer(kind.__entity__.name, key_of(value))
    what = repr(value) if kind is float else "a dict with other keys than str" if kind is dict else kind.__name__
    raise NotPlain(f"{where} holds {what}; data are int, str, bool, None, finite float, list, tuple, dict, references")


def key_of(me: Any) -> str:
    """Return the key of an entity. Raises NotPlain if it is no str."""
    key = me.__key__()
    if type(key) is not str:
        raise NotPlain(f"{type(me).__name__}.__key__ returns {key!r}; a key is a str")
    return key


def check_state(name: str, state: dict[str, Any]) -> None:
    """Raise NotPlain, with the attribute, if a part of an entity's state is not data, or is in it twice."""
    seen: set[int] = set()

    def check(value: Any, attribute: str) -> None:
        kind = type(value)
        if kind in (list, dict) and id(value) in seen:
            raise NotPlain(f"{name}.{attribute} holds a {kind.__name__} that the entity holds twice; copy it")
        if kind in (list, dict, tuple):
            seen.add(id(value))
            for part in value.values() if kind is dict else value:
                if type(part) not in ATOMS:
                    check(part, attribute)
        if kind is not list and kind is not tuple:
            if hasattr(kind, "__entity__"):
                raise NotPlain(f"{name}.{attribute} holds an entity; hold its reference, {name}[key]")
            copied(dict.fromkeys(value) if kind is dict else value, f"{name}.{attribute}")

    for attribute, value in state.items():
        if type(value) not in ATOMS:
            check(value, attribute)


class Declaration(NamedTuple):
    """What `entity` has read: the class, its syntax tree, and its file."""

    name: str
    cls: type
    node: ast.ClassDef
    file: str

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        """The syntax trees of the methods, by name."""
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}

    def refuse(self, rule: str, node: ast.AST, text: str) -> EntityError:
        """Return the error for a node of the class."""
        return EntityError(rule, self.file, getattr(node, "lineno", None) or self.node.lineno, text)


@cache
def _parsed(lines: tuple[str, ...]) -> ast.Module:
    """The file that a class stands in."""
    return ast.parse("".join(lines))


def _source(cls: type) -> tuple[ast.ClassDef, str]:
    """The class statement and its file. Raises EntityError (NoSource) if the text is not known."""
    functions = [f for f in vars(cls).values() if isinstance(f, types.FunctionType)]
    for function in functions:
        file, line = function.__code__.co_filename, function.__code__.co_firstlineno
        linecache.checkcache(file)
        lines = linecache.getlines(file, function.__globals__)
        try:
            tree = _parsed(tuple(lines))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == function.__name__:
                        if line == min([part.lineno, *(d.lineno for d in part.decorator_list)]):
                            return node, file
    file = functions[0].__code__.co_filename if functions else cls.__module__
    rule, text = "NoSource", f"the source of {cls.__name__} is not known; write it in a file or in a notebook's cell"
    if not functions:
        rule, text = "NoKey", f"{cls.__name__} has no methods; give it __init__ and __key__"
    raise EntityError(rule, file, 0, text)


def entity(cls: C) -> C:
    """Declare a class as an entity, and return it. ``Item["apple"]`` is then a reference.

    A class decorator. Raises EntityError: NoSource, NoKey, Form.
    """
    node, file = _source(cls)
    declared = Declaration(cls.__name__, cls, node, file)
    _check_shape(declared)
    marked: Any = cls
    marked.__entity__ = declared
    marked.__class_getitem__ = classmethod(lambda c, key: Reference(c.__name__, key))
    return cls


def transactional(method: F) -> F:
    """Declare a method as a transaction: with all that it asks, it is serializable, and all or nothing happens."""
    method.__transactional__ = True  # type: ignore[attr-defined]
    return method


def _check_shape(declared: Declaration) -> None:
    """Raise EntityError unless the class has a key and consists of plain methods, annotations and constants."""
    name, methods = declared.name, declared.methods
    if "__key__" not in methods:
        raise declared.refuse(
            "NoKey", declared.node, f"{name} has no __key__; write 'def __key__(self): return self.x'"
        )
    for base in [*declared.node.bases, *declared.node.keywords]:
        raise declared.refuse("Form", base, f"{name} inherits; an entity has no base class")
    for part in declared.node.body:
        match part:
            case ast.FunctionDef(name=method):
                function = vars(declared.cls).get(method)
                if not isinstance(function, types.FunctionType):
                    text = f"{name}.{method} is not a plain method; the only decorator is @transactional"
                    raise declared.refuse("Form", part, text)
                if _special(method) and method not in ("__init__", "__key__"):
                    text = f"{name}.{method}: an entity has no special methods but __init__ and __key__; rename it"
                    raise declared.refuse("Form", part, text)
                _check_parameters(declared, part)
            case ast.AnnAssign(target=ast.Name(id=x)) | ast.Assign(targets=[ast.Name(id=x), *_]) if _special(x):
                raise declared.refuse("Form", part, f"{name}.{x}: special names are the runtime's; choose another")
            case ast.AnnAssign(value=None) | ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Assign(value=ast.Constant()) | ast.AnnAssign(value=ast.Constant()):
                pass
            case _:
                text = (
                    f"{name}: {type(part).__name__} in the body of an entity; it holds methods, annotations, constants"
                )
                raise declared.refuse("Form", part, text)
    if "__init__" not in methods:
        raise declared.refuse("NoKey", declared.node, f"{name} has no __init__; it sets what __key__ returns")


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _check_parameters(declared: Declaration, method: ast.FunctionDef) -> None:
    """Raise EntityError unless the parameters are ``self`` and named ones, whose defaults are constants."""
    a = method.args
    if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
        text = f"{declared.name}.{method.name} has *, ** or / in its parameters; name each one"
        raise declared.refuse("Star", method, text)
    if not a.args or a.args[0].arg != "self":
        raise declared.refuse("Form", method, f"{declared.name}.{method.name}: name the first parameter self")
    for default in a.defaults:
        if not isinstance(default, ast.Constant):
            text = f"{declared.name}.{method.name}: a default is a constant; use None, and decide in the method"
            raise declared.refuse("Form", default, text)
    if method.name == "__key__" and len(a.args) > 1:
        raise declared.refuse("NoKey", method, f"{declared.name}.__key__ takes only self")


class New(NamedTuple):
    """A route that creates an entity under a new key, which is the value ``name`` of the answer."""

    cls: type
    name: str


class Many(NamedTuple):
    """A route that creates n entities, and replaces those whose keys exist."""

    number: str
    cls: type
    arguments: Callable[..., Sequence[Any]]


def new(cls: type, name: str) -> New:
    """Route to the creation of an entity: ``new(Order, "order_id")`` answers ``{"order_id": KEY}``.

    The key is drawn when the request arrives, and logged with it. It is the first argument of ``__init__``.
    """
    return New(cls, name)


def many(number: str, cls: type, arguments: Callable[..., Sequence[Any]]) -> Many:
    """Route to the creation of many: ``many("n", Item, lambda i, stock, price: (str(i), price, stock))``.

    ``number`` names the part of the path that says how many. ``arguments`` returns the arguments of ``__init__`` for
    number i, given the other parts. Entities that exist are replaced.
    """
    return Many(number, cls, arguments)


def exception(name: str, text: str, known: dict[str, type[BaseException]]) -> Exception:
    """Return an exception as it crosses from one entity to another: its class's name and one string.

    ``known`` has the program's own classes. A name that is neither there nor Python's becomes a RuntimeError.
    """
    found = known.get(name) or getattr(builtins, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found, text = RuntimeError, f"{name}: {text}"
    error = found.__new__(found)
    error.args = (text,) if text else ()
    return error


def text_of(error: BaseException) -> tuple[str, str]:
    """Return an exception as data: the name of its class and one string."""
    return type(error).__name__, str(error.args[0]) if len(error.args) == 1 else str(error) if error.args else ""
