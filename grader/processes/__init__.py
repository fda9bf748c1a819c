"""The submission's processes, from build to end.

`build` makes the copy that runs, `logs` keeps what processes print, `supervisor` starts, watches, kills and
restarts them, all from the main thread, `sampler` notes who takes the CPU.
"""

from .build import prepare
from .logs import Logs
from .sampler import Sampler
from .supervisor import Supervisor

__all__ = ["Logs", "Sampler", "Supervisor", "prepare"]
