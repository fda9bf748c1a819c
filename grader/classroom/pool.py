"""Judge submissions in several processes.

Each process judges one submission at a time, in its main thread, because bubblewrap ends with the thread that started
it. A task and its result are lines of JSON. When the parent ends, even by SIGKILL, the kernel sends SIGTERM to the
processes, and they kill the students' processes before they end.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[2])
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from grader.classroom.pool import serve; serve()"
_PR_SET_PDEATHSIG = 1
_PATIENCE = 60.0
"""Seconds that a process may take to kill the student's processes and to end."""
Task = dict[str, Any]
"""What a process is given: the arguments of `one.one` as JSON values, and the id of the submission."""


class Pool:
    """A context manager that runs tasks in processes."""

    def __init__(self, scratch: Path) -> None:
        """``scratch``: a folder in which each process has a folder of its own."""
        self._scratch, self._started = scratch, 0
        self._idle: list[subprocess.Popen[bytes]] = []
        self._busy: dict[int, tuple[subprocess.Popen[bytes], Task, float]] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *why: object) -> None:
        processes = [*self._idle, *(process for process, *_ in self._busy.values())]
        for process in processes:
            process.terminate()
        for process in processes:
            _end(process)

    def run(self, tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, Any, float]]:
        """Run tasks in ``jobs`` processes. Yield each with what was found and the seconds it took, as soon as it ends.

        What was found is {"found": a result, "sources": {name: text}}; None if the process has been killed.
        """
        waiting = deque(tasks)
        while waiting or self._busy:
            while waiting and len(self._busy) < jobs:
                self._give(waiting.popleft())
            ready, _, _ = select.select(list(self._busy), [], [])
            for number in ready:
                process, task, began = self._busy.pop(number)
                assert process.stdout is not None
                line = process.stdout.readline()
                if line.endswith(b"\n"):
                    self._idle.append(process)
                    yield task, json.loads(line), time.monotonic() - began
                else:
                    _end(process)
                    yield task, None, time.monotonic() - began

    def _give(self, task: Task) -> None:
        process = self._idle.pop() if self._idle else self._start()
        assert process.stdin is not None and process.stdout is not None
        self._busy[process.stdout.fileno()] = process, task, time.monotonic()
        try:
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return  # the process has been killed; `run` finds that out

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        place = self._scratch / str(self._started)
        place.mkdir(mode=0o711)
        words = [sys.executable, "-P", "-s", "-B", "-c", _CODE, _ROOT, str(place), str(os.getpid())]
        env = {**os.environ, "PYTHONHASHSEED": "0"}  # so that the order of a check's cases does not depend on a set
        return subprocess.Popen(
            words, env=env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    try:
        process.stdin.close()
    except BrokenPipeError:
        return  # a task that it did not read


def serve() -> None:
    """Run tasks from standard input until it is closed."""
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(sys.argv[3]):
        sys.exit(0)
    from ..lab.bundle import read_bundle
    from ..sandbox import Tier
    from .one import one
    from .results import GRADED

    top, line = Path(sys.argv[2]), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for raw in sys.stdin.buffer:
        task = json.loads(raw)
        place = top / uuid.uuid4().hex  # other submissions cannot guess it
        place.mkdir(parents=True)
        files = [(name, Path(path)) for name, path in task["files"]]
        found = one(files, read_bundle(Path(task["bundle"])), task["key"], Tier(**task["tier"]), place)
        names = [name for name in os.listdir(place / "submission") if found["status"] == GRADED]
        sources = {name: (place / "submission" / name).read_text("utf-8") for name in names}
        shutil.rmtree(place, ignore_errors=True)
        line.write(json.dumps({"found": found, "sources": sources}).encode() + b"\n")
        line.flush()


def _leave(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def task(id: str, files: Iterable[tuple[str, Path]], bundle: Path, key: dict[str, str], tier: Any) -> Task:
    """Return the task to judge a submission."""
    named = [(name, str(path.absolute())) for name, path in files]  # the processes have another current folder
    return {"id": id, "files": named, "bundle": str(bundle), "key": key, "tier": asdict(tier)}
