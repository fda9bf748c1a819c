"""Call a student's code in a sandboxed process, so that it cannot influence its grade.

    tier, sandbox = choose(scratch, folder)
    with Worker(sandbox, tier, folder, "solution", scratch) as worker:
        student = Student(worker)
        student.call("total", [1, 2, 3])                 # 6
        largest = student.new("Max")                     # an object in the student's process
        largest.step([(("Fruit", 2), 1)])                # [['+I', ['Fruit', 2]]]

The student's code runs in a process in the sandbox. Questions are sent as JSON over a socket. Each has a random number
that the answer must repeat. `answers` defines answers and the comparison of values, `child` is the program in the
sandbox, `protocol` sends questions, `allowance` limits time, `process` is what all processes that run it share,
`client` runs one in a sandbox, and `objects` offers the student's classes as objects. If no value arrives, `Worker.run`
returns an Answer of another kind, and `Student` raises NoValueError with it. It never passes, and it does not stop the
grader.

The names that need Linux are loaded when they are first used, because `check` runs on every system.
"""

from typing import TYPE_CHECKING, Any

from .answers import Answer, same
from .objects import NoValueError, Runner, Student, Thing
from .protocol import RefusedError, awaited

if TYPE_CHECKING:
    from .client import Worker

__all__ = ["Answer", "NoValueError", "RefusedError", "Runner", "Student", "Thing", "Worker", "awaited", "same"]


def __getattr__(name: str) -> Any:
    if name == "Worker":
        from .client import Worker

        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
