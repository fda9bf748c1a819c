"""Judge submissions in several processes, each in a process of its own.

A process judges in its main thread, because bubblewrap ends with the thread that started it. It reads a task and writes
what it has found, both as JSON. When the parent ends, even by SIGKILL, the kernel sends SIGTERM to the processes, and
they kill the students' processes before they end.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..folders import discard

if TYPE_CHECKING:
    from .work import Task

_ROOT = str(Path(__file__).resolve().parents[2])
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from grader.classroom.pool import serve; serve()"
_PR_SET_PDEATHSIG = 1
_PATIENCE = 60.0
"""Seconds that a process may take to kill the student's processes and to end."""
_JUDGES = {"lab": "one", "checkout": "checkout", "break": "breaking", "explore": "exploring"}
"""The module of each kind of work with the function ``judge(task, place) -> Found``."""


def run(tasks: Iterable[Task], jobs: int) -> Generator[tuple[Task, Any, float], None, None]:
    """Run tasks in ``jobs`` processes. Yield each with what was found and the seconds it took, as soon as it ends.

    What was found is {"found": a result, "sources": {name: text}}; None if the process has been killed. The caller
    closes the iterator, which ends all processes.
    """
    waiting = deque(tasks)
    busy: dict[int, tuple[subprocess.Popen[bytes], Task, float]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                one = waiting.popleft()
                process = _start(one)
                assert process.stdout is not None
                busy[process.stdout.fileno()] = process, one, time.monotonic()
            for number in select.select(list(busy), [], [])[0]:
                process, one, began = busy[number]
                said, _ = process.communicate()
                del busy[number]
                yield one, json.loads(said) if process.returncode == 0 else None, time.monotonic() - began
    finally:
        for process, *_ in busy.values():
            process.terminate()
        for process, *_ in busy.values():
            try:
                process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _start(task: Task) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-P", "-s", "-B", "-c", _CODE, _ROOT, str(os.getpid())]
    env = {**os.environ, "PYTHONHASHSEED": "0"}  # so that the order of a check's cases does not depend on a set
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(task).encode())
        given.seek(0)
        return subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE, env=env, cwd="/", start_new_session=True)


def serve() -> None:
    """Run the task on standard input, in the module for its kind of work."""
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(sys.argv[2]):
        sys.exit(1)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for what a check prints
    task = json.load(sys.stdin)
    place = Path(task["scratch"], uuid.uuid4().hex)  # other submissions cannot guess it
    judge: Callable[[Task, Path], Any] = import_module(f".{_JUDGES[task['kind']]}", __package__).judge
    try:
        place.mkdir()
        found = judge(task, place)
    except FileNotFoundError:
        if place.parent.exists():
            raise
        sys.exit(1)  # the class was interrupted while this process was being started, and has removed the folder
    folder = place / "submission"  # a lab's solution, as it was judged
    graded = found["status"] == "graded" and folder.is_dir()
    sources = {path.name: path.read_text("utf-8") for path in folder.iterdir()} if graded else {}
    discard(place)
    with answer:
        json.dump({"found": found, "sources": sources}, answer)


def _leave(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
