"""The phases of a run against a live system. They write the record but do not judge it.

`live` defines the state that all phases share, `settle` waits for a stable, clean pair of snapshots, and `goods` sets
up orders. Each phase is a module, and ``RUN`` maps its name to its function. `powercut` is a separate run after the
phases.
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
"""The function that runs each phase, in the order of terms.PHASES."""

__all__ = ["RUN", "Live"]
