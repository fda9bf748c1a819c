"""A student's functions, called where they cannot decide what they are worth.

    tier, sandbox = choose(uuid.uuid4().hex, scratch, folder)
    with Worker(sandbox, tier, folder, "solution", scratch) as worker:
        answer = worker.call("total", [1, 2, 3])        # Answer("value", 6)
        answer.same(6)                                   # compared here, by exact types

Student code runs in a process of the sandbox. It is asked over a socket, in JSON, each question with a fresh number,
and answers with that number. `answers` says what an answer is and when two values are the same, `child` is the
program that runs inside, `client` asks. No answer is "crash" or "timeout": never a pass, and never the grader's end.
"""

from .answers import Answer, same
from .client import Worker

__all__ = ["Answer", "Worker", "same"]
