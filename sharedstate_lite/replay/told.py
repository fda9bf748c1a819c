"""From a recorded run to a Recording: steps are numbered, the graph is told once, rows become readable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..storage.encoding import Strings
from . import asked, flow
from .captions import Facts, caption, question
from .messages import Values
from .parts import Snap, Structure
from .recording import NONE, Change, Edge, Move, Operator, Recording, Rows, Step, Told
from .rows import decode
from .state import History
from .steps import Chapter, Draft, Flight, Names
from .tables import Tables

_FUNCTION = re.compile(r"\b(max|min|sum|count|avg)\(")


def recorded(
    engine: Engine, catalog: Any, chapters: list[Chapter], first: tuple[Structure, dict[str, Snap]]
) -> Recording:
    """The recording of a run; ``first`` is what there was before its first message."""
    strings = engine.dictionary.strings
    structures = [first[0], *(c.after for c in chapters)]
    names = Names(structures, strings)
    drafts = _drafts(engine.kind, chapters, names)
    history = History(chapters, drafts, strings, first, engine.kind == "shared")
    _answers(history, chapters, drafts)
    operators, edges = _graph(structures, names)
    titles = {o.name: o for o in operators}
    moves: dict[int, Move] = {}

    def move(flight: Flight) -> Move:
        if id(flight) not in moves:
            moves[id(flight)] = _move(flight, len(moves) + 1, strings)
        return moves[id(flight)]

    steps = tuple(_step(d, move, titles, history, engine.kind, strings) for d in drafts)
    told = tuple(Told(c.number, c.message, c.text, *history.spans[c.number], c.epoch, c.refused) for c in chapters)
    tables = Tables(history, [o.name for o in operators], engine.kind)
    schemas = {n: tuple((c.name, c.type.value) for c in s) for n, s in catalog.relations.items()}
    sql = tuple(v.sql for v in engine.views.values())
    return Recording(engine.kind, sql, operators, edges, told, steps, tables.state, history.totals, schemas)


def _drafts(kind: str, chapters: Sequence[Chapter], names: Names) -> list[Draft]:
    """All steps in order, numbered; every message has at least one."""
    under: asked.Under = {}
    seen: asked.Under = {}
    every: list[Draft] = []
    for chapter in chapters:
        if chapter.refused:
            every.append(Draft("refused", "", chapter.number, word=chapter.refused))
            asked.take_back(every[-1], chapter, under, seen)
        elif kind == "partial":
            every += asked.cut(chapter, names, under)
        else:
            every += flow.cut(chapter, names, kind)
        seen.update(under)
    if kind == "partial":
        every = asked.passed(every, names)
    epochs = {c.number: c.epoch for c in chapters}
    for number, draft in enumerate(every, 1):
        draft.number, draft.epoch = number, epochs[draft.message]
        for flight in draft.sent:
            flight.sent = number
        for flight in draft.taken:
            flight.taken = number
    return every


def _answers(history: History, chapters: Sequence[Chapter], drafts: Sequence[Draft]) -> None:
    """Give the answer of each read to the step that completes it."""
    for chapter in chapters:
        start, end = history.spans[chapter.number]
        if chapter.answer is not None:
            first = drafts[start - 1]
            done = _completing(drafts[start:end], first)
            done.answer = chapter.answer
            if done is not first and first.key is not None:
                history.reads.append((first.operator, first.number, done.number, (first.key,)))
        for of, rows in chapter.answered:
            asked = drafts[history.spans[of][0] - 1]
            done = _completing(drafts[start - 1 : end], asked)
            done.answer = rows
            if asked.key is not None:
                history.reads.append((asked.operator, asked.number, done.number, (asked.key,)))
    answered = {read[1] for read in history.reads}
    for draft in drafts:
        if draft.kind == "read" and draft.answer is None and draft.key is not None and draft.number not in answered:
            history.reads.append((draft.operator, draft.number, None, (draft.key,)))


def _completing(steps: Sequence[Draft], asked: Draft) -> Draft:
    """The last of some steps in which the view that was read takes the answer to its key, or the read itself."""
    found = [
        d
        for d in steps
        if d.operator == asked.operator and any(asked.key in (f.keys or ()) for f in d.taken if f.kind == "response")
    ]
    return found[-1] if found else asked


def _graph(structures: Sequence[Structure], names: Names) -> tuple[tuple[Operator, ...], tuple[Edge, ...]]:
    """The operators and edges of the whole run; ``structures[n]`` is what there was after message n."""
    seen: dict[str, list[int]] = {}
    links: dict[tuple[str, str, str], list[int]] = {}
    latest: dict[str, dict[str, Any]] = {}
    for number, s in enumerate(structures):
        for name, row in s.operators.items():
            if name not in names.folded:
                seen.setdefault(name, []).append(number)
                latest[name] = row | ({"kind": "source"} if name in s.behind.values() else {})
                if name in s.behind.values():
                    latest[name]["title"] = next(k for k, v in s.behind.items() if v == name)
        for edge in _edges(s, names):
            links.setdefault(edge, []).append(number)

    def gone(numbers: list[int]) -> int | None:
        return None if numbers[-1] == len(structures) - 1 else numbers[-1] + 1

    operators = tuple(
        Operator(
            name,
            latest[name]["kind"],
            _FUNCTION.sub(lambda m: m[0].upper(), latest[name]["title"]),
            latest[name]["detail"],
            tuple(latest[name]["tables"]),
            latest[name]["view"],
            numbers[0],
            gone(numbers),
        )
        for name, numbers in seen.items()
    )
    edges = tuple(Edge(a, b, kind, numbers[0], gone(numbers)) for (a, b, kind), numbers in links.items())
    return operators, edges


def _edges(s: Structure, names: Names) -> list[tuple[str, str, str]]:
    """The edges between the operators that are shown."""
    out: list[tuple[str, str, str]] = []
    arranged = {n for n, row in s.operators.items() if row["kind"] == "arrange"}
    for a, b, kind in s.edges:
        if kind == "upquery":
            # From who asks to who is asked: the asker is below, the asked may be left out.
            if a not in names.folded:
                out.append((a, names.shown(s, b), kind))
        elif b not in names.folded:
            source = names.shown(s, a)
            if source != b:
                out.append((source, b, "read" if source in arranged and source == a else kind))
    return list(dict.fromkeys(out))


def _move(flight: Flight, number: int, strings: Strings) -> Move:
    changes = flight.changes
    return Move(
        number,
        flight.source,
        flight.target,
        flight.kind,
        NONE if changes is None else rows(changes, strings, flight.unique, flight.keyed),
        () if changes is None else tuple(c.name for c in changes.schema),
        flight.keys,
        flight.key_columns,
        flight.sent,
        flight.taken,
        flight.traced,
        flight.weight,
    )


def rows(changes: Changes, strings: Strings, unique: tuple[int, ...] | None, keyed: bool) -> Rows:
    """Changes as rows of a recording, decoded when they are looked at."""
    told = Changes(changes.schema, changes.words(strings), changes.time, strings, unique)

    def make(most: int) -> Sequence[Change]:
        table = told.to_arrow().slice(0, most)
        lines: list[list[Any]] = [column.to_pylist() for column in table.columns]
        values = list(zip(*lines[:-2], strict=True)) if len(lines) > 2 else [()] * table.num_rows
        kinds = told.kinds()[:most] if keyed else [""] * table.num_rows
        return [Change(v, d, k) for v, d, k in zip(values, lines[-1], kinds, strict=True)]

    return Rows(len(told), make)


def _step(draft: Draft, move: Any, titles: dict[str, Operator], history: History, kind: str, strings: Strings) -> Step:
    s = history.structure(draft.number)
    unique = s.unique.get(draft.operator)
    hits, holes = _met(draft, history)
    step = Step(
        draft.number,
        draft.message,
        draft.epoch,
        draft.kind,
        draft.operator,
        "",
        tuple(move(f) for f in draft.taken),
        tuple(move(f) for f in draft.sent),
        _fallen(draft, strings),
        NONE if draft.emitted is None else rows(draft.emitted, strings, unique, True),
        draft.answer,
        hits,
        holes,
    )
    facts = _facts(step, draft, titles, kind, history)
    return replace(step, caption=caption(facts), question=question(facts))


def _facts(step: Step, draft: Draft, titles: dict[str, Operator], kind: str, history: History) -> Facts:
    """What a caption needs beside the step."""
    s = history.structure(draft.number)
    mine = [p for p in s.pieces.values() if p.owner == draft.operator and not p.base]
    looked: dict[str, list[Values]] = {}
    for name, key, words in draft.looks:
        if key is not None and words.shape[1] <= 3 and name in s.pieces:
            types = tuple(s.pieces[name].arrangement.layout.types[i] for i in key)
            where = s.sides.get(name) or s.pieces[name].relation or name
            looked.setdefault(where, []).extend(decode(words, types, history.strings))
    chapter = history.chapters[draft.message - 1]
    evicted: list[Values] = []
    for name, keys in draft.filled.items():
        was = history.lines[name].at(draft.number - 1)
        if was is not None:
            left = history.keys(was, keys)
            evicted += [k for k in history.keys(was, was.filled) if k not in left]
    return Facts(
        step,
        titles,
        kind,
        any(p.kind == "join" or p.owner in s.shapes for p in mine),
        any(p.name in history.lines and _partial(history, p.name, draft.number) for p in mine),
        draft.word,
        chapter.text,
        tuple((where, tuple(dict.fromkeys(keys))) for where, keys in looked.items()),
        _merged(history, draft, s, titles) if draft.kind == "seal" else (),
        tuple(dict.fromkeys(evicted)),
        None if draft.key is None else (draft.key,),
        _since(history, draft) if draft.kind == "seal" else None,
        _slow(history, draft) if draft.kind == "seal" else None,
    )


def _partial(history: History, name: str, step: int) -> bool:
    snap = history.lines[name].at(step)
    return snap is not None and snap.filled is not None


def _merged(history: History, draft: Draft, s: Structure, titles: dict[str, Operator]) -> tuple[str, ...]:
    """The arrangements of which batches were merged in a step, as their panels are called."""
    out = []
    for name, line in history.lines.items():
        old, new = line.at(draft.number - 1), line.at(draft.number)
        if old is not None and new is not None and not new.piece.hidden and old.runs != new.runs:
            of = titles.get(s.pieces[name].owner) if name in s.pieces else None
            out.append(name if of is None else f"{of.title} {of.detail}" if of.kind == "arrange" else of.title)
    return tuple(dict.fromkeys(out))


def _slow(history: History, draft: Draft) -> tuple[str, int] | None:
    """Whose handle is the oldest, and where it stands."""
    snaps = [line.at(draft.number) for line in history.lines.values()]
    held = [(time, reader) for snap in snaps if snap is not None for reader, time in snap.handles]
    return min(held)[::-1] if held else None


def _since(history: History, draft: Draft) -> int | None:
    """Where since has got to, if it moved everywhere alike."""
    moved = set()
    for line in history.lines.values():
        old, new = line.at(draft.number - 1), line.at(draft.number)
        if old is not None and new is not None and new.since != old.since:
            moved.add(new.since)
    return moved.pop() if len(moved) == 1 and history.shared else None


def _fallen(draft: Draft, strings: Strings) -> Rows:
    """What was let fall; one operator drops once for each change that it takes."""
    parts = [rows(c, strings, None, False) for c in draft.dropped]
    if len(parts) == 1:
        return parts[0]
    return Rows(sum(map(len, parts)), lambda most: [c for p in parts for c in p.first(most)][:most])


def _met(draft: Draft, history: History) -> tuple[tuple[Values, ...], tuple[Values, ...]]:
    """Keys that a question or a read met filled, and as holes."""
    wanted = [k for f in draft.taken if f.kind == "upquery" for k in f.keys or ()]
    wanted += [draft.key] if draft.kind == "read" and draft.key is not None else []
    shown = history.structure(draft.number)
    table = shown.shapes[draft.operator].output if draft.operator in shown.shapes else draft.operator
    snap = history.lines[table].at(draft.number - 1) if table in history.lines else None
    if not wanted or snap is None or snap.filled is None:
        return (), ()
    there = history.keys(snap, snap.filled)
    return tuple(k for k in wanted if k in there), tuple(k for k in wanted if k not in there)
