"""The dated record of a page that measures, beside the reader's own run.

A record is a file of ``bench/records``. ``python bench/all.py --only NAME`` runs the page, and keeps the rows that the
page gives to :meth:`PageRecord.beside`. So the record and the reader's run are measured by the same cells:

    record = PageRecord("08")
    recorded, own = record.beside("rungs", "ms per event", {"one by one": 54.1})

If the run is unattended (see ``show.checks``), ``own`` is empty, and the chart shows the record alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..show.checks import attended

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "records"
ROWS = "SHAREDSTATE_LITE_ROWS"
"""The environment variable with the file to which the rows of this run go. It is set when a record is made."""
CALM = 0.1
"""A record is quiet if other programs used fewer cores than this."""
Series = dict[Any, Any]
"""A value for each name; or for each name a value for each x."""


class PageRecord:
    """The record of one page. As text, it says when and how it was made, and how busy the machine was."""

    def __init__(self, name: str) -> None:
        path = FOLDER / f"{name}.json"
        self.about: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
        self._own: dict[tuple[Any, ...], dict[str, Any]] = {}

    def __str__(self) -> str:
        if "date" not in self.about:
            return "There is no record yet: these are the figures of this run."
        load, cores = self.about["other_cores"], self.about["machine"]["cores"]
        words = f"Recorded on {self.about['date']} with `{self.about['command']}`, on {cores} cores. "
        words += f"Other programs used {load['before']:.2f} cores before and {load['after']:.2f} after."
        return words + (" A trial run: only its counts hold." if max(load.values()) >= CALM else "")

    def series(self, of: str) -> Series:
        """Return the recorded values of one measurement, as they were given to :meth:`beside`."""
        found: Series = {}
        for row in self.about["rows"]:
            if row["of"] == of and "at" in row:
                found.setdefault(row["what"], {})[row["at"]] = row["value"]
            elif row["of"] == of:
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
            columns |= {f"{unit} (your run)": mine} if mine and mine != columns[unit] else {}
        whole = {unit: int for unit, each in columns.items() if all(float(n).is_integer() for n in each.values())}
        return pd.DataFrame(columns, index=own.index).astype(whole)


__all__ = ["PageRecord"]
