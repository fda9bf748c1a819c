"""What one course's records say together: medians over the rounds, who agrees, how each side is named."""

from __future__ import annotations

from collections.abc import Callable

from bench.measure import median
from bench.shopping.equal import differences
from bench.shopping.record import Record
from bench.shopping.sides import DUCKDB, OURS, PATHWAY, RUST, Gathered

REFERENCES = ("full", "shared", PATHWAY)
"""Who says what the changes of all keys are; the first of them that ran."""


class Told:
    """One course. ``wrong`` has, by side, where it differs from the reference, in words."""

    def __init__(self, gathered: Gathered, course: str) -> None:
        self.course, self.absent = course, gathered.absent
        self.stream, self.records = gathered.streams[course], gathered.records[course]
        self.ours = [side for side in OURS if side in self.records]
        self.wrong: dict[str, str] = {}
        for number in range(gathered.rounds):
            one = {side: runs[number] for side, runs in self.records.items() if len(runs) > number}
            reference = next((side for side in REFERENCES if side in one), None)
            if reference is not None:
                found = differences(one, reference)
                self.wrong = {
                    **{side: f"held against {reference}: {words}" for side, words in found.items()},
                    **self.wrong,
                }

    @property
    def fill(self) -> int:
        """Rows of the epochs that filled the shop."""
        return next(stretch.rows for stretch in self.stream.stretches if stretch.kind == "fill")

    @property
    def pathway(self) -> str:
        """Pathway's name with its version, or why it is absent."""
        runs = self.records.get(PATHWAY)
        if runs:
            return runs[0].version
        reason = (
            self.absent.get(PATHWAY, "no run") if runs is not None else "its connectors commit each relation by itself"
        )
        return f"{PATHWAY} (absent: {reason.splitlines()[-1]})"

    def over(self, side: str, value: Callable[[Record], float | None]) -> float | None:
        """The median of a number over a side's rounds; None where there is none."""
        return median([value(record) for record in self.records.get(side, ())])

    def equal(self, side: str) -> bool | None:
        """Whether a side and its peers agree in everything; None where the side has no answers."""
        return not {side, PATHWAY, DUCKDB, *RUST} & self.wrong.keys() if self.records.get(side) else None

    def what(self, side: str, rest: str) -> str:
        """The name of a side's row; a side that failed says so in it."""
        failed = f" (failed: {self.absent[side].splitlines()[-1]})" if side in self.absent else ""
        return f"{side}{failed}: {rest}"
