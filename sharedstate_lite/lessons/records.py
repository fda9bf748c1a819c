"""The dated record of a page that measures, beside the reader's own run.

A record is a file of ``bench/records``. ``python bench/all.py --only NAME`` runs the page, and keeps the rows that the
page gives to :meth:`PageRecord.beside`. So the record and the reader's run are measured by the same cells:

    record = PageRecord("08")
    recorded, own = record.beside("rungs", "ms per event", {"one by one": 54.1})

If the run is unattended (see ``show.checks``), ``own`` is empty, and the chart shows the record alone. The sizes that a
page passes, as in ``PageRecord("08", events=600, rounds=3)``, go into the record and into its line.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..show.checks import attended
from .measure import scale

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "records"
ROWS = "SHAREDSTATE_LITE_ROWS"
"""The environment variable with the file to which the rows of this run go. It is set when a record is made."""
CALM = 0.1
"""A record is quiet if other programs used fewer cores than this."""
Series = dict[Any, Any]
"""A value for each name; or for each name a value for each x."""


SIZES = "sizes"
"""What the rows of a record are of that say how much was measured."""


class PageRecord:
    """The record of one page. As text, it says when it was made, how much it measured, and how busy others were.

    ``sizes`` are those of this run, such as the number of events.
    """

    def __init__(self, name: str, **sizes: int) -> None:
        path = FOLDER / f"{name}.json"
        self.about: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
        self._own: dict[tuple[Any, ...], dict[str, Any]] = {
            (SIZES, what): {"of": SIZES, "what": what, "value": value, "unit": ""} for what, value in sizes.items()
        }

    def __str__(self) -> str:
        if "date" not in self.about:
            return "There is no record yet: these are the figures of this run."
        trial = " A trial: only its counts hold." if self._load >= CALM else ""
        mine = f" In the charts, your run has {_scale()}." if attended() and self._other_scale else ""
        return f"{self._measured}, not when this page was built.{trial}{mine}"

    def markdown(self) -> str:
        """The same for a page of the documentation, with the command."""
        trial = " A trial: only its counts hold." if self._load >= CALM else ""
        return f"{self._measured}, with `{self.about['command']}`.{trial}"

    @property
    def _load(self) -> float:
        return float(max(self.about["other_cores"].values()))

    @property
    def _measured(self) -> str:
        day, cores = datetime.date.fromisoformat(self.about["date"]), self.about["machine"]["cores"]
        sizes = [f"SCALE={self.about['scale']}"] if "scale" in self.about else []
        sizes += [f"{value:,} {what}" for what, value in self.series(SIZES).items()]
        others = (
            f"{'; ' if sizes else ''}other programs used {self._load:.2f} {'cores' if self._load > 1 else 'of a core'}"
        )
        state = "a busy" if self._load >= CALM else "an idle"
        where = f"on {state} machine with {cores} core{'s' * (cores > 1)}"
        return f"Measured on {day.day} {day:%B %Y} {where} ({', '.join(sizes)}{others})"

    @property
    def _other_scale(self) -> bool:
        return "scale" in self.about and self.about["scale"] != _scale().partition("=")[2]

    def series(self, of: str) -> Series:
        """Return the recorded values of one measurement, as they were given to :meth:`beside`."""
        found: Series = {}
        for row in self.about["rows"]:
            if row.get("of") == of and "at" in row:
                found.setdefault(row["what"], {})[row["at"]] = row["value"]
            elif row.get("of") == of:
                found[row["what"]] = row["value"]
        return found

    def beside(self, of: str, unit: str, own: Mapping[Any, Any]) -> tuple[Series, Series]:
        """Return the recorded values of a measurement, and this run's own if a reader attends it.

        Raises KeyError if the record has no value for a name of ``own``: the page has changed, so make its record anew.
        As long as there is no record, this run's values stand for it.
        """
        for what, values in own.items():
            points = values.items() if isinstance(values, Mapping) else [(None, values)]
            for at, value in points:
                row = {"of": of, "what": str(what), "value": round(float(value), 4), "unit": unit}
                self._own[of, what, at] = row if at is None else row | {"at": at}
        if file := os.environ.get(ROWS):
            Path(file).write_text(json.dumps([*self._own.values()], default=float), "utf-8")
        if file or "date" not in self.about:
            return dict(own), {}
        kept = self.series(of)
        return {what: kept[str(what)] for what in own}, dict(own) if attended() else {}

    def table(self, of: str, own: pd.DataFrame) -> pd.DataFrame:
        """Return a table of numbers as it was recorded, and this run's columns beside it if a reader attends it.

        ``own`` is the table of this run. The names of its columns are the units. A column that is the same stands once.
        """
        columns: dict[str, Series] = {}
        for unit in map(str, own):
            columns[unit], mine = self.beside(f"{of}, {unit}", unit, own[unit].to_dict())
            name = f"your run, {_scale()}" if self._other_scale else "your run"
            columns |= {f"{unit} ({name})": mine} if mine and mine != columns[unit] else {}
        whole = {unit: int for unit, each in columns.items() if all(float(n).is_integer() for n in each.values())}
        return pd.DataFrame(columns, index=own.index).astype(whole)


def _scale() -> str:
    return f"SCALE={scale('small', 'full')}"


__all__ = ["PageRecord"]
