"""Histories that differ from some message on: a tree of branches, each with its recording.

A history is edited by replacing a message, inserting one, or leaving one out; the edited
history is played again from the beginning, by the function that is handed in, and becomes
a branch of its own. Nothing that was recorded is ever changed, so a mistake loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from .messages import Message
from .recording import Recording

Play = Callable[[Iterable[Any]], Recording]
"""Messages in, recording out; :class:`~..Replay` is one."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A history with its recording. ``parent`` is None for main; ``leaves`` is the number of the first message
    that differs from the parent's, and all before it, with their steps, are the same."""

    name: str
    recording: Recording
    parent: Branch | None = None
    forked_at: int = 1
    label: str = ""
    """What the edit was: ``Carrot, Bob, 50 → 45`` and the like."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its history."""
        return tuple(t.message for t in self.recording.messages)


@dataclass(eq=False)
class BranchTree:
    """The tree: ``all[0]`` is main. ``edit`` adds a branch."""

    play: Play
    all: list[Branch] = field(default_factory=list)

    @classmethod
    def of(cls, play: Play, messages: Iterable[Any]) -> BranchTree:
        """A tree with main alone."""
        return cls(play, [Branch("main", play(messages))])

    @property
    def main(self) -> Branch:
        """The history that was there first."""
        return self.all[0]

    def edit(self, branch: Branch, at: int, message: Any = None, insert: bool = False) -> tuple[Branch | None, str]:
        """Fork ``branch`` at message number ``at``, counted from 1.

        The message takes the place of the one that is there, or with ``insert`` comes
        before it; ``at`` one past the end appends; None for ``message`` leaves the old one
        out. Returns the new branch and ''; or None and a plain word where the message is
        refused, and then there is no new branch. An edit that changes nothing gives
        ``branch`` itself. Raises IndexError for a number that is none.
        """
        old = list(branch.messages)
        end = len(old) + 1
        if not 1 <= at <= end or (message is None and at == end):
            raise IndexError(f"message {at}: this history has the messages 1 to {len(old)}")
        fresh = [] if message is None else [message]
        edited = [*old[: at - 1], *fresh, *old[at - 1 if insert and message is not None else at :]]
        recording = self.play(edited)
        told = recording.messages
        if message is not None and told[at - 1].refused:
            return None, told[at - 1].refused
        first = common(branch.messages, tuple(t.message for t in told)) + 1
        if first > len(old) and first > len(told):
            return branch, ""
        made = Branch(self._name(), recording, branch, first, _label(branch, recording, at, message, insert))
        self.all.append(made)
        return made, ""

    def drop(self, branch: Branch) -> None:
        """Take a branch away, and those that left it. Raises ValueError for main."""
        if branch.parent is None:
            raise ValueError("main cannot be taken away: the other branches leave it")
        gone = {id(branch)}
        for other in self.all:
            if other.parent is not None and id(other.parent) in gone:
                gone.add(id(other))
        self.all = [b for b in self.all if id(b) not in gone]

    def line(self, branch: Branch) -> list[tuple[Branch, int, int]]:
        """The way from main to a branch: (branch, first message, last message) that its history has from each."""
        out: list[tuple[Branch, int, int]] = []
        here: Branch | None = branch
        last = len(branch.messages)
        while here is not None:
            first = here.forked_at if here.parent is not None else 1
            if first <= last:
                out.append((here, first, last))
            last = min(last, first - 1)
            here = here.parent
        return out[::-1]

    def _name(self) -> str:
        taken = {b.name for b in self.all}
        letters = [*ascii_uppercase, *(f"{a}{b}" for a in ascii_uppercase for b in ascii_uppercase)]
        return next((n for n in letters if n not in taken), f"branch {len(self.all)}")


def common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages two histories begin with alike."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return number
    return min(len(one), len(other))


def _label(branch: Branch, recording: Recording, at: int, message: Any, insert: bool) -> str:
    """What an edit did, as a short text."""
    old = branch.recording.messages
    if message is None:
        return f"without {old[at - 1].text}"
    new = recording.messages[at - 1].text
    return new if insert or at > len(old) else f"{old[at - 1].text} → {new}"
