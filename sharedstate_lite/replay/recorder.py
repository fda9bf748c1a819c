"""Builds a Recording from the observed messages, with numbered steps, one graph for the run, and decoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..storage.encoding import Dictionary
from .captions import StepFacts, caption, question
from .messages import Values
from .recording import (
    NO_ROWS,
    Move,
    RecordedEdge,
    RecordedMessage,
    RecordedOperator,
    RecordedStep,
    Recording,
    RowChange,
    Rows,
)
from .state import StateHistory, decode
from .states import States
from .steps import (
    InFlight,
    MoveDraft,
    PlayedMessage,
    ShownGraph,
    StepDraft,
    dataflow_steps,
    partial_steps,
    take_back,
    without_hidden,
)
from .structure import Snapshot, Structure
from .texts import titled


def record(engine: Engine, messages: list[PlayedMessage], first: tuple[Structure, dict[str, Snapshot]]) -> Recording:
    """Build the recording of a run. ``first`` is the engine's structure and state before the first message."""
    strings = engine.dictionary.strings
    structures = [first[0], *(c.after for c in messages)]
    graph = ShownGraph(structures, strings)
    drafts = _drafts(engine.kind, messages, graph)
    history = StateHistory(messages, drafts, strings, first, engine.kind == "shared")
    _answers(history, messages, drafts)
    operators, edges = _graph(structures, graph)
    titles = {o.name: o for o in operators}
    moves: dict[int, Move] = {}

    def move(draft_move: MoveDraft) -> Move:
        if id(draft_move) not in moves:
            moves[id(draft_move)] = _move(draft_move, len(moves) + 1, strings)
        return moves[id(draft_move)]

    steps = tuple(_step(d, move, titles, history, engine.kind, strings) for d in drafts)
    recorded = tuple(
        RecordedMessage(c.number, c.message, c.text, *history.spans[c.number], c.epoch, c.refused) for c in messages
    )
    states = States(history, [(o.name, o.title) for o in operators], engine.kind)
    sql = tuple(v.sql for v in engine.views.values())
    return Recording(engine.kind, sql, operators, edges, recorded, steps, states, history.totals)


def _drafts(kind: str, messages: Sequence[PlayedMessage], graph: ShownGraph) -> list[StepDraft]:
    """Return all steps in order, numbered from 1. Every message has at least one step."""
    in_flight: InFlight = {}
    seen: InFlight = {}
    every: list[StepDraft] = []
    for played in messages:
        if played.refused:
            every.append(StepDraft("refused", "", played.number, refused=played.refused))
            take_back(every[-1], played, in_flight, seen)
        elif kind == "partial":
            every += partial_steps(played, graph, in_flight)
        else:
            every += dataflow_steps(played, graph, kind)
        seen.update(in_flight)
    if kind == "partial":
        every = without_hidden(every, graph)
    epochs = {c.number: c.epoch for c in messages}
    for number, draft in enumerate(every, 1):
        draft.number, draft.epoch = number, epochs[draft.message]
        for draft_move in draft.sent:
            draft_move.sent = number
        for draft_move in draft.taken:
            draft_move.taken = number
    return every


def _answers(history: StateHistory, messages: Sequence[PlayedMessage], drafts: Sequence[StepDraft]) -> None:
    """Assign the answer of each read to the step that completes it."""
    for played in messages:
        start, end = history.spans[played.number]
        if played.answer is not None:
            first = drafts[start - 1]
            done = _completing(drafts[start:end], first)
            done.answer = played.answer
            if done is not first and first.key is not None:
                history.reads.append((first.operator, first.number, done.number, (first.key,)))
        for of, rows in played.answered:
            asked = drafts[history.spans[of][0] - 1]
            done = _completing(drafts[start - 1 : end], asked)
            done.answer = rows
            if asked.key is not None:
                history.reads.append((asked.operator, asked.number, done.number, (asked.key,)))
    answered = {read[1] for read in history.reads}
    for draft in drafts:
        if draft.kind == "read" and draft.answer is None and draft.key is not None and draft.number not in answered:
            history.reads.append((draft.operator, draft.number, None, (draft.key,)))


def _completing(steps: Sequence[StepDraft], asked: StepDraft) -> StepDraft:
    """Return the last step in which the view takes a response for the key that the read ``asked`` asks for.

    Returns ``asked`` itself if there is no such step.
    """
    found = [
        d
        for d in steps
        if d.operator == asked.operator and any(asked.key in (f.keys or ()) for f in d.taken if f.kind == "response")
    ]
    return found[-1] if found else asked


def _graph(
    structures: Sequence[Structure], graph: ShownGraph
) -> tuple[tuple[RecordedOperator, ...], tuple[RecordedEdge, ...]]:
    """Return the operators and edges of the entire run. ``structures[n]`` is the structure after message n."""
    seen: dict[str, list[int]] = {}
    links: dict[tuple[str, str, str], list[int]] = {}
    latest: dict[str, dict[str, Any]] = {}
    for number, s in enumerate(structures):
        for name, row in s.operators.items():
            if name not in graph.hidden:
                seen.setdefault(name, []).append(number)
                latest[name] = row | ({"kind": "source"} if name in s.arranged_as.values() else {})
                if name in s.arranged_as.values():
                    latest[name]["title"] = next(k for k, v in s.arranged_as.items() if v == name)
        for edge in _edges(s, graph):
            links.setdefault(edge, []).append(number)

    def gone(numbers: list[int]) -> int | None:
        return None if numbers[-1] == len(structures) - 1 else numbers[-1] + 1

    operators = tuple(
        RecordedOperator(
            name,
            latest[name]["kind"],
            titled(latest[name]["title"]),
            latest[name]["detail"],
            tuple(latest[name]["tables"]),
            latest[name]["view"],
            numbers[0],
            gone(numbers),
        )
        for name, numbers in seen.items()
    )
    edges = tuple(RecordedEdge(a, b, kind, numbers[0], gone(numbers)) for (a, b, kind), numbers in links.items())
    return operators, edges


def _edges(s: Structure, graph: ShownGraph) -> list[tuple[str, str, str]]:
    """Return the edges between operators that are not hidden."""
    out: list[tuple[str, str, str]] = []
    arranged = {n for n, row in s.operators.items() if row["kind"] == "arrange"}
    for a, b, kind in s.edges:
        if kind == "upquery":
            # An upquery travels upstream, so only its target can be a hidden input.
            if a not in graph.hidden:
                out.append((a, graph.stand_in(s, b), kind))
        elif b not in graph.hidden:
            source = graph.stand_in(s, a)
            if source != b:
                out.append((source, b, "read" if source in arranged and source == a else kind))
    return list(dict.fromkeys(out))


def _move(draft_move: MoveDraft, number: int, strings: Dictionary) -> Move:
    changes = draft_move.changes
    return Move(
        number,
        draft_move.source,
        draft_move.target,
        draft_move.kind,
        NO_ROWS if changes is None else rows(changes, strings, draft_move.unique, draft_move.keyed),
        () if changes is None else tuple(c.name for c in changes.schema),
        draft_move.keys,
        draft_move.key_columns,
        draft_move.sent,
        draft_move.taken,
        draft_move.trace_edge,
        draft_move.trace_rows,
    )


def rows(changes: Changes, strings: Dictionary, unique: tuple[int, ...] | None, keyed: bool) -> Rows:
    """Return changes as the rows of a recording, which are decoded on first access."""
    decoded = Changes(changes.schema, changes.words(strings), changes.time, strings, unique)

    def make(most: int) -> Sequence[RowChange]:
        table = decoded.to_arrow().slice(0, most)
        lines: list[list[Any]] = [column.to_pylist() for column in table.columns]
        values = list(zip(*lines[:-2], strict=True)) if len(lines) > 2 else [()] * table.num_rows
        kinds = decoded.kinds()[:most] if keyed else [""] * table.num_rows
        return [RowChange(v, d, k) for v, d, k in zip(values, lines[-1], kinds, strict=True)]

    return Rows(len(decoded), make)


def _step(
    draft: StepDraft,
    move: Any,
    titles: dict[str, RecordedOperator],
    history: StateHistory,
    kind: str,
    strings: Dictionary,
) -> RecordedStep:
    s = history.structure(draft.number)
    unique = s.unique.get(draft.operator)
    hits, holes = _hits_and_holes(draft, history)
    step = RecordedStep(
        draft.number,
        draft.message,
        draft.epoch,
        draft.kind,
        draft.operator,
        "",
        tuple(move(f) for f in draft.taken),
        tuple(move(f) for f in draft.sent),
        _dropped(draft, strings),
        NO_ROWS if draft.emitted is None else rows(draft.emitted, strings, unique, True),
        draft.answer,
        hits,
        holes,
    )
    facts = _facts(step, draft, titles, kind, history)
    return replace(step, caption=caption(facts), question=question(facts))


def _facts(
    step: RecordedStep, draft: StepDraft, titles: dict[str, RecordedOperator], kind: str, history: StateHistory
) -> StepFacts:
    """Collect the facts that a caption needs in addition to the step."""
    s = history.structure(draft.number)
    mine = [p for p in s.pieces.values() if p.owner == draft.operator and not p.base]
    looked: dict[str, list[Values]] = {}
    for name, key, words in draft.reads:
        if key is not None and words.shape[1] <= 3 and name in s.pieces:
            types = tuple(s.pieces[name].arrangement.layout.types[i] for i in key)
            where = s.join_sides.get(name) or s.pieces[name].relation or name
            looked.setdefault(where, []).extend(decode(words, types, history.strings))
    played = history.messages[draft.message - 1]
    evicted: list[Values] = []
    for name, keys in draft.filled.items():
        was = history.pieces[name].at(draft.number - 1)
        if was is not None:
            left = history.keys(was, keys)
            evicted += [k for k in history.keys(was, was.filled) if k not in left]
    return StepFacts(
        step,
        titles,
        kind,
        any(p.kind == "join" or p.owner in s.reduces for p in mine),
        any(p.name in history.pieces and _partial(history, p.name, draft.number) for p in mine),
        draft.refused,
        played.text,
        tuple((where, tuple(dict.fromkeys(keys))) for where, keys in looked.items()),
        _merged(history, draft, s, titles) if draft.kind == "seal" else (),
        tuple(dict.fromkeys(evicted)),
        None if draft.key is None else (draft.key,),
        _since(history, draft) if draft.kind == "seal" else None,
        _oldest_handle(history, draft) if draft.kind == "seal" else None,
    )


def _partial(history: StateHistory, name: str, step: int) -> bool:
    snap = history.pieces[name].at(step)
    return snap is not None and snap.filled is not None


def _merged(
    history: StateHistory, draft: StepDraft, s: Structure, titles: dict[str, RecordedOperator]
) -> tuple[str, ...]:
    """Return the titles of the arrangements whose batches merged in a step."""
    out = []
    for name, past in history.pieces.items():
        old, new = past.at(draft.number - 1), past.at(draft.number)
        if old is not None and new is not None and not new.piece.hidden and old.runs != new.runs:
            of = titles.get(s.pieces[name].owner) if name in s.pieces else None
            out.append(name if of is None else f"{of.title} {of.detail}" if of.kind == "arrange" else of.title)
    return tuple(dict.fromkeys(out))


def _oldest_handle(history: StateHistory, draft: StepDraft) -> tuple[str, int] | None:
    """Return the reader with the oldest trace handle and the handle's epoch, or None if no handle is open."""
    snaps = [past.at(draft.number) for past in history.pieces.values()]
    held = [(time, reader) for snap in snaps if snap is not None for reader, time in snap.handles]
    return min(held)[::-1] if held else None


def _since(history: StateHistory, draft: StepDraft) -> int | None:
    """Return the epoch to which since advanced in a step of a shared engine.

    Returns None if since did not advance, or advanced to different epochs in different arrangements.
    """
    moved = set()
    for past in history.pieces.values():
        old, new = past.at(draft.number - 1), past.at(draft.number)
        if old is not None and new is not None and new.since != old.since:
            moved.add(new.since)
    return moved.pop() if len(moved) == 1 and history.shared else None


def _dropped(draft: StepDraft, strings: Dictionary) -> Rows:
    """Return all changes that the operator dropped in a step, in one sequence."""
    parts = [rows(c, strings, None, False) for c in draft.dropped]
    if len(parts) == 1:
        return parts[0]
    return Rows(sum(map(len, parts)), lambda most: [c for p in parts for c in p.first(most)][:most])


def _hits_and_holes(draft: StepDraft, history: StateHistory) -> tuple[tuple[Values, ...], tuple[Values, ...]]:
    """Return the keys of an upquery or a read that were filled, and the keys that were holes."""
    wanted = [k for f in draft.taken if f.kind == "upquery" for k in f.keys or ()]
    wanted += [draft.key] if draft.kind == "read" and draft.key is not None else []
    shown = history.structure(draft.number)
    table = shown.reduces[draft.operator].output if draft.operator in shown.reduces else draft.operator
    snap = history.pieces[table].at(draft.number - 1) if table in history.pieces else None
    if not wanted or snap is None or snap.filled is None:
        return (), ()
    there = history.keys(snap, snap.filled)
    return tuple(k for k in wanted if k in there), tuple(k for k in wanted if k not in there)
