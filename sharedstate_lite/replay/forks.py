"""A tree of histories that fork from each other, each with its recording.

An edit replaces, inserts or removes one message. The edited history is played again from the
beginning and becomes a new branch. Recordings never change, so the original branch is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from .messages import Message
from .recording import Recording

Play = Callable[[Iterable[Any]], Recording]
"""A function that plays messages and returns the recording, such as a `Replay`."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A history with its recording. ``parent`` is the branch that it forked from, or None for main.

    ``forked_at`` is the number of the first message that differs from the parent's history. All
    earlier messages are the same as in the parent. So are their steps, with one exception: under
    shared state, if the two histories drop different views later, a source can appear in the steps of
    all messages, and steps can have other numbers.
    """

    name: str
    recording: Recording
    parent: Branch | None = None
    forked_at: int = 1
    label: str = ""
    """The edit as text, such as ``+1 visit Carrot, Bob, 50 → +1 visit Carrot, Bob, 45``."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of this history."""
        return tuple(t.message for t in self.recording.messages)


@dataclass(eq=False)
class BranchTree:
    """The branches of one session, in the order they were made. ``all[0]`` is main."""

    play: Play
    all: list[Branch] = field(default_factory=list)

    @classmethod
    def of(cls, play: Play, messages: Iterable[Any]) -> BranchTree:
        """Play ``messages`` and return a tree with main as its only branch."""
        return cls(play, [Branch("main", play(messages))])

    @property
    def main(self) -> Branch:
        """The original history."""
        return self.all[0]

    def edit(self, branch: Branch, at: int, message: Any = None, insert: bool = False) -> tuple[Branch | None, str]:
        """Fork ``branch`` at message number ``at``, counted from 1.

        ``message`` replaces message ``at``, or is inserted before it if ``insert`` is True. If ``at`` is
        one past the last message, ``message`` is appended. If ``message`` is None, message ``at`` is removed.
        Returns the new branch and '', or None and the error if the engine refuses ``message``. If the
        edit does not change the history, it returns ``branch``. Raises IndexError if ``at`` is out of range.
        """
        old = list(branch.messages)
        end = len(old) + 1
        if not 1 <= at <= end or (message is None and at == end):
            raise IndexError(f"message {at} does not exist; this history has messages 1 to {len(old)}")
        fresh = [] if message is None else [message]
        edited = [*old[: at - 1], *fresh, *old[at - 1 if insert and message is not None else at :]]
        recording = self.play(edited)
        played = recording.messages
        if message is not None and played[at - 1].refused:
            return None, played[at - 1].refused
        first = common(branch.messages, tuple(t.message for t in played)) + 1
        if first > len(old) and first > len(played):
            return branch, ""
        made = Branch(self._name(), recording, branch, first, _label(branch, recording, at, message, insert))
        self.all.append(made)
        return made, ""

    def _name(self) -> str:
        taken = {b.name for b in self.all}
        letters = [*ascii_uppercase, *(f"{a}{b}" for a in ascii_uppercase for b in ascii_uppercase)]
        return next((n for n in letters if n not in taken), f"branch {len(self.all)}")


def common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return the length of the longest common prefix of two histories, in messages."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return number
    return min(len(one), len(other))


def _label(branch: Branch, recording: Recording, at: int, message: Any, insert: bool) -> str:
    """Return a short description of an edit."""
    old = branch.recording.messages
    if message is None:
        return f"without {old[at - 1].text}"
    new = recording.messages[at - 1].text
    return new if insert or at > len(old) else f"{old[at - 1].text} → {new}"
