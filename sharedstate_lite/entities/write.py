"""Writes the blocks of a method as Python functions, and refuses a method whose frames could not be data."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, TypeVar

from .kinds import Names, binds, immutable
from .liveness import liveness, loads, reached
from .machine import Asked, CompiledBlock, Edge, Handler, Machine
from .rules import changes, holding, shared, together
from .split import ASK, CREATE, MEMORY, Block, Suspend, is_me

S = TypeVar("S", bound=ast.stmt)


def assemble(names: Names, blocks: list[Block], lines: list[str], known: Mapping[str, Any]) -> Machine:
    """Compile the blocks of a method. ``known`` are the globals of the code.

    Raises EntityError: Unset, Alias, NotPlain.
    """
    declared, method = names.shape.declared, names.method
    parameters = tuple(a.arg for a in method.args.args[1:])
    blocks = reached(blocks)
    liveness(blocks, {name for node in ast.walk(method) for name in binds(node)} - {"self"})
    if unset := [name for name in blocks[0].live if name not in parameters]:
        name = unset[0]
        text = f"{name} has no value on one way through {declared.name}.{method.name}; give it one before"
        raise declared.refuse("Unset", _first_use(method, name), text)
    writer = _Writer(blocks)
    _check_frames(names, blocks, writer)
    module = ast.Module([ast.ClassDef(declared.name, [], [], [writer.function(b) for b in writer.heads], [])], [])
    scope: dict[str, Any] = dict(known)
    exec(compile(ast.fix_missing_locations(module), declared.file, "exec"), scope)
    functions = vars(scope[declared.name])
    scope[declared.name] = known[declared.name]  # the class statement has bound this name to a class
    compiled = {}
    for at, block in enumerate(writer.heads):
        handlers = tuple(
            Handler(_classes(c.types, scope), c.name, writer.order[c.to.number], c.to.live) for c in block.handlers
        )
        inside = writer.inside(block)
        edges = [Edge(writer.order[to.number], "") for part in inside for to in writer.jumps(part)]
        asks = [writer.asked(part.asks, writer.travels(part)) for part in inside if part.asks]
        edges += [Edge(ask.then, ask.name) for ask in asks]
        edges += [Edge(h.to, f"except {ast.unparse(c.types)}") for h, c in zip(handlers, block.handlers, strict=True)]
        numbers = sorted({n for part in inside for n in _lines_of(part)})
        source = tuple((n, lines[n - 1].rstrip()) for n in numbers if n <= len(lines))
        run = functions[f"@{at}"]
        compiled[at] = CompiledBlock(at, run, block.live, handlers, source, tuple(edges), tuple(asks))
    defaults = tuple(default.value for default in method.args.defaults if isinstance(default, ast.Constant))
    transactional = getattr(vars(declared.cls)[method.name], "__transactional__", False)
    annotations = tuple(ast.unparse(a.annotation) if a.annotation else "" for a in method.args.args[1:])
    return Machine(declared.name, method.name, parameters, annotations, defaults, transactional, compiled)


def _check_frames(names: Names, blocks: list[Block], writer: _Writer) -> None:
    """Raise EntityError if a frame would hold what is no data, or a list or dict that is held elsewhere too."""
    shape, where = names.shape, f"{names.shape.name}.{names.method.name}"
    own = [block.asks for block in blocks if block.asks and block.asks.who and is_me(block.asks.who)]
    answers = {a.name for a in own if "self" in shape.held[a.what] and not immutable(names.names.get(a.name))}
    groups = shared(names, (statement for block in blocks for statement in block.body), answers)
    for block in blocks:
        _check_copies(names, block, groups, answers)
        if not block.asks:
            continue
        travels = writer.travels(block)
        at = _at(ast.Pass(), block.asks.then.line)
        if block.asks in own:
            _check_arguments(names, block.asks, groups, {"self", *travels}, at)
        for name in travels:
            if (kind := names.names.get(name)) and kind.form == "lazy":
                text = f"{where} still needs {name} after this question, and {name} is no data; write list(...)"
                raise shape.declared.refuse("NotPlain", at, text)
            others = sorted(groups.get(name, set()) & {"self", *travels} - {name})
            if others and not immutable(kind):
                text = f"{where} still needs {name} after this question, and {name} can hold a list or dict of "
                text += f"{others[0]}, of which a frame has a copy; copy it before, as in list(x), or declare what "
                raise shape.declared.refuse("Alias", at, text + "it holds")


def _check_arguments(
    names: Names, asks: Suspend, groups: Mapping[str, set[str]], needed: set[str], at: ast.AST
) -> None:
    """Raise EntityError if an own method that asks would change, keep or return a list or dict that is needed."""
    changed, held = names.shape.changed[asks.what], names.shape.held[asks.what]
    args = asks.args or []
    given = [together(groups, holding(names, arg)) for arg in args]
    for i, parameter in enumerate(names.shape.declared.methods[asks.what].args.args[1 : len(given) + 1]):
        others = given[i] & needed.union(*given[:i], *given[i + 1 :])
        if others and (parameter.arg in changed | held or "self" in given[i] & changed):
            other, given_to = (
                min(others - given[i] or others),
                f"self.{asks.what} gets a copy of {ast.unparse(args[i])}",
            )
            text = f"{given_to}, as it asks, loops with while or calls itself, so {other} would not see what it changes"
            raise names.shape.declared.refuse("Alias", at, f"{text}; return it and assign it, or pass list(...)")


def _check_copies(names: Names, block: Block, groups: Mapping[str, set[str]], answers: set[str]) -> None:
    """Raise EntityError if a copy of a list or dict of ``self`` is changed, or is needed after ``self`` has changed."""
    copies = together(groups, answers) - {"self"} if answers else set()
    for i, statement in enumerate(block.body if copies else ()):
        changed = changes(names, [statement])
        before = {*block.live}.union(name for s in block.body[:i] for node in ast.walk(s) for name in binds(node))
        after = set().union(*map(loads, [*block.body[i + 1 :], *block.reads]), *(to.live for to in block.next))
        if wrong := sorted(changed & copies or ("self" in changed and copies & before & after) or ()):
            text = f"{wrong[0]} is a copy of what {names.shape.name} holds, as an own method that asks has returned it"
            raise names.shape.declared.refuse(
                "Alias", statement, f"{text}, and one of the two changes here; write list(...)"
            )


def _first_use(method: ast.FunctionDef, name: str) -> ast.AST:
    reads = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return min(reads, key=lambda n: n.lineno, default=method)


def _lines_of(block: Block) -> set[int]:
    nodes = [*block.body, *block.reads]
    return {n.lineno for node in nodes for n in ast.walk(node) if hasattr(n, "lineno") and n.lineno} or {block.line}


def _classes(types: ast.expr, scope: dict[str, Any]) -> tuple[type[BaseException], ...]:
    found = eval(compile(ast.fix_missing_locations(ast.Expression(types)), "<except>", "eval"), scope)
    return found if isinstance(found, tuple) else (found,)


class _Writer:
    """Writes functions. A block that is reached from one place is written there, and is no function of its own."""

    def __init__(self, blocks: list[Block]) -> None:
        ways = [to.number for block in blocks for to in block.after]
        entered = {0} | {c.to.number for block in blocks for c in block.handlers}
        entered |= {block.asks.then.number for block in blocks if block.asks}
        self._alone = {number for number in ways if ways.count(number) == 1} - entered
        joined = {to.number for block in blocks for to in block.after if self._inlined(block, to)}
        self.heads = [block for block in blocks if block.number not in joined]
        """The blocks that become functions, in the order of the source."""
        self.heads.sort(key=lambda block: (block.number != 0, block.line, block.number))
        self.order = {block.number: at for at, block in enumerate(self.heads)}

    def _inlined(self, at: Block, to: Block) -> bool:
        """Whether the code of a block is written where it is reached from."""
        return to.number in self._alone and [c.name for c in at.handlers] == [c.name for c in to.handlers]

    def inside(self, block: Block) -> list[Block]:
        """The blocks whose code is in the function of a block."""
        found = [block]
        for each in found:
            found += [to for to in each.after if self._inlined(each, to)]
        return found

    def jumps(self, block: Block) -> list[Block]:
        """The functions that a block goes to."""
        return [to for to in block.after if not self._inlined(block, to)]

    def travels(self, block: Block) -> tuple[str, ...]:
        """The names in the frame of a block's question: those that its answer's block and its handlers need."""
        assert block.asks
        needed = set(block.asks.then.live) - {block.asks.name}
        for handler in block.handlers:
            needed |= set(handler.to.live) - {handler.name}
        return tuple(sorted(needed))

    def asked(self, end: Suspend, travels: tuple[str, ...]) -> Asked:
        """Describe a question for a picture."""
        who = end.cls if end.who is None else "self" if is_me(end.who) else ast.unparse(end.who)
        args = None if end.args is None else tuple("self" if is_me(arg) else ast.unparse(arg) for arg in end.args)
        return Asked(who, end.cls, end.what, args, end.name, self.order[end.then.number], travels)

    def function(self, block: Block) -> ast.FunctionDef:
        """Write the function of a block."""
        frame = [ast.Subscript(_name("@frame"), ast.Constant(name), ast.Load()) for name in block.live]
        body: list[ast.stmt] = [
            ast.Assign([ast.Name(name, ast.Store())], value) for name, value in zip(block.live, frame, strict=True)
        ]
        code = self._code(block)
        if block.handlers:
            clauses = [ast.ExceptHandler(_name(MEMORY), None, [ast.Raise()])]
            for c in block.handlers:
                clauses.append(ast.ExceptHandler(c.types, "@error", [self._go(c.to, {c.name: "@error"})]))
            code = [ast.Try(code, clauses, [], [])]
        arguments = ast.arguments([], [ast.arg("self"), ast.arg("@frame")], None, [], [], None, [])
        name = f"@{self.order[block.number]}"
        return _at(ast.FunctionDef(name, arguments, body + code, []), block.line)

    def _code(self, block: Block) -> list[ast.stmt]:
        """Write the statements of a block, and its end."""
        body = list(block.body)
        if block.test:
            body.append(ast.copy_location(ast.If(block.test, self._jump(block, block.after[0]), []), block.test))
        if block.after:
            body += self._jump(block, block.after[-1])
        if block.asks:
            who, cls, what, args, name, then = block.asks
            given: ast.expr = ast.Constant(None) if args is None else ast.Tuple(args, ast.Load())
            number, answer = ast.Constant(self.order[then.number]), ast.Constant(name)
            rest: list[ast.expr] = [given, number, answer, _frame({n: n for n in self.travels(block)})]
            asked = [who, ast.Constant(what)] if who else [_name(f"{CREATE} {cls}"), ast.Constant(cls)]
            body.append(_at(ast.Return(ast.Call(_name(ASK if who else CREATE), asked + rest, [])), then.line))
        return body

    def _jump(self, block: Block, to: Block) -> list[ast.stmt]:
        return self._code(to) if self._inlined(block, to) else [self._go(to, {})]

    def _go(self, to: Block, other: dict[str, str]) -> ast.stmt:
        frame = _frame({name: other.get(name, name) for name in to.live})
        return ast.Return(ast.Tuple([ast.Constant(self.order[to.number]), frame], ast.Load()))


def _at(node: S, line: int) -> S:
    node.lineno = node.end_lineno = line
    node.col_offset = node.end_col_offset = 0
    return node


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _frame(values: dict[str, str]) -> ast.expr:
    return ast.Dict([ast.Constant(name) for name in values], [_name(value) for value in values.values()])
