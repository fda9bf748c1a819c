"""Prints the example of the assignment under the three strategies, in a terminal.

    python -m sharedstate_lite.lessons.demo

Sends the nine rows one at a time to a full, a shared and a partial engine. After each row, it prints the emitted
changes, the answer, and the stored rows in the columns of ``engine.bill()``: durable inputs, working state and cached
answers. A summary in rows and bytes follows. All numbers come from the engines. DuckDB recomputes the answer, and the
exit status is 1 if an engine disagrees with it. The output has at most 80 columns. Colour is used only on a terminal,
and only if NO_COLOR is not set.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TextIO

import pandas as pd

import sharedstate_lite as ss

from ..engine.state_tables import BILL, CACHED, DURABLE, WORKING
from ..system.example import ASKED, CATEGORIES, MESSAGES, SCHEMA, SQL

INTRODUCTION = {
    "full": ("as in Flink", "Every operator stores all rows that it may need, in the columns that are used."),
    "shared": ("as in Materialize", "Each table is stored once, arranged by a key, and shared by all operators."),
    "partial": ("as in Noria", "A key is stored only after it is read. Changes to other keys are dropped."),
}


LEGEND = (
    f"{len(MESSAGES)} messages arrive. Each adds a row, and lengths are in seconds. Emitted changes:",
    "+I is a new row of the answer; -U and +U are its old and its new value.",
)


@dataclass(frozen=True)
class DemoStep:
    """One printed line, which describes the effect of one message or read.

    ``answer`` maps each category to the printed value. ``state`` and ``bill`` are what the engine's methods of these
    names return. ``dropped`` is the number of changes dropped at holes.
    """

    did: str
    emitted: str
    answer: dict[str, str]
    state: pd.DataFrame
    bill: pd.DataFrame
    dropped: int = 0
    read: bool = False
    """Whether the line describes a read."""

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows in each column of the bill: durable, working and cached."""
        return {column: int(self.bill["rows"][name]) for column, name in BILL.items()}

    def of(self, kind: str) -> int:
        """Return the number of rows of working state of one kind, as ``engine.state()`` names it."""
        working = self.state[self.state["bill"] == WORKING]
        return int(working.loc[working["kind"] == kind, "rows"].sum())


@dataclass(frozen=True)
class DemoRun:
    """The lines of one strategy, and its final answer after all keys have been read."""

    kind: str
    lines: list[DemoStep]
    final: pd.DataFrame

    @property
    def last(self) -> DemoStep:
        """The line of the last message, without the reads that follow it."""
        return next(line for line in reversed(self.lines) if not line.read)


def view() -> ss.View:
    """Return the example's view, in its own catalog."""
    return ss.Catalog(**SCHEMA).view(SQL)


def run(kind: str) -> DemoRun:
    """Send the nine messages to an engine of ``kind``, and return the lines to print.

    Under partial state, also read one key before the last message, and the other keys after it.
    """
    lines = []
    with ss.engine(kind, [view()]) as engine:
        for number, (relation, row) in enumerate(MESSAGES, 1):
            if kind == "partial" and number == len(MESSAGES):
                lines.append(_asked(engine, ASKED))
            engine.trace.clear()
            out = engine.step({relation: [(row, +1)]})
            dropped = sum(e.rows for e in engine.trace.named("dropped"))
            emitted = _emitted(out["result"]) or ("dropped at a hole" if dropped else "")
            lines.append(_line(engine, f"{relation} {' '.join(map(str, row))}", emitted, dropped))
        if kind == "partial":
            lines += [_asked(engine, c) for c in CATEGORIES if c != ASKED]
        return DemoRun(kind, lines, engine.read("result"))


def _asked(engine: ss.Engine, category: str) -> DemoStep:
    engine.trace.clear()
    engine.read("result", key=category)
    bases = [t for t in SCHEMA if any(e.target == t for e in engine.trace.named("upquery"))]
    return _line(engine, f"read {category}", f"asks {' and '.join(bases)}" if bases else "held", read=True)


def _emitted(changes: ss.Changes) -> str:
    """Return changes as text, such as ``Fruit +I 10`` or ``Fruit -U 10 +U 20``, separated by commas."""
    frame = changes.to_pandas()
    told: dict[str, list[str]] = {}
    for kind, category, value in zip(changes.kinds(), frame["category"], frame["max_length"], strict=True):
        told.setdefault(category, []).append(f"{kind} {value}")
    return ", ".join(f"{category} {' '.join(parts)}" for category, parts in told.items())


def _line(engine: ss.Engine, did: str, emitted: str, dropped: int = 0, read: bool = False) -> DemoStep:
    whole = engine.read("result")
    there = dict(zip(whole["category"], whole["max_length"], strict=True))
    absent = "hole" if engine.kind == "partial" else "-"
    answer = {c: str(there.get(c, absent)) for c in CATEGORIES}
    return DemoStep(did, emitted, answer, engine.state(), engine.bill(), dropped, read)


# --- as text -------------------------------------------------------------------


class Style:
    """Applies terminal colours to text, or leaves it unchanged if ``on`` is False."""

    CODES = {"bold": "1", "faint": "2", "plus": "34", "minus": "33"}

    def __init__(self, on: bool) -> None:
        self.on = on

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Use colours if ``stream`` is a terminal that supports them and NO_COLOR is not set (no-color.org)."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def __call__(self, text: str, *kinds: str) -> str:
        if not self.on or not text.strip():
            return text
        return f"\x1b[{';'.join(self.CODES[k] for k in kinds)}m{text}\x1b[0m"


def table(told: DemoRun, style: Style) -> list[str]:
    """Format the lines of a strategy as a table of at most 80 columns."""
    head = f"{'message':<20} {'emitted':<21}{'Fruit':>5} {'Vegetable':>9} {' '.join(BILL)}"
    out = [
        f"{style(told.kind.upper() + ' STATE', 'bold')}, {INTRODUCTION[told.kind][0]}",
        INTRODUCTION[told.kind][1],
        style(f"{'':<42}{'the answer':>15} {'rows stored':>{len(' '.join(BILL))}}", "faint"),
        style(head, "faint"),
    ]
    for line in told.lines:
        rows = " ".join(f"{n:>{len(column)}}" for column, n in line.rows.items())
        did = f"{line.did:<20} "
        emitted = f"{line.emitted:<{42 - len(did)}}"
        paint = "plus" if "+" in line.emitted else "minus" if line.dropped or line.read else "faint"
        answer = f"{line.answer['Fruit']:>5} {line.answer['Vegetable']:>9}"
        out.append(f"{did}{style(emitted, paint)}{style(answer, 'bold')} {rows}")
    return out


def summary(runs: list[DemoRun], style: Style) -> list[str]:
    """Format a table with the bill of each strategy after the last message."""
    out = [style(f"{'THE BILL, rows and bytes':<29}" + "".join(f"{name:>17}" for name in BILL.values()), "bold")]
    for told in runs:
        lines = [(told.kind, told.last)]
        if told.lines[-1] is not told.last:
            lines = [(f"partial, {ASKED} read", told.last), ("partial, every category read", told.lines[-1])]
        for name, line in lines:
            amounts = (line.bill.loc[column, ["rows", "bytes"]] for column in BILL.values())
            out.append(f"{name:<29}" + "".join(f"{rows:>10}{size:>7}" for rows, size in amounts))
    return [*out, "All of it is in memory here. Real systems keep inputs on disk or in a log."]


def sentences(runs: list[DemoRun]) -> list[str]:
    """Describe the row counts of each strategy in one sentence."""
    last = {r.kind: r.last for r in runs}
    full, shared, partial = last["full"], last["shared"], last["partial"]
    dropped = sum(line.dropped for r in runs if r.kind == "partial" for line in r.lines)
    end = next(r for r in runs if r.kind == "partial").lines[-1]
    fruit = end.answer["Fruit"]
    looked_up = shared.rows[WORKING] - shared.of("arrangement") - shared.of("reader")
    return [
        f"full     works with {full.rows[WORKING]} rows: {full.of('join')} in the join, which copies both tables"
        f" without the user, {full.of('aggregate')} for MAX and {full.of('reader')} in the view.",
        f"shared   works with {shared.rows[WORKING]} rows. {looked_up} of them are the durable inputs, which the join"
        f" reads with all columns. MAX reads the {shared.of('arrangement')} joined rows, arranged by category."
        " One view has nothing to share; the next one reads the same rows.",
        f"partial  works with {partial.rows[WORKING]} rows. {partial.rows[DURABLE]} of them are the durable inputs, the"
        f" other {partial.of('index')} an index by a further column. It caches {partial.rows[CACHED]} rows, for"
        f" {ASKED}, which was read. It dropped {dropped} changes at holes, and still answers {fruit} when Fruit is"
        " read.",
    ]


def disagreement(runs: list[DemoRun]) -> str:
    """Describe how the strategies' answers differ from DuckDB's. Returns '' if all agree."""
    from .. import oracle

    names = {relation: [c.split()[0] for c in schema.split(", ")] for relation, schema in SCHEMA.items()}
    tables = {r: pd.DataFrame([row for s, row in MESSAGES if s == r], columns=names[r]) for r in SCHEMA}
    wanted = oracle.recompute(view(), tables)
    wrong = [f"{r.kind}: {said}" for r in runs if (said := oracle.difference(r.final, wanted))]
    return "; ".join(wrong)


def report(style: Style) -> tuple[str, int]:
    """Return the text to print and the exit status."""
    runs = [run(kind) for kind in ss.KINDS]
    lines = [style("What is the longest visit to a product in each category?", "bold"), ""]
    lines += [f"  {line}" for line in SQL.splitlines()] + ["", *LEGEND, ""]
    for told in runs:
        lines += [*table(told, style), ""]
    lines += [*summary(runs, style), ""]
    for sentence in sentences(runs):
        lines += _wrapped(sentence)
    wrong = disagreement(runs)
    answer = ", ".join(f"{c} {m}" for c, m in zip(runs[0].final["category"], runs[0].final["max_length"], strict=True))
    lines += ["", f"WRONG  {wrong}" if wrong else f"All three answer {answer}. DuckDB computes the same."]
    return "\n".join(lines) + "\n", int(bool(wrong))


def _wrapped(sentence: str, indent: int = 9, columns: int = 79) -> list[str]:
    import textwrap

    return textwrap.wrap(sentence, columns, subsequent_indent=" " * indent, drop_whitespace=True)


def main() -> int:
    """Print the example. Returns 1 if a strategy disagrees with DuckDB or the output pipe is closed, otherwise 0."""
    text, status = report(Style.of(sys.stdout))
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
