"""The phases of a run against a live system. They write the record but do not judge it.

`live` defines the state that all phases share, `settle` waits for a stable, clean pair of snapshots, and `goods` sets
up orders. Each phase that a session runs is a module with its name, and ``RUN`` maps the name to its function ``run``.
`powercut` is a separate run after the phases.
"""

from collections.abc import Callable
from importlib import import_module

from ..table import PHASES
from .live import Live

RUN: dict[str, Callable[[Live], None]] = {phase: import_module(f"{__name__}.{phase}").run for phase in PHASES}
"""The function that runs each phase, in the order of the table."""

__all__ = ["RUN", "Live"]
