"""The submission's processes, from the build until the end of the run.

`build` makes the copy that runs, `python` finds the Python that it uses, `logs` stores the output of processes,
`supervisor` starts, watches, kills and restarts them, `gateway` is a program that routes requests to services,
`elsewhere` replaces the supervisor for a system at --url, `listening` waits until addresses accept connections,
`sampler` records who uses the CPU, and `bounds` stops a run whose services use too much memory or disk.

The names below are loaded when they are first used, because `logs` and `bounds` do not need numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import Built, prepare
    from .elsewhere import Elsewhere, commands, left_out
    from .listening import closed
    from .logs import Logs
    from .sampler import Sampler
    from .supervisor import Supervisor

__all__ = ["Built", "Elsewhere", "Logs", "Sampler", "Supervisor", "closed", "commands", "left_out", "prepare"]
_MODULES = {
    "Built": "build",
    "prepare": "build",
    "Elsewhere": "elsewhere",
    "commands": "elsewhere",
    "left_out": "elsewhere",
    "closed": "listening",
    "Logs": "logs",
    "Sampler": "sampler",
    "Supervisor": "supervisor",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
