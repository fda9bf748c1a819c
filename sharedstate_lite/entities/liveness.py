"""Which blocks of a method control can reach, and which names each of them needs: its frame has these names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .kinds import binds
from .split import Block, takes_all


def reached(blocks: list[Block]) -> list[Block]:
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


def loads(node: ast.AST) -> set[str]:
    """Names that code reads; those of a comprehension or a lambda in it are its own."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return {name}
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
            own = {name for inner in ast.walk(node) for name in binds(inner)}
            first = set() if isinstance(node, ast.Lambda) else loads(node.generators[0].iter)
            return first | set().union(*map(loads, ast.iter_child_nodes(node))) - own
        case _:
            found = set().union(*map(loads, ast.iter_child_nodes(node)))
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
            return loads(s), None
        case ast.If(test=test, body=body, orelse=orelse):
            uses, sets = _either(_body(body), _body(orelse))
            given = _walrus(test)
            return loads(test) | uses - given, None if sets is None else sets | given
        case ast.For(target=target, iter=over, body=body, orelse=orelse):
            given = {name for n in ast.walk(target) for name in binds(n)}
            uses = loads(target) | _body(body)[0] - given | _body(orelse)[0]
            return loads(over) | uses - _walrus(over), _walrus(over)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            ways = [_body([*body, *orelse])]
            for handler in handlers:
                uses, sets = _body(handler.body)
                ways.append((uses - {handler.name or ""} | (loads(handler.type) if handler.type else set()), sets))
            uses, sets = _either(*ways)
            more, last = _body(final)
            return uses | more, None if sets is None or last is None else sets | last
        case ast.With(items=items, body=body):
            uses, sets = _body(body)
            given = {name for item in items for n in ast.walk(item) for name in binds(n)}
            return set().union(*map(loads, items)) | uses - given, None if sets is None else sets | given
        case ast.Match(subject=subject, cases=cases):
            ways = [] if takes_all(cases[-1]) else [(set(), set())]
            for case in cases:
                given = {name for n in ast.walk(case.pattern) for name in binds(n)}
                uses, sets = _body([ast.Expr(case.guard), *case.body] if case.guard else case.body)
                ways.append((loads(case.pattern) | uses - given, None if sets is None else sets | given))
            uses, sets = _either(*ways)
            given = _walrus(subject)
            return loads(subject) | uses - given, None if sets is None else sets | given
        case ast.FunctionDef(name=name):
            inner = {given for n in ast.walk(s) for given in binds(n)}
            return loads(s) - inner, {name}
        case ast.AugAssign(target=ast.Name(id=name)):
            return loads(s) | {name}, {name}
    given = set() if isinstance(s, ast.Expr | ast.Assert) else {name for n in _own(s) for name in binds(n)}
    return loads(s), given | _walrus(s)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, those of comprehensions and lambdas left out."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            yield from _own(child)


def liveness(blocks: list[Block], bound: set[str]) -> None:
    """The names that each block needs, by the usual backward pass: what it reads, and what is needed after it."""
    flows = {}
    for block in blocks:
        uses, sets = _body(block.body)
        uses = uses.union(*(loads(part) - (sets or set()) for part in block.reads))
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
