"""The submission's processes, from build to end.

`build` makes the copy that runs, `logs` keeps what processes print, `supervisor` starts, watches, kills and
restarts them, all from the main thread, `elsewhere` stands in for it where somebody else runs the system, `listening`
waits until it answers at its ports, `sampler` notes who takes the CPU, `bounds` ends a run whose services take too
much memory or disk.
"""

from .build import prepare
from .elsewhere import Elsewhere, commands, left_out
from .listening import closed
from .logs import Logs
from .sampler import Sampler
from .supervisor import Supervisor

__all__ = ["Elsewhere", "Logs", "Sampler", "Supervisor", "closed", "commands", "left_out", "prepare"]
