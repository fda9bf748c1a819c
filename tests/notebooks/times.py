"""What a notebook says of its time, counted and measured: the line under its title.

    python tests/notebooks/times.py 00 01           print the line of these notebooks, counted anew
    python tests/notebooks/times.py --run --write   run every notebook, measure it, and write the lines

The minutes to read are an estimate, and the line says of what: so many words at
``READING`` words a minute, and a while for each prediction, question, stepper and cell.
The seconds to run are measured, by ``--run`` alone; without it those of the header stay.
A test holds each header to its counts.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READING = 160
"""Words a minute: text with terms in it is read more slowly than a newspaper."""
QUESTION, STEPPER, CELL = 60, 120, 12
"""Seconds for a prediction or a question at the end, for a stepper, and for a cell and its output."""
_LINE = re.compile(r"\*\*Time\*\* .*?(?= \*\*Difficulty\*\*)", re.S)
_RUN = re.compile(r"To run, ([\d,]+) seconds?, measured on (\d+) cores?")


@dataclass(frozen=True)
class Counts:
    """What there is to read and to do."""

    words: int
    predictions: int
    questions: int
    steppers: int
    cells: int

    @property
    def minutes(self) -> int:
        """An estimate, to the next five."""
        tried = QUESTION * (self.predictions + self.questions) + STEPPER * self.steppers + CELL * self.cells
        return 5 * math.ceil((self.words / READING + tried / 60) / 5)


@dataclass(frozen=True)
class Run:
    """How long all cells took, and on how many cores."""

    seconds: int
    cores: int


def count(notebook: Any) -> Counts:
    """The words of the text, this line aside, and what is tried."""
    texts = [_LINE.sub("", c.source) for c in notebook.cells if c.cell_type == "markdown"]
    code = [c for c in notebook.cells if c.cell_type == "code"]
    return Counts(
        words=sum(any(map(str.isalnum, word)) for text in texts for word in text.split()),
        predictions=sum("predict" in c.metadata.get("tags", []) for c in code),
        questions=sum(text.count("<details>") for text in texts),
        steppers=sum("show.stepper(" in c.source for c in code),
        cells=len(code),
    )


def announced(notebook: Any) -> Run | None:
    """What the header says of the run; None where it says nothing."""
    found = _RUN.search(header(notebook))
    return Run(int(found[1].replace(",", "")), int(found[2])) if found else None


def header(notebook: Any) -> str:
    """The line as it stands in the notebook; empty where there is none."""
    texts = (c.source for c in notebook.cells if c.cell_type == "markdown")
    return next((found[0] for found in map(_LINE.search, texts) if found), "")


def line(counts: Counts, ran: Run, name: str) -> str:
    """The line that belongs there."""
    tried = f"{_many(counts.predictions, 'prediction')} and {_many(counts.questions, 'question')}, a minute each"
    each = f"{STEPPER // 60} minutes{' each' if counts.steppers > 1 else ''}"
    stepped = f"; {_many(counts.steppers, 'stepper')}, {each}" if counts.steppers else ""
    return (
        f"**Time** To read and try, about {counts.minutes} minutes, an estimate: {counts.words:,} words at {READING} a "
        f"minute; {tried}{stepped}; {_many(counts.cells, 'cell')}, {CELL} seconds each. "
        f"To run, {_many(ran.seconds, 'second')}, measured on {_many(ran.cores, 'core')} by "
        f"`python tests/notebooks/times.py --run {name}`; the last cell prints yours."
    )


def put(notebook: Any, said: str) -> None:
    """Set the line, in place of the one that is there."""
    title = next(c for c in notebook.cells if c.cell_type == "markdown")
    title.source = _LINE.sub(lambda _: said, title.source)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """The command."""
    import nbformat
    from notebook_run import ROOT, run

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="numbers of notebooks; without any, all of them")
    parser.add_argument("--run", action="store_true", help="run them, and take the time")
    parser.add_argument("--write", action="store_true", help="put the line into the notebook")
    told = parser.parse_args()
    for path in sorted(Path(ROOT / "notebooks").glob("*.ipynb")):
        name = path.name[:2]
        if told.names and name not in told.names:
            continue
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        ran = announced(notebook)
        if told.run:
            done = run(notebook)
            if done.error:
                raise SystemExit(f"{path.name}: {done.error}")
            ran = Run(max(1, round(done.seconds)), cores())
            notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)  # without what the run left in it
        if ran is None:
            raise SystemExit(f"{path.name}: its header has no measured time; add --run")
        print(line(count(notebook), ran, name))
        if told.write:
            put(notebook, line(count(notebook), ran, name))
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
