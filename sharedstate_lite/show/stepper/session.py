"""A stepper without pictures, which keeps the current step, the predictions and the forked histories.

A position is a history and a step number. The question about a step is asked before the step. Stepping forward without
an answer skips the question. Editing a message creates a new history, called a fork, and does not change its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from ...errors import Error
from ...replay.forks import Branch, BranchTree, Play
from ...replay.questions import Question, Verdict
from ...replay.recording import Recording


@dataclass(frozen=True)
class Score:
    """The score so far. ``answers`` says whether each answer was right, oldest first, without skipped questions."""

    answers: tuple[bool, ...] = ()
    skipped: int = 0

    @property
    def right(self) -> int:
        """The number of right answers."""
        return sum(self.answers)

    @property
    def wrong(self) -> int:
        """The number of wrong answers."""
        return len(self.answers) - self.right

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.right} of {len(self.answers)} right{skipped}"


@dataclass(frozen=True)
class Answered:
    """An answer that the reader typed, and its verdict."""

    text: str
    verdict: Verdict


class StepperSession:
    """Steps through a history and its forks.

    The methods raise Error if a step, message or history does not exist.
    """

    def __init__(self, replay: Play, messages: Sequence[Any], *, at: Any = None, predict: bool = True) -> None:
        self._asks = predict
        self._tree = BranchTree.of(replay, messages)
        self._branch, self._step = self._tree.main, 0
        self._answers: dict[tuple[str, int], Answered] = {}
        self._skipped: set[tuple[str, int]] = set()
        if at is not None:
            self._place(*(at if isinstance(at, tuple) else (at,)))

    # --- position -----------------------------------------------------------------

    @property
    def branches(self) -> list[Branch]:
        """All histories, with the original one first."""
        return list(self._tree.all)

    @property
    def current(self) -> Branch:
        """The current history."""
        return self._branch

    @property
    def recording(self) -> Recording:
        """The recording of the current history."""
        return self.current.recording

    @property
    def step(self) -> int:
        """The number of the current step, or 0 before the first message."""
        return self._step

    @property
    def caption(self) -> str:
        """The caption of the current step."""
        return self.recording.caption(self._step)

    @property
    def question(self) -> Question | None:
        """The question about the next step, or None if there is none."""
        if not self._asks or self._step >= self.recording.last:
            return None
        return self.recording.steps[self._step].question

    @property
    def answered(self) -> Answered | None:
        """The reader's answer to the question about the next step, or None if there is none yet."""
        return self._answers.get(self._key(self._step + 1))

    def _key(self, step: int) -> tuple[str, int]:
        """Return the key under which a step's answer is stored. A step before a fork belongs to the parent history."""
        branch, messages = self._branch, self._branch.recording.messages
        while branch.parent is not None and (
            branch.forked_at > len(messages) or step < branch.recording.messages[branch.forked_at - 1].first
        ):
            branch = branch.parent
            messages = branch.recording.messages
        return branch.name, step

    @property
    def answers(self) -> dict[int, Answered]:
        """The answers that were given in this history, or before it forked, by step."""
        steps = (s.number for s in self.recording.steps if s.question is not None)
        return {n: self._answers[self._key(n)] for n in steps if self._key(n) in self._answers}

    @property
    def score(self) -> Score:
        """The score so far, over all histories."""
        return Score(tuple(bool(a.verdict.right) for a in self._answers.values()), len(self._skipped))

    # --- moving -------------------------------------------------------------------

    def next(self) -> Self:
        """Go one step forward. If the question about that step has no answer, it is skipped."""
        self._skip()
        return self._go(min(self._step + 1, self.recording.last))

    def back(self) -> Self:
        """Go one step back."""
        return self._go(max(self._step - 1, 0))

    def end(self) -> Self:
        """Go to the end of the current message or, at its end, to the end of the next one."""
        message = self.recording.message_of(min(self._step + 1, self.recording.last))
        return self._go(self._step if message is None else message.last)

    def goto(self, message: int | None = None, step: int | None = None) -> Self:
        """Go to a step of a message, or to its last step if ``step`` is None.

        Messages and their steps are counted from 1, and message 0 is the start. If ``message`` is None, ``step`` is
        counted from the start of the history.
        """
        self._place(message, step)
        return self._go(self._step)

    def _place(self, message: int | None = None, step: int | None = None) -> None:
        messages = self.recording.messages
        if message is None:
            number = 0 if step is None else step
            if not 0 <= number <= self.recording.last:
                raise Error(f"step {number} does not exist; this history has steps 0 to {self.recording.last}")
        elif message == 0:
            number = 0
        elif not 0 < message <= len(messages):
            raise Error(f"message {message} does not exist; use 1 to {len(messages)}, or 0 for the start")
        else:
            here = messages[message - 1]
            number = here.last if step is None else here.first + step - 1
            if step is not None and not here.first <= number <= here.last:
                raise Error(
                    f"step {step} does not exist; message {message} has steps 1 to {here.last - here.first + 1}"
                )
        self._step = number

    def _go(self, step: int) -> Self:
        self._step = step
        self.changed()
        return self

    def _skip(self) -> None:
        key = self._key(self._step + 1)
        if self.question is not None and key not in self._answers:
            self._skipped.add(key)

    def changed(self) -> None:
        """Do nothing. This is called after every change, and `Stepper` overrides it to update its widget."""

    # --- predicting ---------------------------------------------------------------

    def predict(self, text: str) -> Verdict:
        """Answer the question about the next step, and return the verdict.

        The first answer that can be parsed counts toward the score. Later answers are judged but do not change it.
        Raises Error if there is no question.
        """
        if self.question is None:
            raise Error("there is no question here; go to the position before a step that changes state or emits rows")
        verdict = self.question.check(text)
        key = self._key(self._step + 1)
        if verdict.right is not None and key not in self._answers:
            self._answers[key] = Answered(text, verdict)
            self._skipped.discard(key)
        self.changed()
        return verdict

    # --- other histories ----------------------------------------------------------

    def fork(self, message: int, text: Any = None, *, insert: bool = False) -> Self:
        """Fork this history at message number ``message``, counted from 1, and go to the fork.

        ``text`` is a typed message or one of `replay.messages`. It replaces the message, or is inserted before it if
        ``insert`` is True. If ``text`` is None, the message is removed. An edit that has no effect does not create a
        history. Raises Error, and does not change anything, if the text cannot be parsed, if the engine rejects the
        message, or if the message number does not exist.
        """
        try:
            made, word = self._tree.edit(self._branch, message, text, insert)
        except IndexError as error:
            raise Error(str(error)) from None
        if made is None:
            raise Error(word)
        if made is self._branch:
            return self
        self._branch = made
        messages = made.recording.messages
        first = messages[message - 1].first if message <= len(messages) else made.recording.last + 1
        return self._go(first - 1)

    def branch(self, name: str | None = None) -> Self:
        """Go to the history with this name, or to the next history if there is no name.

        The history after the last one is the first. The new position is as close as possible to the current one.
        """
        names = [b.name for b in self._tree.all]
        wanted = names[(names.index(self._branch.name) + 1) % len(names)] if name is None else name
        if wanted not in names:
            raise Error(f"history {wanted!r} does not exist; the histories are {', '.join(names)}")
        old, within = self.recording.message_of(self._step), self._step
        self._branch = self._tree.all[names.index(wanted)]
        messages = self.recording.messages
        if old is None or not messages:
            return self._go(0)
        at = messages[min(old.number, len(messages)) - 1]
        return self._go(min(at.first + within - old.first, at.last) if old.number <= len(messages) else at.last)
