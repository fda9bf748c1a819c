"""The carriers of a program in tests: each runs one request after the other, and shows all states.

`Split` runs the blocks by a stack of frames, and is the simplest of them.
"""

from __future__ import annotations

import linecache
import textwrap
from itertools import count
from typing import Any

import sharedstate_lite.entities as entities
from sharedstate_lite.entities import Ask, PlainStore, Program, Reference, Refused, Return
from sharedstate_lite.entities.bins import AskMessage, EntityBin, rounds
from sharedstate_lite.entities.declare import copied, text_of
from sharedstate_lite.entities.errors import MOST_DEPTH
from sharedstate_lite.entities.machine import copied_frame

_cells = count(1)
State = dict[tuple[str, str], dict[str, Any]]


def cell(source: str, **names: Any) -> dict[str, Any]:
    """Run source code as a notebook runs a cell: its text is known to ``linecache``. Return the globals."""
    text = textwrap.dedent(source)
    file = f"/tmp/cell_{next(_cells)}.py"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope = {"__name__": "__main__"} | {name: getattr(entities, name) for name in entities.__all__} | names
    exec(compile(text, file, "exec"), scope)
    return scope


class Split:
    """The blocks of a program, one request after the other. An entity's state is a dict in ``state``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state: State = {}
        self.asked = 0

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Run a request as a transaction: its result, or the exception that undid it."""
        before = {name: {n: copied(v) for n, v in state.items()} for name, state in self.state.items()}
        try:
            return self.ask(Ask(who, method, args, 0, "", {}), 0)
        except Exception as error:
            self.state = before
            return error

    def ask(self, ask: Ask, depth: int) -> Any:
        """Answer a question; an exception crosses as its name and one string."""
        self.asked += 1
        name = ask.who.cls, ask.who.key
        if ask.what == "__init__":
            if name in self.state:
                raise Refused(f"{ask.who.cls} {ask.who.key} exists")
            self.state[name] = {}
        elif name not in self.state:
            raise Refused(f"{ask.who.cls} {ask.who.key} is unknown")
        me = object.__new__(self.program.instances[ask.who.cls])
        me.__dict__ = self.state[name]
        if ask.args is None:
            return copied(getattr(me, ask.what))
        if depth >= MOST_DEPTH:
            raise RecursionError(f"{MOST_DEPTH} questions wait for one another")
        machine = self.program.machine(ask.what, ask.who.cls)
        at, frame = 0, machine.frame(copied(ask.args))
        while True:
            try:
                step = machine.blocks[at].run(me, frame)
            except Exception as error:
                raise self.program.error(*text_of(error)) from None
            if isinstance(step, Return):
                return copied(step.value)
            if isinstance(step, tuple):
                at, frame = step
                continue
            frame = copied_frame(step.frame)
            try:
                frame[step.name] = self.ask(step, depth + 1)
                at = step.then
            except Exception as error:
                found = machine.caught(at, error, frame)
                if found is None:
                    raise
                at, frame = found


class Plain:
    """The plain carrier."""

    def __init__(self, program: Program) -> None:
        self.store = PlainStore(program)

    @property
    def state(self) -> State:
        """All states."""
        found = [Reference(cls, key) for cls, table in self.store.tables.items() for key in table]
        return {(who.cls, who.key): self.store.state(who) for who in found}

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Run a request: its result, or the exception that undid it."""
        reply = self.store.create(who.cls, *args) if method == "__init__" else self.store.call(who, method, *args)
        return reply.error or reply.value


class Bins:
    """Eight bins. Nothing is undone that a method catches, and all of a request that fails, as in a transaction."""

    def __init__(self, program: Program) -> None:
        self.bins = [EntityBin(program, number, 8) for number in range(8)]
        for bin in self.bins:
            bin.keeps = True

    @property
    def state(self) -> State:
        """All states."""
        return {name: state for bin in self.bins for name, state in bin.state.items()}

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Run a request to its end."""
        before = [{name: copied(state) for name, state in bin.state.items()} for bin in self.bins]
        answer = rounds(self.bins, [AskMessage(0, who, method, args, None)])[0][0]
        if isinstance(answer, Exception):
            for bin, state in zip(self.bins, before, strict=True):
                bin.state = state
        return answer


class Front:
    """Epochs, locks or Spark: the n-th request has the number n."""

    def __init__(self, front: Any) -> None:
        self.front, self.numbers = front, count()

    @property
    def state(self) -> State:
        """All states."""
        found: State = self.front.state()
        return found

    def request(self, who: Reference, method: str, *args: Any) -> Any:
        """Run a request to its end."""
        number = next(self.numbers)
        return self.front.run([AskMessage(number, who, method, args, None)])[number]
