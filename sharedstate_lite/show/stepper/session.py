"""A stepper without a picture: where one is, what was predicted, which histories there are.

Positions are a history and the number of a step in it. The question of a step is asked
while one stands before it; going on without an answer skips it. Changing the past makes
a new history, a fork; the one that it leaves stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import Error
from ...replay.forks import Branch, BranchTree
from ...replay.questions import Question, Verdict
from ...replay.recording import Recording

Replay = Callable[[Iterable[Any]], Recording]
"""Messages in, a recording out."""


@dataclass(frozen=True)
class Score:
    """Answers so far, oldest first: True right, False wrong. A skipped question is neither."""

    answers: tuple[bool, ...] = ()
    skipped: int = 0

    @property
    def right(self) -> int:
        """How many were right."""
        return sum(self.answers)

    @property
    def wrong(self) -> int:
        """How many were wrong."""
        return len(self.answers) - self.right

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.right} of {len(self.answers)} right{skipped}"


@dataclass(frozen=True)
class Answered:
    """A question that was answered: what was typed, and the verdict."""

    text: str
    verdict: Verdict


class StepperSession:
    """Steps through one history and its forks. Raises Error for a step, a message or a history that is not there."""

    def __init__(self, replay: Replay, messages: Sequence[Any], *, at: Any = None, predict: bool = True) -> None:
        self._asks = predict
        self._tree = BranchTree.of(replay, messages)
        self._branch, self._step = self._tree.main, 0
        self._answers: dict[tuple[str, int], Answered] = {}
        self._skipped: set[tuple[str, int]] = set()
        if at is not None:
            self._place(*(at if isinstance(at, tuple) else (at,)))

    # --- where one is -------------------------------------------------------------

    @property
    def branches(self) -> list[Branch]:
        """All histories, the first one first."""
        return list(self._tree.all)

    @property
    def current(self) -> Branch:
        """The history one is in."""
        return self._branch

    @property
    def recording(self) -> Recording:
        """The recording of the history one is in."""
        return self.current.recording

    @property
    def step(self) -> int:
        """The number of the step that was made last; 0 before the first."""
        return self._step

    @property
    def caption(self) -> str:
        """What happened in this step."""
        from .frames import caption

        return caption(self.recording, self._step)

    @property
    def question(self) -> Question | None:
        """What is asked before the next step; None where nothing is, or no questions are wanted."""
        if not self._asks or self._step >= self.recording.last:
            return None
        return self.recording.steps[self._step].question

    @property
    def answered(self) -> Answered | None:
        """The answer given to the question of the next step."""
        return self._answers.get(self._key(self._step + 1))

    def _key(self, step: int) -> tuple[str, int]:
        """Where the answer to a step's question is kept: with the history that the step was first made in."""
        branch, messages = self._branch, self._branch.recording.messages
        while branch.parent is not None and (
            branch.forked_at > len(messages) or step < branch.recording.messages[branch.forked_at - 1].first
        ):
            branch = branch.parent
            messages = branch.recording.messages
        return branch.name, step

    @property
    def answers(self) -> dict[int, Answered]:
        """The answers given in this history, those from before it left another one included, by step."""
        steps = (s.number for s in self.recording.steps if s.question is not None)
        return {n: self._answers[self._key(n)] for n in steps if self._key(n) in self._answers}

    @property
    def score(self) -> Score:
        """What was predicted so far."""
        return Score(tuple(bool(a.verdict.right) for a in self._answers.values()), len(self._skipped))

    # --- moving -------------------------------------------------------------------

    def next(self) -> Any:
        """One step on; a question that waits and has no answer is skipped."""
        self._skip()
        return self._go(min(self._step + 1, self.recording.last))

    def back(self) -> Any:
        """One step back."""
        return self._go(max(self._step - 1, 0))

    def end(self) -> Any:
        """To the end of the message that is under way, or of the next one."""
        told = self.recording.message_of(min(self._step + 1, self.recording.last))
        return self._go(self._step if told is None else told.last)

    def goto(self, message: int | None = None, step: int | None = None) -> Any:
        """To a step of a message, both counted from 1; without ``step`` to its last one. Message 0 is the start.

        Without ``message``, ``step`` counts through the whole history.
        """
        self._place(message, step)
        return self._go(self._step)

    def _place(self, message: int | None = None, step: int | None = None) -> None:
        told = self.recording.messages
        if message is None:
            number = 0 if step is None else step
            if not 0 <= number <= self.recording.last:
                raise Error(f"step {number}: this history has the steps 0 to {self.recording.last}")
        elif message == 0:
            number = 0
        elif not 0 < message <= len(told):
            raise Error(f"message {message}: this history has the messages 1 to {len(told)}; 0 is the start")
        else:
            here = told[message - 1]
            number = here.last if step is None else here.first + step - 1
            if step is not None and not here.first <= number <= here.last:
                raise Error(f"step {step}: message {message} has the steps 1 to {here.last - here.first + 1}")
        self._step = number

    def _go(self, step: int) -> Any:
        self._step = step
        self.changed()
        return self

    def _skip(self) -> None:
        key = self._key(self._step + 1)
        if self.question is not None and key not in self._answers:
            self._skipped.add(key)

    def changed(self) -> None:
        """Called after every move; a picture overrides it."""

    # --- predicting ---------------------------------------------------------------

    def predict(self, text: str) -> Verdict:
        """Answer the question that is asked before the next step.

        The first answer that can be read counts; a later one is judged and changes no score.
        Raises Error where nothing is asked.
        """
        if self.question is None:
            raise Error("nothing is asked here: a question comes before a step that changes state or emits")
        verdict = self.question.check(text)
        key = self._key(self._step + 1)
        if verdict.right is not None and key not in self._answers:
            self._answers[key] = Answered(text, verdict)
            self._skipped.discard(key)
        self.changed()
        return verdict

    # --- other histories ----------------------------------------------------------

    def fork(self, message: int, text: Any = None, *, insert: bool = False) -> Any:
        """A new history that differs from this one at a message, counted from 1, and go there.

        ``text`` is a typed message or one of :mod:`sharedstate_lite.replay.messages`; it replaces
        message ``message``, or comes before it with ``insert``. None takes it out. An edit
        that changes nothing makes no history. Raises Error, and changes nothing, for a text
        that cannot be read, a message that the engine refuses and a number that is none.
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
        told = made.recording.messages
        first = told[message - 1].first if message <= len(told) else made.recording.last + 1
        return self._go(first - 1)

    def branch(self, name: str | None = None) -> Any:
        """To a history by name; without one to the next, after the last to the first. One stays near where one was."""
        names = [b.name for b in self._tree.all]
        wanted = names[(names.index(self._branch.name) + 1) % len(names)] if name is None else name
        if wanted not in names:
            raise Error(f"history {wanted!r}: there is {', '.join(names)}")
        told, within = self.recording.message_of(self._step), self._step
        self._branch = self._tree.all[names.index(wanted)]
        messages = self.recording.messages
        if told is None or not messages:
            return self._go(0)
        at = messages[min(told.number, len(messages)) - 1]
        return self._go(min(at.first + within - told.first, at.last) if told.number <= len(messages) else at.last)
