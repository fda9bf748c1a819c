"""What a method may not contain. Each rule has a name; `EntityError` carries it, with the line and what to write.

These checks keep a replay equal to the first run, and a split method equal to the whole one. They are no security: who
writes a program can get around them.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import difflib
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .declare import ATOMS, Declaration
from .errors import EntityError, EntityWarning
from .kinds import MUTATORS, Kind, Names, Shape, immutable
from .split import falls

BUILTINS = frozenset(
    "abs all any bool chr dict divmod enumerate filter float int isinstance len list map max min ord pow range repr "
    "reversed round set sorted str sum tuple zip".split()
)
"""The functions that a method may call: they depend on their arguments alone."""
_DATA = {name for kind in (str, int, float, list, dict, tuple) for name in dir(kind) if not name.startswith("__")}
_ASYNC = ast.AsyncFor | ast.AsyncFunctionDef | ast.AsyncWith | ast.Await
_NO_FORM = _ASYNC | ast.ClassDef | ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom


MISSING = object()


def value_of(declared: Declaration, method: str, name: str) -> Any:
    """Return the value of a name that a method does not set: enclosing, global or builtin; else MISSING."""
    function = vars(declared.cls)[method]
    with contextlib.suppress(ValueError):  # an enclosing name without a value
        if name in function.__code__.co_freevars:
            return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
    return function.__globals__.get(name, getattr(builtins, name, MISSING))


def constant(value: Any) -> bool:
    """Whether a global is the same at every replay: a scalar, a tuple of such, or an exception class."""
    if isinstance(value, type):
        return issubclass(value, Exception)
    return type(value) in ATOMS | {float} or type(value) is tuple and all(map(constant, value))


def nearest(name: str, known: Collection[str]) -> str:
    """Return ``; did you mean x?`` if a known name is like this one."""
    found = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else ""


class Rules:
    """Checks one method. `check` raises EntityError for the first rule that it breaks."""

    def __init__(self, names: Names, strict: bool) -> None:
        self.names, self.method, self.shape, self.strict = names, names.method, names.shape, strict
        self.declared = names.shape.declared
        self.where = f"{self.shape.name}.{self.method.name}"
        self._cut: Collection[str] = ()
        self._usual: set[int] = set()
        """Nodes that are where they may be: ``Item`` in ``Item[key]``, ``self`` in ``self.x`` and ``item.m(self)``."""

    def check(self, cut: Collection[str]) -> None:
        """Check every node. ``cut`` are the own methods that ask, or loop with while, or call themselves."""
        self._cut = cut
        if self.method.name in ("__init__", "__key__") and self.method.name in cut:
            raise self._refuse("Form", self.method, "asks an entity or loops with while; do it in another method")
        nodes = list(ast.walk(self.method))
        annotations = [node.annotation for node in nodes if isinstance(node, ast.arg | ast.AnnAssign)]
        annotations += [node.returns for node in nodes if isinstance(node, ast.FunctionDef)]
        inside = {id(inner) for a in [*annotations, *self.method.decorator_list] if a for inner in ast.walk(a)}
        for annotation in annotations:
            if annotation:
                self.annotation(annotation)
        for node in nodes:
            if id(node) not in inside:
                self._node(node)
            for part in ("body", "orelse", "finalbody"):
                self._reached(getattr(node, part, None))
        self._returns()

    def _refuse(self, rule: str, node: ast.AST, text: str) -> EntityError:
        return self.declared.refuse(rule, node, f"{self.where} {text}")

    def _node(self, node: ast.AST) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                raise self._refuse("Draws", node, "imports a module; pass the values in as arguments")
            case ast.FunctionDef() if node is not self.method and node.decorator_list:
                raise self._refuse("Form", node, "decorates an inner function")
            case _ if isinstance(node, _NO_FORM):
                text = f"has {type(node).__name__}; methods are plain functions: no async, yield, global, class"
                raise self._refuse("Form", node, text)
            case ast.Delete(targets=targets) if any(isinstance(t, ast.Name) for t in targets):
                raise self._refuse("Form", node, "deletes a name; set it to None")
            case ast.ExceptHandler(name=str(name)) if self._reads_after(node, name):
                raise self._refuse("Unset", node, f"uses {name} after its except clause, where Python deletes it")
            case ast.ExceptHandler(type=None):
                raise self._refuse("Form", node, "catches everything; write except Exception")
            case ast.Constant(value=bytes() | complex()):
                raise self._refuse("NotPlain", node, f"has {node.value!r}; data are numbers, strings, lists, dicts")
            case ast.Compare(left=left, ops=ops, comparators=others):
                for op, one, other in zip(ops, [left, *others], others, strict=False):
                    if isinstance(op, ast.Is | ast.IsNot) and not any(
                        isinstance(x, ast.Constant) for x in (one, other)
                    ):
                        raise self._refuse(
                            "Is", node, "compares with is; values are copied at every question; write =="
                        )
            case ast.Call():
                self._call(node)
            case ast.Subscript(value=value, ctx=ctx):
                self._usual |= {id(value)} if isinstance(value, ast.Name) else set()
                if not isinstance(ctx, ast.Load):
                    self._reach(node, value)
            case ast.Attribute():
                self._attribute(node)
            case ast.Name(id="self"):
                if id(node) not in self._usual or not isinstance(node.ctx, ast.Load):
                    key = ast.unparse(self.declared.methods["__key__"].body[-1]).removeprefix("return ")
                    text = "uses self as a value; only as an argument of a question is it a reference"
                    raise self._refuse("Form", node, f"{text}; write {self.shape.name}[{key}]")
            case ast.Name(id=name, ctx=ast.Load()) if name not in self.names.bound:
                self._global(node)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Attribute) and _lazy(self.names.kind(value)):
                        text = (
                            f"stores {ast.unparse(value)} in {ast.unparse(target)}, which is no data; write list(...)"
                        )
                        raise self._refuse("NotPlain", node, text)

    def _reads_after(self, clause: ast.ExceptHandler, name: str) -> bool:
        clauses = [n for n in ast.walk(self.method) if isinstance(n, ast.ExceptHandler) and n.name == name]
        inside = {id(n) for each in clauses for n in ast.walk(each)}
        reads = [n for n in ast.walk(self.method) if isinstance(n, ast.Name) and n.id == name and id(n) not in inside]
        return any(isinstance(n.ctx, ast.Load) and n.lineno > clause.lineno for n in reads)

    def _global(self, node: ast.Name) -> None:
        name = node.id
        if name in self.names.shapes:
            if id(node) not in self._usual:
                raise self._refuse("Draws", node, f"uses the class {name} as a value; write {name}[key] or {name}(...)")
            return
        value = value_of(self.declared, self.method.name, name)
        if value is MISSING:
            known = {*BUILTINS, *self.names.bound, *self.names.shapes}
            raise self._refuse("Draws", node, f"uses {name}, which has no value{nearest(name, known)}")
        if hasattr(value, "__entity__"):
            raise self._refuse("Draws", node, f"uses {name}, which is not in the program; add it to Program(...)")
        if not constant(value) and not (name in BUILTINS and value is getattr(builtins, name)):
            text = f"uses {name} ({type(value).__name__}): a replay could see another value; pass it in as an argument"
            raise self._refuse("Draws", node, text)

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self._usual.add(id(node.func))
        if (found := self.names.asked(node)) is not None:
            who, cls, what = found
            self._usual |= {id(argument) for argument in node.args}
            if isinstance(node.func, ast.Attribute):
                self._usual.add(id(node.func))
            if what.startswith("__") and who is not None:
                raise self._refuse("NoMethod", node, f"asks {cls} for {what}; a special method is not asked")
            self._count(node, self.names.shapes[cls], what)
        match node.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                self._usual.add(id(node.func))
                self._usual |= {id(argument) for argument in node.args if name in self._cut}
                self._count(node, self.shape, name)
            case ast.Attribute(value=value, attr=name) if name in MUTATORS:
                self._reach(node, value)

    def _count(self, node: ast.Call, shape: Shape, name: str) -> None:
        signature = shape.methods.get(name)
        if name == "__init__" and signature is None:
            return
        if signature is None:
            what = "is an attribute, not a method" if name in shape.attributes else "does not exist"
            text = f"calls {shape.name}.{name}, which {what}{nearest(name, shape.methods)}"
            raise self._refuse("NoMethod", node, text)
        given = len(node.args) + len(node.keywords)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return
        if not signature.least <= given <= signature.most:
            takes = f"{signature.least}" + (f" to {signature.most}" if signature.most > signature.least else "")
            raise self._refuse("NoMethod", node, f"calls {shape.name}.{name} with {given} arguments; it takes {takes}")

    def _reach(self, node: ast.AST, place: ast.expr) -> None:
        """Refuse the change of a place, if it is another entity's."""
        while isinstance(place, ast.Subscript):
            place = place.value
        if isinstance(place, ast.Attribute) and self.names.asked(ast.Attribute(place.value, place.attr, ast.Load())):
            text = f"changes {ast.unparse(place)}; an entity changes its own state only: give the other a method for it"
            raise self._refuse("Reach", node, text)

    def _attribute(self, node: ast.Attribute) -> None:
        name, loads = node.attr, isinstance(node.ctx, ast.Load)
        if isinstance(node.value, ast.Name):
            self._usual |= {id(node.value)} if node.value.id == "self" else set()
        if name.startswith("__") and name.endswith("__") and id(node) not in self._usual:
            raise self._refuse("Form", node, f"uses {name}; special attributes are the runtime's")
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            if loads and name not in self.shape.attributes and name not in self.shape.methods:
                text = f"reads self.{name}, which has no value{nearest(name, self.shape.attributes)}"
                raise self._refuse("NoMethod", node, text)
            if loads and name in self.shape.methods and id(node) not in self._usual:
                raise self._refuse("NoMethod", node, f"uses the method {name} as a value; call it")
            return
        kind = self.names.kind(node.value)
        if kind is not None and kind.form == "reference":
            if not loads:
                self._reach(node, node)
            shape = self.names.shapes[kind.of]
            if id(node) not in self._usual and name != "key" and name not in shape.attributes:
                what = "is a method; call it" if name in shape.methods else "does not exist"
                text = f"reads {kind.of}.{name}, which {what}{nearest(name, shape.attributes)}"
                raise self._refuse("NoMethod", node, text)
            return
        if isinstance(node.value, ast.Name) and node.value.id not in self.names.bound:
            return
        caught = {h.name for h in ast.walk(self.method) if isinstance(h, ast.ExceptHandler)}
        if isinstance(node.value, ast.Name) and node.value.id in caught:
            return
        members = {m for shape in self.names.shapes.values() for m in [*shape.methods, *shape.attributes]}
        if not loads or name not in _DATA or kind is None and name in members:
            text = f"uses {ast.unparse(node)}, and {ast.unparse(node.value)}"
            inner = [n for n in ast.walk(self.method) if isinstance(n, ast.FunctionDef | ast.Lambda)][1:]
            if isinstance(node.value, ast.Name) and node.value.id in {a.arg for n in inner for a in n.args.args}:
                text += " is a parameter of a lambda or of a function in a method, which asks no entity"
                raise self._refuse("Inside", node, f"{text}; ask in a for loop")
            text += " has no declared class"
            raise self._refuse("Untyped", node, f"{text}; declare it, as in 'item: Item' or 'lines: list[Item]'")

    def _reached(self, body: Any) -> None:
        for before, after in zip(body, body[1:], strict=False) if isinstance(body, list) else ():
            if isinstance(before, ast.stmt) and not falls([before]):
                raise self._refuse("Never", after, f"never reaches this line: line {before.lineno} leaves before it")

    def _returns(self) -> None:
        declared = self.method.returns
        if declared is None or any(isinstance(n, ast.Constant) and n.value is None for n in ast.walk(declared)):
            return
        if "Optional" in ast.unparse(declared):
            return
        ends: list[ast.AST] = [n for n in ast.walk(self.method) if isinstance(n, ast.Return) and n.value is None]
        if falls(self.method.body):
            ends.append(self.method.body[-1])
        if ends:
            text = f"is declared -> {ast.unparse(declared)}, and can end here without a return: its answer is then None"
            error = self._refuse("NoReturn", ends[0], f"{text}; add a return")
            if self.strict:
                raise error
            warnings.warn_explicit(f"NoReturn: {error.text}", EntityWarning, error.file, error.line)

    def annotation(self, node: ast.expr) -> None:
        """Check an annotation: it names data, or a class of the program."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
        for inner in ast.walk(node):
            match inner:
                case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id=key), _])) if (
                    key != "str"
                ):
                    raise self._refuse("NotPlain", node, f"declares a dict with keys of {key}; keys are str")
                case ast.Name(id=name) if name not in self.names.shapes and name not in _ANNOTATIONS:
                    value = value_of(self.declared, self.method.name, name)
                    if value is MISSING:
                        text = f"declares {name}, which is no class of the program{nearest(name, self.names.shapes)}"
                        raise self._refuse("Untyped", node, text)
                    if hasattr(value, "__entity__"):
                        text = f"declares {name}, which is not in the program; add it to Program(...)"
                        raise self._refuse("Untyped", node, text)
                    if isinstance(value, type) and not issubclass(value, Exception):
                        text = f"declares {name}, which is no data; data are int, str, bool, float, list, tuple, dict"
                        raise self._refuse("NotPlain", node, text)


_CLASSES = {"int", "str", "bool", "float", "list", "dict", "tuple", "self"}
"""Names that mean something else in every method."""
_ANNOTATIONS = {"int", "str", "bool", "float", "list", "dict", "tuple", "Any", "Optional", "Union"}


def check_class(shape: Shape, shapes: Mapping[str, Shape]) -> None:
    """Check the annotations of a class's body, and that its key never changes. Raises EntityError."""
    declared = shape.declared
    rules = Rules(Names(shape, declared.methods["__key__"], shapes), False)
    rules.where = shape.name
    for part in declared.node.body:
        if isinstance(part, ast.AnnAssign):
            rules.annotation(part.annotation)
    if shape.name in _CLASSES:
        raise declared.refuse("Form", declared.node, f"{shape.name} is the name of a part of Python; rename the class")
    taken = {"cls", "key"} & {*shape.attributes, *shape.methods}
    if ast.unparse(declared.methods["__key__"].body[-1]) == "return self.key":
        taken -= {*shape.attributes} & {"key"}
    if taken:
        text = f"{shape.name}.{min(taken)} has the name of a reference's own part; choose another"
        raise declared.refuse("Form", declared.node, text)
    key = {n.attr for n in ast.walk(declared.methods["__key__"]) if isinstance(n, ast.Attribute)}
    for name, method in declared.methods.items():
        if name == "__init__":
            continue
        for node in ast.walk(method):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store() | ast.Del()):
                    if attribute in key:
                        text = f"{shape.name}.{name} changes self.{attribute}, its key; create another entity"
                        raise declared.refuse("KeyChanges", node, text)


def _lazy(kind: Kind | None) -> bool:
    return kind is not None and (kind.form == "lazy" or any(map(_lazy, kind.parts)))


def shared(names: Names, statements: Iterable[ast.stmt], answers: Collection[str] = ()) -> dict[str, set[str]]:
    """For each name those that can hold the same list or dict; ``self`` stands for the state.

    A frame is copied at every question, so a list that two names hold would become two lists. ``answers`` are names
    of copies of lists of ``self``.
    """
    groups: dict[str, set[str]] = {name: {"self", *answers} for name in ("self", *answers) if answers}

    def meet(found: set[str]) -> None:
        group = found.union(*(groups.get(name, set()) for name in found))
        for name in group:
            groups[name] = group

    def store(target: ast.expr, holds: set[str]) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    store(part, holds)
            case _ if not (isinstance(target, ast.Name) and immutable(names.kind(target))):
                twice = "self" in holds or not together(groups, holds).isdisjoint(answers)
                if twice and not isinstance(target, ast.Name) and _root(target) == "self":
                    text = f"{names.shape.name}.{names.method.name} puts a list or dict of self into self a second time"
                    raise names.shape.declared.refuse("Alias", target, f"{text}; copy it, as in list(self.x)")
                if holds:
                    meet(holds | {_root(target)})

    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        store(target, holding(names, value))
                case ast.NamedExpr(target=target, value=value):
                    store(target, holding(names, value))
                case ast.For(target=target, iter=over) if not immutable(names.element(over)):
                    store(target, holding(names, over))
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                    for parameter, argument in passed(names, node):
                        if parameter in names.shape.changed[name] and (holds := holding(names, argument) - {"self"}):
                            meet(holds | {"self"})
                case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in MUTATORS:
                    for argument in args:
                        store(value, holding(names, argument))
    return groups


def together(groups: Mapping[str, set[str]], names: set[str]) -> set[str]:
    """Return names, and those that can hold the same list or dict as one of them."""
    return names.union(*(groups.get(name, set()) for name in names))


def passed(names: Names, call: ast.Call) -> list[tuple[str, ast.expr]]:
    """The parameters of an own method with the arguments of a call."""
    method = names.shape.declared.methods[call.func.attr]  # type: ignore[attr-defined]
    given = [(parameter.arg, argument) for parameter, argument in zip(method.args.args[1:], call.args, strict=False)]
    return given + [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]


def changes(names: Names, statements: Iterable[ast.stmt]) -> set[str]:
    """The names whose lists or dicts are changed in place; ``self`` stands for the state."""
    found: set[str] = set()
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                changed = names.shape.changed[name]
                found |= changed & {"self"}
                found = found.union(
                    *(holding(names, part) for parameter, part in passed(names, node) if parameter in changed)
                )
                continue
            case ast.Call(func=ast.Attribute(value=place, attr=name)) if name in MUTATORS:
                pass
            case ast.AugAssign(value=ast.Constant(value=int() | float())):
                continue
            case ast.Subscript(value=place, ctx=ast.Store() | ast.Del()) | ast.AugAssign(target=place):
                pass
            case _:
                continue
        if not immutable(names.kind(place)):
            found.add(_root(place))
    return found


def follow(names: Names) -> bool:
    """Note which lists and dicts a method changes, keeps and returns. Return whether more are known now."""
    shape, method = names.shape, names.method
    before = shape.changed[method.name], shape.held[method.name]
    groups = shared(names, method.body)
    parameters = {a.arg for a in method.args.args[1:] if not immutable(names.names.get(a.arg))}
    changed = together(groups, changes(names, method.body)) & {"self", *parameters}
    returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return) and node.value]
    held = together(groups, set().union(*(holding(names, value) for value in returned))) & {"self", *parameters}
    shape.changed[method.name] = changed | groups.get("self", set()) & parameters
    shape.held[method.name] = held
    return before != (shape.changed[method.name], held)


def _root(node: ast.expr) -> str:
    """The name that a place belongs to: ``self`` of ``self.a[k]``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else "?"


def holding(names: Names, node: ast.expr) -> set[str]:
    """The names whose lists or dicts an expression's value can hold."""
    kind = names.kind(node)
    if immutable(kind):
        return set()
    fresh = isinstance(node, ast.BinOp | ast.ListComp | ast.DictComp | ast.GeneratorExp)
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript(slice=ast.Slice()):
            fresh = True
        case ast.Attribute() | ast.Subscript():
            return {_root(node)}
        case ast.Constant() | ast.Lambda():
            return set()
        case ast.Call(func=ast.Name(id="list" | "@list" | "sorted" | "tuple" | "dict") | ast.Attribute(attr="copy")):
            fresh = True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            held = names.shape.held[name]
            return (held & {"self"}).union(*(holding(names, part) for p, part in passed(names, node) if p in held))
    if fresh and (immutable(kind.part) if kind else isinstance(node, ast.BinOp)):
        return set()
    return set().union(*(holding(names, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)))
