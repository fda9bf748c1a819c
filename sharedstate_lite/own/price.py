"""The command ``sharedstate price``: what your views will cost under each strategy, predicted and then measured.

    sharedstate price view.sql info.csv visit.csv
    sharedstate price view.sql info.csv visit.csv --epochs 100 --read 5% --html price.html

Each file is a table with the name of the file; a column ``diff`` says how often a row is added or removed. Rows and
bytes of each part of the state are predicted before an engine runs. Then the engines run over the same rows, which
arrive in ``--epochs`` equal parts, or as a column ``epoch`` says. Under partial state, a share of the keys of
each view is read, drawn by their values alone. The exit status is 0, 2 after an error, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ..changelog import validate
from ..changelog.changes import frame
from ..data.progress import Progress
from ..engine.engine import Engine
from ..engine.state_tables import TOTAL, bill_table
from ..errors import Error, ViewError
from ..partial.partial import Partial
from ..plan.nodes import Scan, Type
from ..plan.view import View
from ..sql.catalog import Catalog
from ..storage.arrangement import Arrangement
from ..storage.batch import Layout, distinct_rows
from ..storage.encoding import Dictionary
from .files import EPOCH, catalog, epochs, script, tables
from .page import body, mark, page
from .parts import KINDS, Priced, built, priced, table
from .predict import Predictor, drawn_keys
from .statistics import Statistics

MOST = 10_000_000
"""The engines are run if an operator has at most so many rows, unless the caller insists."""
WORST = 10


def q_error(predicted: float, measured: float) -> float:
    """Return by which factor a prediction is wrong. Both numbers get one more, so that zero is a prediction, too.

    >>> q_error(9, 19), q_error(0, 0)
    (2.0, 1.0)
    """
    return max((predicted + 1) / (measured + 1), (measured + 1) / (predicted + 1))


@dataclass
class Strategy:
    """The price of the views under one strategy: its parts, and the views that it cannot maintain, with the reason."""

    kind: str
    parts: list[Priced]
    unable: dict[str, str]
    predicted: pd.DataFrame
    measured: pd.DataFrame | None = None
    measured_parts: frozenset[str] = frozenset()
    """The names of the parts that the engine had at the end of the run."""

    def as_json(self) -> dict[str, Any]:
        """Return the parts and the bill as an object."""
        parts = [
            {
                "operator": p.part.operator,
                "kind": p.part.kind,
                "bill": list(p.part.bill),
                "rows": _pair(p.rows, None if self.measured is None else p.measured[0]),
                "bytes": _pair(p.bytes, None if self.measured is None else p.measured[1]),
                "cause": p.cause or None,
            }
            for p in self.parts
        ]
        bill = {name: {unit: _pair(*self.amounts(name, unit)) for unit in ("rows", "bytes")} for name in self.bill}
        return {"parts": parts, "bill": bill, "unable": self.unable}

    @property
    def bill(self) -> list[str]:
        """The lines of the bill."""
        return [str(name) for name in self.predicted.index]

    def amounts(self, name: str, unit: str) -> tuple[int, int | None]:
        """Return the predicted and the measured rows or bytes of a line of the bill."""
        measured = None if self.measured is None else int(self.measured[unit][name])
        return int(self.predicted[unit][name]), measured


def _pair(predicted: int, measured: int | None) -> dict[str, Any]:
    q = None if measured is None else round(q_error(predicted, measured), 3)
    return {"predicted": predicted, "measured": measured, "q": q}


@dataclass
class Price:
    """What views cost: `strategies` by name, and the `statistics` of the tables that they read.

    ``read`` is the share of the keys that is read under partial state. ``largest`` is the predicted number of rows of
    the operator that has most. `measure` runs the engines.
    """

    made: Catalog
    steps: list[dict[str, pd.DataFrame]]
    read: float
    statistics: dict[str, Statistics]
    strings: Dictionary
    largest: float = 0.0
    strategies: dict[str, Strategy] = field(default_factory=dict)

    @classmethod
    def of(cls, made: Catalog, given: Mapping[str, pd.DataFrame], cut: int = 10, read: float = 0.1) -> Price:
        """Predict what the views of a catalog cost over tables. Raises Error if a row does not fit.

        If no table has a column ``epoch``, each arrives in ``cut`` equal parts.
        """
        views = [*made.views.values()]
        used = {n.relation for view in views for n in view.plan.walk() if isinstance(n, Scan)}
        kept = {name: table for name, table in given.items() if name in used}
        strings = Dictionary()
        found = _statistics(made, kept, strings)
        out = cls(made, epochs(kept, cut), read, found, strings)
        used_codes = [
            w for t in found.values() for c, w in zip(t.schema, t.words, strict=True) if c.type is Type.STRING
        ]
        texts, predictor = strings.keep(used_codes)[0].nbytes, Predictor(found, strings)
        out.largest = max(predictor.rows(node).total for view in views for node in view.plan.walk())
        for kind in KINDS:
            try:
                engine, unable = built(kind, views)
            except ViewError as error:
                refused = {view.name: str(error) for view in views}
                out.strategies[kind] = Strategy(kind, [], refused, bill_table(table([])))
                continue
            with engine:
                parts = priced(engine, predictor, read)
            bill = bill_table(table(parts), texts)
            out.strategies[kind] = Strategy(kind, parts, unable, bill)
        return out

    def measure(self, progress: Progress | None = None) -> None:
        """Run each engine over all epochs, and note the state that it has after it was compacted."""
        keys: dict[str, list[tuple[Any, ...]]] = {}
        for number, (kind, strategy) in enumerate(self.strategies.items()):
            if not strategy.parts:
                continue
            with built(kind, [*self.made.views.values()])[0] as engine:
                for epoch, step in enumerate(self.steps):
                    engine.step(step)
                    if isinstance(engine, Partial):
                        for view, wanted in keys.items():
                            for key in wanted[epoch :: len(self.steps)] if view in engine.views else ():
                                engine.read(view, key)
                    if progress is not None:
                        progress.show(number * len(self.steps) + epoch + 1)
                if isinstance(engine, Partial):
                    _fill(engine, keys)
                elif not keys:
                    keys = {name: _keys(engine, view, self.read) for name, view in engine.views.items()}
                engine.compact()
                state = engine.state().set_index("operator")
                strategy.measured_parts = frozenset(map(str, state.index))
                for part in strategy.parts:
                    name = part.part.operator
                    part.measured = int(state["rows"][name]), int(state["bytes"][name])
                strategy.measured = engine.bill()

    def worst(self) -> list[tuple[float, str, Priced, str]]:
        """Return the parts that were guessed worst, the worst first: q, the strategy, the part, and the unit.

        q is that of the rows or of the bytes, whichever is larger, and the unit says which.
        """
        found = []
        for s in self.strategies.values():
            for p in s.parts if s.measured is not None else ():
                q, unit = max((q_error(*p.amounts(unit)), unit) for unit in ("bytes", "rows"))
                found.append((q, s.kind, p, unit))
        return sorted((each for each in found if each[0] > 1.0), key=lambda each: -each[0])

    def as_json(self) -> dict[str, Any]:
        """Return everything as an object; docs/price.schema.json is its schema."""
        rows = {
            name: {"rows": s.rows, "columns": [c.as_json(self.strings) for c in s.columns]}
            for name, s in self.statistics.items()
        }
        worst = []
        for q, kind, p, unit in self.worst()[:WORST]:
            sizes = dict(zip(("predicted", "measured"), p.amounts(unit), strict=True))
            part = {"strategy": kind, "operator": p.part.operator, "unit": unit, **sizes}
            worst.append({"q": round(q, 3), **part, "cause": p.cause or None})
        strategies = {kind: s.as_json() for kind, s in self.strategies.items()}
        head = {"views": list(self.made.views), "epochs": len(self.steps), "read": self.read}
        return head | {"tables": rows, "strategies": strategies, "worst": worst}

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return body(self.as_json(), next(self._lines()), parts=False)

    def _lines(self) -> Iterator[str]:
        sizes = ", ".join(f"{name} ({s.rows:,} rows)" for name, s in self.statistics.items())
        views = ", ".join(self.made.views)
        yield f"{views} over {sizes}: {len(self.steps)} epochs, {self.read * 100:.4g}% of the keys read"
        worst = self.worst()
        if worst:
            yield "guessed worst, with q = max(predicted / measured, measured / predicted), both plus one"
            for q, kind, p, unit in worst[:WORST]:
                sizes = "{:,} {unit}, not {:,}".format(*p.amounts(unit), unit=unit)
                cause = f": {p.cause}" if p.cause else ""
                yield f"  {q:.2f}  {kind} {p.part.operator}: {sizes}{cause}"
        yield f"{'':26}{'rows':>12}{'measured':>12}{'q':>7}{'bytes':>16}{'measured':>16}{'q':>7}"
        for strategy in self.strategies.values():
            star = mark(strategy.parts, strategy.unable)
            for name in strategy.bill if strategy.parts else ():
                cells = ""
                for unit, wide in (("rows", 12), ("bytes", 16)):
                    predicted, measured = strategy.amounts(name, unit)
                    told = "" if measured is None else f"{measured:,}"
                    error = "" if measured is None else f"{q_error(predicted, measured):.2f}"
                    cells += f"{predicted:>{wide},}{told:>{wide}}{error:>7}"
                line = f"{name}{star}" if name == TOTAL else name
                yield f"{strategy.kind:9}{line:17}{cells}".rstrip()
            for view, why in strategy.unable.items():
                yield f"{strategy.kind + star:10}without {view}: {why}"


def _statistics(made: Catalog, given: Mapping[str, pd.DataFrame], strings: Dictionary) -> dict[str, Statistics]:
    """Read all rows of the tables as one epoch, and return the statistics of each."""
    plain = {name: table.drop(columns=EPOCH, errors="ignore") for name, table in given.items()}
    bodies = {}
    for name, delta in validate.epoch(plain, made, strings).items():
        schema = made.schema(name)
        layout = Layout(tuple(c.type for c in schema), tuple(range(len(schema))))
        body = layout.body(delta.rows, delta.diffs, strings)
        validate.check(Arrangement(name, layout), schema, name, body, strings)
        bodies[name] = layout.delta(body)
    return {name: Statistics.of(made.schema(name), *body, strings) for name, body in bodies.items()}


def _keys(engine: Engine, view: View, share: float) -> list[tuple[Any, ...]]:
    """Return the keys of a view that are drawn, in the order of their hashes."""
    strings, schema = engine.dictionary.strings, tuple(view.schema[i] for i in view.key)
    types = tuple(c.type for c in schema)
    keys = distinct_rows(engine.view_rows(view, None, None).rows[list(view.key)], types, strings)
    if not schema:
        return [()]
    drawn = keys.compress(drawn_keys(keys, types, share, strings), axis=1)
    found = frame(schema, drawn, strings).astype(object)
    return list(found.where(found.notna(), None).itertuples(index=False, name=None))


def _fill(engine: Partial, keys: Mapping[str, list[tuple[Any, ...]]]) -> None:
    """Read the keys again that were evicted since they were read."""
    for view in engine.views:
        there = set(engine.filled(view))
        for key in keys[view]:
            if key not in there:
                engine.read(view, key)


def share(text: str) -> float:
    """Return the share that a text such as "10%" gives. Raises Error if it is none.

    >>> share("2.5%")
    0.025
    """
    try:
        found = float(text.removesuffix("%")) / 100 if text.endswith("%") else 0.0
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise Error(f"--read {text}: write a share of the keys above 0% and up to 100%, such as 10%")
    return found


def count(text: str) -> int:
    """Return the number of epochs that a text gives. Raises Error if it is none."""
    if not (text.isdecimal() and 1 <= int(text) <= 10_000):
        raise Error(f"--epochs {text}: write a number of epochs from 1 to 10,000")
    return int(text)


def writable(text: str) -> Path:
    """Return the path of a page that will be written. Raises Error if it cannot be."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Error(f"--html {text}: no file can be written here; name one in a folder that you may write to")
    return path


def main(arguments: Sequence[str]) -> int:
    """Print what the views cost. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="sharedstate price", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sql", help="a file with CREATE VIEW statements")
    parser.add_argument("files", nargs="+", help="a CSV or Parquet file for each table")
    parser.add_argument("--epochs", default="10", help="epochs, if no file has a column epoch (default: 10)")
    parser.add_argument("--read", default="10%", help="the share of the keys that is read (default: 10%%)")
    parser.add_argument("--json", action="store_true", help="print an object")
    parser.add_argument("--html", metavar="FILE", help="also write a page with a chart")
    forced = f"run the engines even if an operator has more than {MOST:,} rows"
    parser.add_argument("--force", action="store_true", help=forced)
    chosen = parser.parse_args(arguments)
    status, why = 0, ""
    try:
        read, cut = share(chosen.read), count(chosen.epochs)
        html = writable(chosen.html) if chosen.html else None
        given = tables(chosen.files)
        found = Price.of(catalog(script(chosen.sql), given), given, cut, read)
        progress = Progress("measuring", len(KINDS) * len(found.steps), sys.stderr)
        try:
            if found.largest <= MOST or chosen.force:
                found.measure(progress)
            else:
                why = f"not measured: an operator has about {found.largest:,.0f} rows; --force runs the engines"
        except KeyboardInterrupt:
            status, why = 130, "stopped: strategies without a measurement were not run to their end"
        finally:
            progress.close()
        if html:
            html.write_text(page(found.as_json(), next(found._lines())), encoding="utf-8")
    except (Error, OSError) as error:
        print(f"sharedstate price: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sharedstate price: stopped before the prediction was made", file=sys.stderr)
        return 130
    print(json.dumps(found.as_json(), ensure_ascii=False, indent=1) if chosen.json else found)
    if why:
        print(f"sharedstate price: {why}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
