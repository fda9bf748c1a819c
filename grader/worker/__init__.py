"""Call a student's functions in a sandboxed process, so that they cannot influence their grade.

    tier, sandbox = choose(uuid.uuid4().hex, scratch, folder)
    with Worker(sandbox, tier, folder, "solution", scratch) as worker:
        answer = worker.call("total", [1, 2, 3])        # Answer("value", 6)
        answer.same(6)                                   # compared here, by exact types

The student's code runs in a process of the sandbox. Questions are JSON over a socket, each with a fresh number that
the answer must repeat. `answers` defines answers and the comparison of values, `child` is the program in the sandbox,
`client` asks. A missing answer is "crash" or "timeout", which is never a pass and never ends the grader.
"""

from .answers import Answer, same
from .client import Worker

__all__ = ["Answer", "Worker", "same"]
