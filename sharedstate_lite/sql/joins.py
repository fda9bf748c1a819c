"""Compiles FROM into a left-deep tree of equality joins.

Tables are joined in FROM order. A table after a comma is joined as soon as an equality connects it with the tables that
are already joined. All conditions that are not such equalities become a filter above the joins. The inputs of the joins
are therefore bare relations, and their arrangements can be shared.

A join needs at least one equality between columns of the same type. The ON of a LEFT JOIN can contain only equalities,
because ON decides which rows are padded with NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import SqlError
from ..plan.nodes import Join, Node, Type
from .grammar import EQUI, show
from .scope import ColumnRef, Scope, check_width


@dataclass(frozen=True)
class Equality:
    """An equality between columns of two tables.

    ``owner`` is the number of the table whose JOIN contains the equality, or None if WHERE contains it.
    """

    left: ColumnRef
    right: ColumnRef
    owner: int | None

    def ends_at(self, source: int) -> tuple[ColumnRef, ColumnRef] | None:
        """Return both columns, with the column of table ``source`` in second place.

        Return None if neither column belongs to table ``source``.
        """
        if self.right.source == source:
            return self.left, self.right
        return (self.right, self.left) if self.left.source == source else None


@dataclass
class Condition:
    """A condition of an ON or WHERE for the filter above the joins, with the numbers of the tables that it can name."""

    clause: str
    node: exp.Expr
    among: range


@dataclass
class FromClause:
    """The tables in FROM, the equalities that join them, and all other conditions of FROM and WHERE."""

    scope: Scope
    outer: set[int] = field(default_factory=set)
    """The numbers of the tables on the right side of a LEFT JOIN."""
    item: list[int] = field(default_factory=list)
    """For each table, the number of the comma-separated item of FROM that contains it."""
    equalities: list[Equality] = field(default_factory=list)
    rest: list[Condition] = field(default_factory=list)

    def read(self, select: exp.Expr) -> None:
        """Read the tables in FROM and the conditions in ON and USING of a SELECT."""
        self._first(select.args["from_"].this)
        for join in select.args.get("joins") or []:
            outer = bool(join.side)
            if outer or join.args.get("on") is not None or join.args.get("using"):
                self._joined(join, outer)
            else:
                self._first(join.this)

    def _first(self, table: exp.Expr) -> None:
        number = self.scope.add(table)
        self.item.append(len(self.scope.stars))
        self.scope.stars.append(self.scope.places(number))

    def _joined(self, join: exp.Expr, outer: bool) -> None:
        scope, new = self.scope, self.scope.add(join.args["this"])
        item = self.item[-1]
        among = range(self.item.index(item), new + 1)
        self.item.append(item)
        if outer:
            self.outer.add(new)
        before = len(self.equalities)
        shared = []
        using = [name.name for name in join.args.get("using") or []]
        if len({name.lower() for name in using}) < len(using):
            raise SqlError(f"USING ({', '.join(using)}) lists a column twice; list each column once")
        for name in using:
            left, right = scope.find(name, among=among[:-1]), scope.find(name, among=[new])
            self._equate(left, right, new)
            scope.merged.add(right)
            shared.append(left)
        star = [p for p in scope.stars[item] if p not in shared]
        scope.stars[item] = shared + star + [p for p in scope.places(new) if p not in scope.merged]
        on = join.args.get("on")
        for condition in conjuncts(on):
            pair = self._columns(condition, among)
            if pair and new in (pair[0].source, pair[1].source):
                self._equate(*pair, new)
            elif isinstance(condition, exp.Column) and not self._boolean(condition, among):
                raise SqlError(
                    f"ON {show(condition)} is not a condition; "
                    f"to join on a column that both tables have, write USING ({condition.name})"
                )
            elif outer:
                raise SqlError(
                    f"{show(condition)} in the ON of a LEFT JOIN is not supported: "
                    f"it can contain only equalities between columns{self._instead(condition, among)}"
                )
            else:
                self.rest.append(Condition("ON", condition, among))
        if len(self.equalities) == before:
            what = f"with ON {show(on)}" if on is not None else "without a condition"
            raise SqlError(f"a join {what} is not supported: {EQUI}")

    def _instead(self, condition: exp.Expr, among: range) -> str:
        """Return what to write instead of a condition in the ON of a LEFT JOIN, or "" if it compares both sides."""
        columns = [] if condition.find(exp.Query) else condition.find_all(exp.Column)
        right = {self.scope.find(c.name, c.table, among).source == among[-1] for c in columns}
        if right == {True}:
            return "; declare a view of the right side with this condition in WHERE, and join that view"
        if right == {False}:
            case = f"CASE WHEN {show(condition)} THEN k END AS j"
            return (
                f"; declare a view of the left side that adds {case}, where k is the column that it is joined on, and "
                "join on j instead"
            )
        return ""

    def _equate(self, left: ColumnRef, right: ColumnRef, owner: int | None) -> None:
        if not self._joinable(left, right):
            a, b = self.scope.column(left).type.value, self.scope.column(right).type.value
            raise SqlError(
                f"{self.scope.label(left)} is {a} and {self.scope.label(right)} is {b}, but joined columns must have "
                "the same type (INT also matches BIGINT); CAST one of them in a separate view and join that view"
            )
        # Sorted, because a.x = b.x and b.x = a.x are the same equality.
        left, right = sorted((left, right))
        equality = Equality(left, right, owner)
        if equality not in self.equalities:
            self.equalities.append(equality)

    def _joinable(self, left: ColumnRef, right: ColumnRef) -> bool:
        types = {self.scope.column(left).type, self.scope.column(right).type}
        return len(types) == 1 or types == {Type.INT, Type.BIGINT}

    def _columns(self, condition: exp.Expr, among: range) -> tuple[ColumnRef, ColumnRef] | None:
        """Return the two columns if the condition is an equality between columns of different tables, else None."""
        if not isinstance(condition, exp.EQ):
            return None
        sides = [condition.this.unnest(), condition.expression.unnest()]
        if not all(isinstance(s, exp.Column) for s in sides):
            return None
        left, right = (self.scope.find(s.name, s.table, among) for s in sides)
        return (left, right) if left.source != right.source else None

    def _boolean(self, column: exp.Column, among: range) -> bool:
        """Return whether exactly one column in the tables ``among`` has this name, and that column is BOOLEAN."""
        sources = [n for n in among if column.table.lower() in ("", self.scope.sources[n].name.lower())]
        named = [c for n in sources for c in self.scope.sources[n].schema if c.name.lower() == column.name.lower()]
        return [c.type for c in named] == [Type.BOOLEAN]

    def where(self, condition: exp.Expr | None) -> None:
        """Read WHERE. Equalities between comma-separated items join them. All other conditions become a filter."""
        every = range(len(self.scope.sources))
        for part in conjuncts(condition):
            pair = self._columns(part, every) if len(self.scope.stars) > 1 else None
            if pair and self.item[pair[0].source] != self.item[pair[1].source] and self._joinable(*pair):
                self._equate(*pair, None)
            else:
                self.rest.append(Condition("WHERE", part, every))

    def tree(self) -> tuple[Node, dict[int, int], list[Equality]]:
        """Return the tree of joins, the column offsets, and the equalities that are not part of any join.

        The offsets map each table's number to the position of its first column in the output of the joins. Raises
        SqlError if a table is not connected with the others by an equality.
        """
        count = len(self.scope.sources)
        starts = [s for s in range(count) if s not in self.outer]
        orders = (self._order(start) for start in starts)
        order = next((o for o in orders if len(o) == count), None)
        if order is None:
            reached = self._order(0)
            lost = next(s for s in range(count) if s not in reached)
            name = self.scope.sources[lost].name
            raise SqlError(
                f"{name} has no equality that joins it to the other tables: {EQUI}, with the same type on both sides"
            )
        return self._build(order)

    def _order(self, start: int) -> list[int]:
        """Return the tables that can be joined one by one, beginning with ``start``, in FROM order if possible."""
        order = [start]
        while True:
            ready = (s for s in range(len(self.scope.sources)) if s not in order and self._keys(s, order))
            found = next(ready, None)
            if found is None:
                return order
            order.append(found)

    def _keys(self, source: int, order: list[int]) -> list[Equality]:
        """Return the equalities that join ``source`` with the tables in ``order``, or [] if ``source`` must wait."""
        reach = [e for e in self.equalities if (ends := e.ends_at(source)) and ends[0].source in order]
        if source not in self.outer:
            return reach
        # Only the ON of a LEFT JOIN decides which rows it pads, so all tables that it names must be joined already.
        own = [e for e in self.equalities if e.owner == source]
        return own if all(e in reach for e in own) else []

    def _build(self, order: list[int]) -> tuple[Node, dict[int, int], list[Equality]]:
        sources = self.scope.sources
        node, offsets, used = sources[order[0]].node, {order[0]: 0}, []
        for position, new in enumerate(order[1:], start=1):
            keys = self._keys(new, order[:position])
            pairs = [ends for e in keys if (ends := e.ends_at(new))]
            right = sources[new].node
            left_keys = tuple(offsets[a.source] + a.column for a, _ in pairs)
            offsets[new] = len(node.schema)
            schema = check_width(node.schema + right.schema)
            node = Join(schema, node, right, left_keys, tuple(b.column for _, b in pairs), new in self.outer)
            used += keys
        return node, offsets, [e for e in self.equalities if e not in used]


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the operands of nested ANDs from left to right. Parentheses around them are removed."""
    out: list[exp.Expr] = []
    pending = [] if condition is None else [condition]
    while pending:
        part = pending.pop().unnest()
        if isinstance(part, exp.And):
            pending += [part.expression, part.this]
        else:
            out.append(part)
    return out
