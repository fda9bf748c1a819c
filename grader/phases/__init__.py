"""What each phase does to a live system. Each writes the record; none decides a verdict.

`live` is what every phase has at hand, `settle` waits for a stable, clean pair of snapshots, then one module a
phase: {name: run} in ``RUN``. A phase that is not in ``RUN`` is reported as not tested, by name.
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
