"""Writes a one-sentence caption for each step, and the question that asks for the step's outcome in advance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .messages import Values, typed_values
from .questions import Question
from .recording import Move, RecordedOperator, RecordedStep, RowChange

MOST = 6
"""The maximum number of rows that a question asks for."""
LONG = 28
"""The maximum length, in characters, of a title that is used in a sentence."""


@dataclass(frozen=True)
class StepFacts:
    """A step that does not have its caption and question yet, and the facts needed to write them.

    ``held`` is True if the operator stores its own rows, and ``partial`` if its keys can be holes. ``refused`` is the
    engine's error, and ``text`` is the message as typed. ``looked_up`` lists the operator's lookups as (table, keys),
    ``merged`` the titles of arrangements whose batches merged, and ``evicted`` the keys that were evicted.
    """

    step: RecordedStep
    operators: Mapping[str, RecordedOperator]
    kind: str
    held: bool = False
    partial: bool = False
    refused: str = ""
    text: str = ""
    looked_up: tuple[tuple[str, tuple[Values, ...]], ...] = ()
    merged: tuple[str, ...] = ()
    evicted: tuple[Values, ...] = ()
    key: tuple[Values, ...] | None = None
    """The key of a read, or None for all keys."""
    since: int | None = None
    """The epoch to which since advanced in every arrangement, or None."""
    slow: tuple[str, int] | None = None
    """The reader with the oldest trace handle, and its epoch."""

    @property
    def name(self) -> str:
        """The title of the step's operator."""
        return self.title(self.step.operator)

    def title(self, operator: str) -> str:
        """Return the title of an operator, or GROUP BY if the title is a long list of aggregates."""
        found = self.operators.get(operator)
        if found is None:
            return operator
        return "GROUP BY" if found.kind == "reduce" and len(found.title) > LONG else found.title

    @property
    def what(self) -> str:
        """The kind of the step's operator, or '' if the step does not have one."""
        found = self.operators.get(self.step.operator)
        return "" if found is None else found.kind


def caption(f: StepFacts) -> str:
    """Return the caption of a step."""
    return _WRITERS[f.step.kind](f)


def question(f: StepFacts) -> Question | None:
    """Return the question to ask before a step, or None if its outcome is obvious or too long to type."""
    step = f.step
    if step.kind == "read" and f.partial and len(step.hits) + len(step.holes) == 1:
        keys = _keys(step.hits or step.holes)
        return Question(f"Is {keys} a hole in {f.name}?", "yes", _yes(bool(step.holes)), "yes or no")
    if step.kind == "upquery":
        return _asked(f)
    if step.kind == "change" and f.what in ("reduce", "distinct", "join", "filter"):
        if f.partial and (f.what != "join" or step.dropped):
            return Question(f"Will {f.name} drop this change?", "yes", _yes(bool(step.dropped)), "yes or no")
        return _sends(f)
    if step.kind == "change" and f.what == "view" and f.partial and (step.dropped or len(step.taken[0].rows) == 1):
        return Question(f"Will {f.name} drop this change?", "yes", _yes(bool(step.dropped)), "yes or no")
    return None


def _yes(yes: bool) -> tuple[Values, ...]:
    return (("yes",),) if yes else (("no",),)


def _asked(f: StepFacts) -> Question | None:
    step = f.step
    answers = [m for m in step.sent if m.kind == "response"]
    if f.what == "source" and len(answers) == 1 and len(answers[0].rows) <= MOST:
        move = answers[0]
        short = tuple(i for i, c in enumerate(move.columns) if c in move.key_columns)
        rows = tuple(c.row for c in move.rows for _ in range(max(c.diff, 1)))
        hint = ", ".join(move.columns)
        return Question(f"Which rows will {f.name} answer with?", "keys", rows, f"the values of {hint}", short)
    if f.partial and len(step.hits) + len(step.holes) == 1:
        keys = _keys(step.hits or step.holes)
        return Question(f"Is {keys} a hole in {f.name} too?", "yes", _yes(bool(step.holes)), "yes or no")
    return None


def _sends(f: StepFacts) -> Question | None:
    sent = [m for m in f.step.sent if m.kind == "change"]
    rows = sent[0].rows if sent else ()
    if any(m.kind == "evict" for m in f.step.sent):
        return None
    if len(rows) > MOST or any(len(m.rows) > 2 * MOST for m in f.step.taken):
        return None
    expected = tuple((_sign(c), *c.row) for c in rows)
    signs = any(c.kind for c in rows) or (not rows and f.what == "reduce")
    hint = "-U a 1, +U a 2" if signs else "+1 a 1"
    columns = sent[0].columns if sent else ()
    return Question(f"What will {f.name} send?", "rows", expected, f"{hint}, or: nothing", columns=columns)


def _sign(change: RowChange) -> str:
    return change.kind if change.kind and abs(change.diff) == 1 else f"{change.diff:+d}"


# --- sentences ------------------------------------------------------------------


def _rows(rows: Sequence[RowChange], most: int = 2) -> str:
    """Return the rows as text, such as ``+1 (Potato, Eve, 60)``, or their number if there are more than ``most``."""
    if len(rows) > most:
        return f"{len(rows):,} rows"
    if not len(rows):
        return "rows that cancel out"
    return " and ".join(f"{_sign(c)} ({typed_values(c.row)})" for c in rows)


def _keys(keys: Sequence[Values] | None, most: int = 3) -> str:
    if keys is None:
        return "all keys"
    if len(keys) > most:
        return f"{len(keys):,} keys"
    return _and([typed_values(k) or "the one row" for k in keys])


def _and(parts: Sequence[str]) -> str:
    """Join the parts as in ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _arrive(f: StepFacts) -> str:
    rows = f.step.sent[0].rows if f.step.sent else None
    return f"{f.name} receives {_rows(rows)}." if rows is not None else f"{f.name} receives the change."


def _sent(moves: Sequence[Move]) -> str:
    """Return the changes sent, as text. A change sent to several receivers is described once."""
    changes = [m for m in moves if m.kind == "change"]
    if not changes:
        return "nothing"
    return _rows(changes[0].rows)


def _change(f: StepFacts) -> str:
    step = f.step
    if step.dropped:
        met = "its key is a hole" if len(step.dropped) == 1 else "their keys are holes"
        rest = f" It sends {_sent(step.sent)}." if step.sent else ""
        return f"{f.name} drops {_rows(step.dropped)}: {met}.{rest}"
    if f.what == "view":
        return f"{f.name} applies {_rows(step.emitted)}." if len(step.emitted) else f"{f.name} does not change."
    if f.what == "filter":
        return f"{f.name} forwards {_sent(step.sent)}." if step.sent else f"{f.name} does not forward the change."
    if f.what == "arrange" or f.what == "source":
        took = step.taken[0].rows if step.taken else ()
        return f"{f.name} appends a batch with {_rows(took)}."
    asks = [m for m in step.sent if m.kind == "upquery"]
    if asks:
        return f"{f.name} lost its largest or smallest value for {_keys(asks[0].keys)}, so it sends an upquery."
    evicts = [m for m in step.sent if m.kind == "evict"]
    if f.what == "join" and evicts:
        moved = _rows(step.taken[0].rows)
        return f"{f.name} cannot join {moved}: the match is a hole, so it evicts {_keys(evicts[0].keys)} downstream."
    if f.what == "join":
        return _joined(f)
    if f.what in ("reduce", "distinct"):
        return _reduced(f)
    return f"{f.name} sends {_sent(step.sent)}."


def _joined(f: StepFacts) -> str:
    step = f.step
    looked = _and([f"{_keys(keys)} in {where}" for where, keys in f.looked_up if keys])
    stores = f"stores {_rows(step.taken[0].rows)}" if step.taken else "acts"
    did = f"{f.name} {stores}" if f.held else f"{f.name} does not store rows"
    looks = f", looks up {looked}," if looked else ""
    if not any(m.kind == "change" for m in step.sent):
        return f"{did}{looks} and finds no match, so it does not send anything."
    return f"{did}{looks} and sends {_sent(step.sent)}."


def _reduced(f: StepFacts) -> str:
    step = f.step
    sent = [m for m in step.sent if m.kind == "change"]
    if not step.taken:
        return f"{f.name} emits a result before any row arrives: {_sent(sent)}."
    took = _rows(step.taken[0].rows)
    if not sent or not len(sent[0].rows):
        same = "the result stays the same"
        if f.what == "distinct" and len(step.taken[0].rows) == 1:
            same = "another copy remains" if step.taken[0].rows[0].diff < 0 else "it already has a copy"
        return f"{f.name} receives {took}; {same}, so it does not send anything."
    kinds = {c.kind for c in sent[0].rows.first(MOST)}
    if kinds == {"-U", "+U"}:
        return f"{f.name} receives {took}; its result changes, so it retracts the old one: {_rows(sent[0].rows)}."
    if kinds == {"+I"}:
        return f"{f.name} receives {took} and emits a new result: {_rows(sent[0].rows)}."
    if kinds == {"-D"}:
        return f"{f.name} receives {took}; the group is empty, so it retracts the result: {_rows(sent[0].rows)}."
    return f"{f.name} receives {took} and sends {_rows(sent[0].rows)}."


def _upquery(f: StepFacts) -> str:
    step = f.step
    keys = _keys(step.taken[0].keys)
    asks = [m for m in step.sent if m.kind == "upquery"]
    answers = [m for m in step.sent if m.kind == "response"]
    if answers and f.what == "source":
        return f"{f.name} looks up {keys} and answers with {len(answers[0].rows):,} {_plural(answers[0].rows)}."
    if answers:
        return f"{f.name} has the rows for {keys} and answers."
    if asks and f.partial:
        holes = _keys(step.holes or step.taken[0].keys)
        return f"{f.name} also has a hole for {holes}, so it asks {f.title(asks[0].target)}."
    if asks:
        to = " and ".join(dict.fromkeys(f.title(m.target) for m in asks))
        return f"{f.name} does not store {keys}, so it asks {to} for {_keys(asks[0].keys)}."
    return f"{f.name} is asked for {keys} and waits for the answer to an earlier upquery."


def _response(f: StepFacts) -> str:
    step = f.step
    got = step.taken[0]
    came = f"{len(got.rows):,} {_plural(got.rows)}"
    asks = [m for m in step.sent if m.kind == "upquery"]
    answers = [m for m in step.sent if m.kind == "response"]
    if asks:
        asked = f"{f.title(asks[0].target)} for {_keys(asks[0].keys)}"
        return f"{f.name} receives {came} from {f.title(got.source)} and asks {asked}."
    if f.what == "view":
        done = "" if step.answer is None else ", and the read is answered"
        return f"{f.name} fills the hole for {_keys(got.keys)} with {came}{done}."
    fills = f"fills the hole for {_keys(got.keys)}" if f.partial else f"receives {came}"
    if answers:
        return f"{f.name} {fills} and answers with {len(answers[0].rows):,} {_plural(answers[0].rows)}."
    if any(m.kind == "change" for m in step.sent):
        return f"{f.name} {fills} and sends {_sent(step.sent)}."
    return f"{f.name} {fills} and waits for other answers."


def _plural(rows: Sequence[object]) -> str:
    return "row" if len(rows) == 1 else "rows"


def _evict(f: StepFacts) -> str:
    if not f.step.operator:
        return "No key was filled, so no key is evicted."
    if f.evicted:
        return f"{f.name} evicts {_keys(f.evicted)}, now {'a hole' if len(f.evicted) == 1 else 'holes'}."
    return f"{f.name} does not store any of the evicted keys."


def _read(f: StepFacts) -> str:
    step = f.step
    if step.holes:
        asks = f.title(step.sent[0].target) if step.sent else "upstream"
        return f"A read of {_keys(step.holes)} in {f.name} finds a hole, so {f.name} asks {asks}."
    if step.answer is None:
        return f"{f.name} is read."
    keys = _keys(f.key)
    return f"A read of {keys} in {f.name} is answered with {len(step.answer):,} {_plural(step.answer)}."


def _seal(f: StepFacts) -> str:
    since = f"; since advances to {f.since}" if f.since is not None else ""
    if f.slow is not None and f.slow[1] < f.step.epoch:
        since = f"; since stays at {f.slow[1]} because {f.slow[0]} holds a trace handle there"
    merged = ""
    if f.merged:
        verb = "merges its batches" if len(f.merged) == 1 else "merge their batches"
        merged = f"; {_and(f.merged) if len(f.merged) < 3 else f'{len(f.merged)} arrangements'} {verb}"
    return f"Epoch {f.step.epoch} is complete{since}{merged}."


def _other(f: StepFacts) -> str:
    return {
        "install": f"{f.text}: the view is installed with its state.",
        "drop": f"{f.text}: the view is removed, along with any state that only it needed.",
        "hold": f"{f.text}: since cannot advance past a trace handle.",
        "pause": "Messages now wait on their edges until they are delivered.",
        "resume": "No message was waiting. Messages are delivered immediately again.",
        "deliver": "The message was delivered.",
    }[f.step.kind]


def _refused(f: StepFacts) -> str:
    return f"Refused: {f.refused}"


_WRITERS = {
    "arrive": _arrive,
    "change": _change,
    "upquery": _upquery,
    "response": _response,
    "evict": _evict,
    "read": _read,
    "seal": _seal,
    "refused": _refused,
    **dict.fromkeys(("install", "drop", "hold", "pause", "resume", "deliver"), _other),
}
