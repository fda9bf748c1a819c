"""The phases of a run, against a live system. They write the record and decide no verdict.

`live` holds what every phase needs, `settle` waits for a stable, clean pair of snapshots, `goods` sets up orders. Each
phase has a module, and its function in ``RUN``. `powercut` is a separate run after the phases.
"""

from collections.abc import Callable

from . import contract, duplicates, faults, load, scarcity, speed
from .live import Live

RUN: dict[str, Callable[[Live], None]] = {
    "contract": contract.run,
    "duplicates": duplicates.run,
    "load": load.run,
    "scarcity": scarcity.run,
    "faults": faults.run,
    "speed": speed.run,
}
"""In the order of terms.PHASES."""

__all__ = ["RUN", "Live"]
