"""Runs a process of labs/checkout/fast, and writes down when each epoch reaches each of its steps.

    python bench/traced.py FILE SCRIPT ARGUMENTS...

A line of FILE is a step, the number of the epoch, and the time in nanoseconds of the clock time.monotonic_ns, which all
processes of a machine share. `STEPS` are in the order in which they happen.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ["gathered", "begun", "taken", "synced", "voted", "durable", "answered"]
"""The first order is there; the message leaves; a ledger has taken; its log is synced; both votes are there; the fate
is synced; the paid orders are answered. `taken` and `synced` are in both ledgers."""


def main(file: str, script: str) -> None:
    """Wrap the methods of the system that are the steps, and run the script."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.path.insert(0, str(Path(script).parent))
    coordinator, journal = importlib.import_module("coordinator"), importlib.import_module("journal")
    first: list[int] = []

    def note(step: str, number: int, at: int = 0) -> None:
        os.write(out, f"{step} {number} {at or time.monotonic_ns()}\n".encode())

    def around(cls: Any, call: Any) -> None:
        plain = getattr(cls, call.__name__)
        setattr(cls, call.__name__, lambda self, *values: call(plain, self, *values))

    def gather(plain: Callable[..., None], self: Any, order: str) -> None:
        if not self.gathered:
            first[:] = [time.monotonic_ns()]
        plain(self, order)

    def begin(plain: Callable[..., None], self: Any) -> None:
        orders, at = len(self.gathered), time.monotonic_ns()
        plain(self)
        if orders:
            note("gathered", self.epoch.number, first[0])
            note("begun", self.epoch.number, at)

    def voted(plain: Callable[..., None], self: Any, ledger: int, votes: str) -> None:
        epoch, at = self.epoch, time.monotonic_ns()
        plain(self, ledger, votes)
        if None not in epoch.votes:
            note("voted", epoch.number, at)

    def decided(plain: Callable[..., None], self: Any, fate: str, paid: list[str]) -> None:
        number = self.epoch.number
        note("durable", number)
        plain(self, fate, paid)
        note("answered", number)

    def write_line(plain: Callable[..., None], self: Any, line: bytes, then: Callable[[], None] | None = None) -> None:
        what, *values = json.loads(line)
        if what != "epoch" or then is None:
            plain(self, line, then)
            return
        call, number = then, values[1]
        note("taken", number)

        def synced() -> None:
            note("synced", number)
            call()

        plain(self, line, synced)

    for call in (gather, begin, voted, decided):
        around(coordinator.Coordinator, call)
    around(journal.Journal, write_line)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    del sys.argv[0]
    main(sys.argv.pop(0), sys.argv[0])
