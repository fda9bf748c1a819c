"""Call a student's functions in a sandboxed process, so that they cannot influence their grade.

    tier, sandbox = choose(uuid.uuid4().hex, scratch, folder)
    with Worker(sandbox, tier, folder, "solution", scratch) as worker:
        answer = worker.call("total", [1, 2, 3])        # Answer("value", 6)
        answer.same(6)                                   # compared in this process; types must be equal

The student's code runs in a process in the sandbox. Questions are sent as JSON over a socket. Each has a fresh number
that the answer must repeat. `answers` defines answers and the comparison of values, `child` is the program in the
sandbox, and `client` sends the questions. If no answer arrives, `call` returns an Answer of the kind "crash" or
"timeout". It never passes, and it does not stop the grader.
"""

from .answers import Answer, same
from .client import Worker

__all__ = ["Answer", "Worker", "same"]
