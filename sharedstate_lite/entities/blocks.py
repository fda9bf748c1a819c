"""Blocks become Python functions: ``(self, frame) -> (next block, frame) | Ask | Return``.

A frame is a dict of the names that the rest of the method still needs. It is data: it can be logged, sent, and shown.

A `Machine` is a compiled method. A carrier runs it so: give ``machine.blocks[0].run`` the entity and
``machine.frame(args)``. A tuple names the next block and its frame. `Ask` is a question: when the answer is there, put
it into ``frame[ask.name]`` and run ``blocks[ask.then]``; if the answer is an exception, `Machine.caught` says which
block goes on. `Return` is the end. A block may change the lists in its frame: a carrier that keeps a frame copies it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from .declare import Reference, copied, key_of
from .kinds import Names, binds, immutable
from .rules import changes, holding, shared, together
from .split import ASK, CREATE, MEMORY, Block, Suspend, is_me, takes_all

S = TypeVar("S", bound=ast.stmt)
Frame = dict[str, Any]


class Ask:
    """A question: ``who`` is a reference, ``args`` is None if ``what`` is an attribute, else a copy of them.

    ``what`` is ``__init__`` for a creation; its answer is the reference, or Refused if the key exists.
    """

    __slots__ = ("who", "what", "args", "then", "name", "frame")

    def __init__(
        self, who: Reference, what: str, args: tuple[Any, ...] | None, then: int, name: str, frame: Frame
    ) -> None:
        if not isinstance(who, Reference):
            raise AttributeError(f"{type(who).__name__!r} object has no attribute {what!r}")
        self.who, self.what, self.then, self.name, self.frame = who, what, then, name, frame
        self.args: tuple[Any, ...] | None = copied(args, "an argument")


class Return:
    """The end of a method: its result."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Step = tuple[int, Frame] | Ask | Return


def copied_frame(frame: Frame) -> Frame:
    """Return a copy of a frame. Raises NotPlain, with the name, for what is neither data nor an exception."""
    return {name: value if isinstance(value, Exception) else copied(value, name) for name, value in frame.items()}


class Handler(NamedTuple):
    """An except clause: a block with it hands an exception of ``types``, as ``name``, to block ``to``."""

    types: tuple[type[BaseException], ...]
    name: str
    to: int
    live: tuple[str, ...]


class Edge(NamedTuple):
    """Where a block can go: ``label`` is empty, the name of an answer, or ``except`` with its classes."""

    to: int
    label: str


class Asked(NamedTuple):
    """A question in a block: who is asked, of which class, for what, and which names travel until the answer."""

    who: str
    cls: str
    what: str
    args: tuple[str, ...] | None
    name: str
    then: int
    travels: tuple[str, ...]


class CompiledBlock(NamedTuple):
    """A block of a machine: its function, and what a picture of it needs."""

    number: int
    run: Callable[[Any, Frame], Step]
    live: tuple[str, ...]
    handlers: tuple[Handler, ...]
    lines: tuple[tuple[int, str], ...]
    edges: tuple[Edge, ...]
    asks: tuple[Asked, ...]


class Machine(NamedTuple):
    """A compiled method. ``blocks`` by number; the first is 0. ``annotations``: for each parameter a text, or empty."""

    cls: str
    method: str
    parameters: tuple[str, ...]
    annotations: tuple[str, ...]
    defaults: tuple[Any, ...]
    transactional: bool
    blocks: dict[int, CompiledBlock]

    def frame(self, args: Iterable[Any]) -> Frame:
        """Return the first frame. Raises TypeError if there are too many or too few arguments."""
        values = tuple(args)
        missing = len(self.parameters) - len(values)
        if missing < 0 or missing > len(self.defaults):
            raise TypeError(f"{self.cls}.{self.method} takes {len(self.parameters)} arguments, not {len(values)}")
        return dict(zip(self.parameters, values + self.defaults[len(self.defaults) - missing :], strict=True))

    def caught(self, block: int, error: BaseException, frame: Frame) -> tuple[int, Frame] | None:
        """Return where an exception goes that answers a question of a block, or None if the method ends with it."""
        for types, name, to, live in self.blocks[block].handlers:
            if isinstance(error, types):
                return to, {n: error if n == name else frame[n] for n in live}
        return None


def assemble(names: Names, blocks: list[Block], lines: list[str], known: Mapping[str, Any]) -> Machine:
    """Compile the blocks of a method. ``known`` are the globals of the code.

    Raises EntityError: Unset, Alias, NotPlain.
    """
    declared, method = names.shape.declared, names.method
    parameters = tuple(a.arg for a in method.args.args[1:])
    blocks = _reached(blocks)
    _liveness(blocks, {name for node in ast.walk(method) for name in binds(node)} - {"self"})
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
        after = set().union(*map(_loads, [*block.body[i + 1 :], *block.reads]), *(to.live for to in block.next))
        if wrong := sorted(changed & copies or ("self" in changed and copies & before & after) or ()):
            text = f"{wrong[0]} is a copy of what {names.shape.name} holds, as an own method that asks has returned it"
            raise names.shape.declared.refuse(
                "Alias", statement, f"{text}, and one of the two changes here; write list(...)"
            )


def create(cls: type, name: str, args: tuple[Any, ...], then: int, to: str, frame: Frame) -> Ask:
    """Return the question that creates an entity: its key is what ``__key__`` says after ``__init__``."""
    draft: Any = object.__new__(cls)
    draft.__init__(*copied(args, "an argument"))
    return Ask(Reference(name, key_of(draft)), "__init__", args, then, to, frame)


def _reached(blocks: list[Block]) -> list[Block]:
    """The blocks that control can reach; an empty block that only goes on is left out."""

    def target(block: Block) -> Block:
        while block.after and not block.test and not block.body and block.after != [block]:
            (block,) = block.after
        return block

    found: dict[int, Block] = {}
    pending = [blocks[0]]
    while pending:
        block = pending.pop()
        if block.number not in found:
            found[block.number] = block
            block.after = [target(to) for to in block.after]
            pending += block.next
    return [found[number] for number in sorted(found)]


# Which names are needed


def _loads(node: ast.AST) -> set[str]:
    """Names that code reads; those of a comprehension or a lambda in it are its own."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return {name}
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
            own = {name for inner in ast.walk(node) for name in binds(inner)}
            first = set() if isinstance(node, ast.Lambda) else _loads(node.generators[0].iter)
            return first | set().union(*map(_loads, ast.iter_child_nodes(node))) - own
        case _:
            found = set().union(*map(_loads, ast.iter_child_nodes(node)))
            return found - _walrus(node) if isinstance(node, ast.expr) else found


def _walrus(node: ast.AST) -> set[str]:
    """The names that := sets in an expression."""
    return {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}


Flow = tuple[set[str], set[str] | None]
"""The names that code reads before it sets them, and those that it sets on every way; None: it does not go on."""


def _body(body: Iterable[ast.stmt]) -> Flow:
    uses: set[str] = set()
    sets: set[str] = set()
    for s in body:
        more, given = _flow(s)
        uses |= more - sets
        if given is None:
            return uses, None
        sets |= given
    return uses, sets


def _either(*ways: Flow) -> Flow:
    given = [sets for _, sets in ways if sets is not None]
    return set().union(*(uses for uses, _ in ways)), set.intersection(*given) if given else None


def _flow(s: ast.stmt) -> Flow:
    """What a statement reads and sets."""
    match s:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return _loads(s), None
        case ast.If(test=test, body=body, orelse=orelse):
            uses, sets = _either(_body(body), _body(orelse))
            given = _walrus(test)
            return _loads(test) | uses - given, None if sets is None else sets | given
        case ast.For(target=target, iter=over, body=body, orelse=orelse):
            given = {name for n in ast.walk(target) for name in binds(n)}
            uses = _loads(target) | _body(body)[0] - given | _body(orelse)[0]
            return _loads(over) | uses - _walrus(over), _walrus(over)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            ways = [_body([*body, *orelse])]
            for handler in handlers:
                uses, sets = _body(handler.body)
                ways.append((uses - {handler.name or ""} | (_loads(handler.type) if handler.type else set()), sets))
            uses, sets = _either(*ways)
            more, last = _body(final)
            return uses | more, None if sets is None or last is None else sets | last
        case ast.With(items=items, body=body):
            uses, sets = _body(body)
            given = {name for item in items for n in ast.walk(item) for name in binds(n)}
            return set().union(*map(_loads, items)) | uses - given, None if sets is None else sets | given
        case ast.Match(subject=subject, cases=cases):
            ways = [] if takes_all(cases[-1]) else [(set(), set())]
            for case in cases:
                given = {name for n in ast.walk(case.pattern) for name in binds(n)}
                uses, sets = _body([ast.Expr(case.guard), *case.body] if case.guard else case.body)
                ways.append((_loads(case.pattern) | uses - given, None if sets is None else sets | given))
            uses, sets = _either(*ways)
            given = _walrus(subject)
            return _loads(subject) | uses - given, None if sets is None else sets | given
        case ast.FunctionDef(name=name):
            inner = {given for n in ast.walk(s) for given in binds(n)}
            return _loads(s) - inner, {name}
        case ast.AugAssign(target=ast.Name(id=name)):
            return _loads(s) | {name}, {name}
    given = set() if isinstance(s, ast.Expr | ast.Assert) else {name for n in _own(s) for name in binds(n)}
    return _loads(s), given | _walrus(s)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, those of comprehensions and lambdas left out."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            yield from _own(child)


def _liveness(blocks: list[Block], bound: set[str]) -> None:
    """The names that each block needs, by the usual backward pass: what it reads, and what is needed after it."""
    flows = {}
    for block in blocks:
        uses, sets = _body(block.body)
        uses = uses.union(*(_loads(part) - (sets or set()) for part in block.reads))
        flows[block.number] = uses, (sets or set()).union(*map(_walrus, block.reads))
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            uses, sets = flows[block.number]
            needed = uses.union(*(set(to.live) - sets for to in block.after))
            if block.asks:
                needed |= set(block.asks.then.live) - sets - {block.asks.name}
            for handler in block.handlers:
                needed |= set(handler.to.live) - {handler.name}
            live = tuple(sorted(n for n in needed if n in bound or not (n.isidentifier() or n.startswith("@"))))
            changed |= live != block.live
            block.live = live


def _first_use(method: ast.FunctionDef, name: str) -> ast.AST:
    reads = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return min(reads, key=lambda n: n.lineno, default=method)


def _lines_of(block: Block) -> set[int]:
    nodes = [*block.body, *block.reads]
    return {n.lineno for node in nodes for n in ast.walk(node) if hasattr(n, "lineno") and n.lineno} or {block.line}


def _classes(types: ast.expr, scope: dict[str, Any]) -> tuple[type[BaseException], ...]:
    found = eval(compile(ast.fix_missing_locations(ast.Expression(types)), "<except>", "eval"), scope)
    return found if isinstance(found, tuple) else (found,)


# Code


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
