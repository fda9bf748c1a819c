"""The submission's processes, from the build until the end of the run.

`build` makes the copy that runs, `python` finds the Python that it uses, `logs` stores the output of processes,
`supervisor` starts, watches, kills and restarts them, `gateway` is a program that routes requests to services,
`elsewhere` replaces the supervisor for a system at --url, `listening` waits until addresses accept connections,
`sampler` records who uses the CPU, and `bounds` stops a run whose services use too much memory or disk.
"""

from .build import Built, prepare
from .elsewhere import Elsewhere, commands, left_out
from .listening import closed
from .logs import Logs
from .sampler import Sampler
from .supervisor import Supervisor

__all__ = ["Built", "Elsewhere", "Logs", "Sampler", "Supervisor", "closed", "commands", "left_out", "prepare"]
