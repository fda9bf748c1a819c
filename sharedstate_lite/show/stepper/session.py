"""A stepper without pictures: the current step, the predictions and the forked histories.

A position is a history and a step number. The question of a step is asked before the step; stepping
on without an answer skips it. An edit of the past makes a new history, a fork, and leaves its
parent unchanged.
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
    """The answers so far, oldest first: True if right. A skipped question does not count."""

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
    """A typed answer and its verdict."""

    text: str
    verdict: Verdict


class StepperSession:
    """Steps through a history and its forks. Raises Error for a step, message or history that does not exist."""

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
        """All histories, the original one first."""
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
        """The number of the current step; 0 before the first message."""
        return self._step

    @property
    def caption(self) -> str:
        """The caption of the current step."""
        return self.recording.caption(self._step)

    @property
    def question(self) -> Question | None:
        """The question before the next step, or None."""
        if not self._asks or self._step >= self.recording.last:
            return None
        return self.recording.steps[self._step].question

    @property
    def answered(self) -> Answered | None:
        """The answer given to the question before the next step, or None."""
        return self._answers.get(self._key(self._step + 1))

    def _key(self, step: int) -> tuple[str, int]:
        """The key of a step's answer: a step from before a fork belongs to the parent history."""
        branch, messages = self._branch, self._branch.recording.messages
        while branch.parent is not None and (
            branch.forked_at > len(messages) or step < branch.recording.messages[branch.forked_at - 1].first
        ):
            branch = branch.parent
            messages = branch.recording.messages
        return branch.name, step

    @property
    def answers(self) -> dict[int, Answered]:
        """Step -> the answer given in this history, or before it forked."""
        steps = (s.number for s in self.recording.steps if s.question is not None)
        return {n: self._answers[self._key(n)] for n in steps if self._key(n) in self._answers}

    @property
    def score(self) -> Score:
        """The answers so far."""
        return Score(tuple(bool(a.verdict.right) for a in self._answers.values()), len(self._skipped))

    # --- moving -------------------------------------------------------------------

    def next(self) -> Self:
        """Go one step on. A question without an answer is skipped."""
        self._skip()
        return self._go(min(self._step + 1, self.recording.last))

    def back(self) -> Self:
        """Go one step back."""
        return self._go(max(self._step - 1, 0))

    def end(self) -> Self:
        """Go to the end of the current message, or of the next one."""
        message = self.recording.message_of(min(self._step + 1, self.recording.last))
        return self._go(self._step if message is None else message.last)

    def goto(self, message: int | None = None, step: int | None = None) -> Self:
        """Go to a step of a message, both counted from 1; without ``step`` to its last one. Message 0 is the start.

        Without ``message``, ``step`` counts through the whole history.
        """
        self._place(message, step)
        return self._go(self._step)

    def _place(self, message: int | None = None, step: int | None = None) -> None:
        messages = self.recording.messages
        if message is None:
            number = 0 if step is None else step
            if not 0 <= number <= self.recording.last:
                raise Error(f"step {number}: this history has steps 0 to {self.recording.last}")
        elif message == 0:
            number = 0
        elif not 0 < message <= len(messages):
            raise Error(f"message {message}: this history has messages 1 to {len(messages)}; 0 is the start")
        else:
            here = messages[message - 1]
            number = here.last if step is None else here.first + step - 1
            if step is not None and not here.first <= number <= here.last:
                raise Error(f"step {step}: message {message} has steps 1 to {here.last - here.first + 1}")
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
        """Called after every move; `Stepper` updates its widget."""

    # --- predicting ---------------------------------------------------------------

    def predict(self, text: str) -> Verdict:
        """Answer the question before the next step.

        The first answer that can be read counts. A later one is judged without changing the score.
        Raises Error if there is no question.
        """
        if self.question is None:
            raise Error("there is no question here: go to before a step that changes state or emits")
        verdict = self.question.check(text)
        key = self._key(self._step + 1)
        if verdict.right is not None and key not in self._answers:
            self._answers[key] = Answered(text, verdict)
            self._skipped.discard(key)
        self.changed()
        return verdict

    # --- other histories ----------------------------------------------------------

    def fork(self, message: int, text: Any = None, *, insert: bool = False) -> Self:
        """Fork this history at a message, counted from 1, and go there.

        ``text`` is a typed message or one of `replay.messages`. It replaces message ``message``,
        or comes before it with ``insert``; None removes the message. An edit without effect makes no
        history. Raises Error, and changes nothing, for text that cannot be read, a message that the
        engine refuses, and a number that does not exist.
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
        """Go to a history by name; without a name to the next one, after the last to the first.

        The position within the history stays as near as possible.
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
