"""The submission's processes, from build to end.

`build` makes the copy that runs, `logs` stores what processes print, `supervisor` starts, watches, kills and restarts
them, `elsewhere` replaces it for a system at --url, `listening` waits until the addresses accept connections, `sampler`
records who uses the CPU, `bounds` ends a run whose services use too much memory or disk.
"""

from .build import prepare
from .elsewhere import Elsewhere, commands, left_out
from .listening import closed
from .logs import Logs
from .sampler import Sampler
from .supervisor import Supervisor

__all__ = ["Elsewhere", "Logs", "Sampler", "Supervisor", "closed", "commands", "left_out", "prepare"]
