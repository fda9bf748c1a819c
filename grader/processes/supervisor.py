"""Starts the services of a run in order, watches them, kills them with all their children, and restarts them.

A restarted service keeps its port. Everything runs in the calling thread. Call ``tend`` a few times per second, because
it restarts processes that have exited.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from ..errors import SubmissionError
from ..sandbox import Command, Sandbox, Tree, keep, kill_trees
from ..submission import Process, Submission
from ..submission.places import Places
from ..terms import Limits, status_word
from ..wire.client import Generator
from ..wire.jobs import Job, Shape, Target
from .bounds import Bounds
from .logs import Logs
from .python import GATEWAY

_GLANCE = 0.05
"""Seconds between two checks of whether a service is ready. There is no event when it starts listening on a port."""
_AGAIN = 0.5
"""The shortest time in seconds from one start of a ready command to the next."""
_NO_PROGRAM, _FIRST_EXITS = 127, 3
"""The exit status for a missing program, as in a shell; and the number of exits after which a first start fails."""


@dataclass
class _Service:
    process: Process
    popen: subprocess.Popen[bytes] | None = None
    tree: Tree | None = None
    wanted: bool = False
    """Whether the service should be running. If it is not, it has exited by itself."""
    began: float = 0.0
    exits: int = 0
    seen_ready: bool = False
    ready_status: int | None = None
    """The last exit status of its ready command; None if the command has never ended by itself."""


class Supervisor:
    """Starts, watches and kills every process of the submission."""

    can_pause = True

    def __init__(
        self,
        submission: Submission,
        folder: Path,
        scratch: Path,
        sandbox: Sandbox,
        scout: Generator,
        limits: Limits,
        note: Callable[[str, str, str], None],
        data: Path | None = None,
    ) -> None:
        """``scout``: a generator that probes ports in the services' network.

        ``note(process, what, detail)``: a function that records an event. ``data``: the parent of the {data} folders;
        None: a folder in ``scratch``, whose size is limited.
        """
        self._sandbox, self._scout, self._limits, self._note = sandbox, scout, limits, note
        keep(scout.pid)
        self._folder, self._scratch, self._all_data = folder, scratch, data or scratch / "data"
        self._services = {process.name: _Service(process) for process in submission.processes}
        free = iter(scout.ports(len(self._services)))
        ports = {name: service.process.port or next(free) for name, service in self._services.items()}
        addresses = {name: service.process.address for name, service in self._services.items()}
        self.places = Places(ports, self._data, str(folder), addresses)
        self.logs = Logs()
        self.changed: list[Callable[[], None]] = []
        """Functions that are called when a service has been started or killed, or has exited."""
        self._used = self._lost = 0.0
        self._bounds = Bounds(self.pids, scratch, limits.memory, limits.disk, limits.files)

    @property
    def names(self) -> list[str]:
        """The names of the services, in the order in which they start."""
        return list(self._services)

    def _data(self, name: str) -> str:
        path = self._all_data / name
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def start_all(self) -> None:
        """Start all services in order, each one when the previous one is ready.

        Raises SubmissionError if a service does not become ready, or if another program or an earlier service uses its
        port.
        """
        for name, service in self._services.items():
            if service.process.port and self._scout.knock(self._target(name), 0.2):
                port = service.process.port
                raise SubmissionError(
                    f"{name}: another program on this machine uses port {port}; remove port from checkout.toml, and "
                    "write {port} in the command, so that the grader chooses a free one"
                )
        for name, service in self._services.items():
            if service.process.port and self._scout.knock(self._target(name), 0.2):
                raise SubmissionError(
                    f"{name}: an earlier process listens on {service.process.address}:{service.process.port}; let each "
                    "process listen on its {address} and {port}, not on 0.0.0.0, which is every address"
                )
            self.start(name)
            self.wait_ready(name)

    def _target(self, name: str) -> Target:
        return Target(self._services[name].process.address, self.places.ports[name])

    def start(self, name: str) -> None:
        """Start one service without waiting until it is ready. Raises SubmissionError if it cannot be started."""
        service = self._services[name]
        words: tuple[str, ...] = service.process.command
        if service.process.routes:
            routes = (f"{prefix}={url}" for prefix, url in service.process.routes)
            words = (sys.executable, "-I", "-S", str(GATEWAY), "{address}", "{port}", *routes)
        service.popen, service.tree = self._run(name, words, name, self.places)
        service.wanted, service.began = True, time.monotonic()
        self._tell()

    def _tell(self) -> None:
        for each in self.changed:
            each()

    def _run(self, name: str, words: tuple[str, ...], log: str, places: Places) -> tuple[subprocess.Popen[bytes], Tree]:
        """Start a command with the folders and the environment of a service. ``log``: the name of its log."""
        process, fill = self._services[name].process, places.fill
        home = self._scratch / "home" / name
        home.mkdir(parents=True, exist_ok=True)
        where = (self._folder / fill(process.cwd, name)).resolve()
        if not where.is_dir():
            raise SubmissionError(f"{name}: the cwd {process.cwd!r} is not a folder")
        output = self.logs.pipe(log)
        try:
            command = Command(
                name,
                tuple(fill(word, name) for word in words),
                where,
                output,
                {key: fill(value, name) for key, value in process.env.items()},
                home,
                (Path(self._data(name)),),
                places.open_ports(),
            )
            return self._sandbox.start(command)
        except OSError as error:
            raise SubmissionError(f"{name} cannot be started: {error.strerror}") from error
        finally:
            os.close(output)

    def wait_ready(self, name: str) -> None:
        """Wait until a service is ready, and restart it if it exits.

        Raises SubmissionError if it is not ready in time. A first start also fails as soon as the program is found to
        be missing or has exited three times, so that a student does not have to wait for a minute.
        """
        service = self._services[name]
        seconds = service.process.ready.timeout or self._limits.ready
        until, exits = time.monotonic() + seconds, 0
        while missing := self._missing(name, until):
            code = service.popen.poll() if service.popen is not None else None
            if code is not None and time.monotonic() - service.began >= self._limits.restart / 2:
                exits += 1
                self._note(name, "exited", str(code))
                if not service.seen_ready and (code == _NO_PROGRAM or exits == _FIRST_EXITS):
                    said = self.logs.tail(name)
                    raise SubmissionError(f"{name} exited with {code} before it was ready; it printed:\n{said}")
                self._end(service)
                self.start(name)
            self.tend_others(name)
            if time.monotonic() > until:
                raise SubmissionError(
                    f"{name} is not ready after {seconds:.0f} s: {missing}. If it only needs longer, set timeout_s "
                    f"(at most 600) in its ready in checkout.toml. It printed:\n{self.logs.tail(name)}"
                )
            time.sleep(_GLANCE)  # see _GLANCE
        service.seen_ready = True
        self._note(name, "ready", "")

    def _missing(self, name: str, until: float) -> str:
        """Return what a service still needs to be ready, or "" if it is ready now."""
        ready, fill = self._services[name].process.ready, self.places.direct.fill
        if ready.command:
            service = self._services[name]
            if (code := self._ran(name, ready.command, until)) is not None:
                service.ready_status = code
            else:  # the time was over: what the command answered before says more
                code = service.ready_status
            words = shlex.join(fill(word, name) for word in ready.command)
            said = f", and printed {last}" if (last := self.logs.tail(f"{name}.ready", 1)) else ""
            got = "did not end in time" if code is None else f"exited with {code}"
            return f"its ready command must exit with 0, but {words} {got}{said}" if code != 0 else ""
        if ready.http:
            url = fill(ready.http, name)
            status = self._asked(url)
            return "" if 200 <= status < 300 else f"{url} must answer 2xx ({status_word(status)})"
        if ready.tcp:
            port = int(fill(ready.tcp, name))
            target = Target(self._services[name].process.address, port)
            return "" if self._scout.knock(target) else f"{target.host}:{port} does not accept connections"
        return ""

    def _ran(self, name: str, words: tuple[str, ...], until: float) -> int | None:
        """Run the command that tells whether a service is ready. Returns its exit status, or None if it did not end."""
        began = time.monotonic()
        popen, tree = self._run(name, words, f"{name}.ready", self.places.direct)
        while (code := popen.poll()) is None and time.monotonic() < until:
            self.tend_others(name)
            time.sleep(_GLANCE)  # see _GLANCE
        tree.kill()
        popen.wait()
        while code and time.monotonic() < min(until, began + _AGAIN):
            self.tend_others(name)
            time.sleep(_GLANCE)  # see _GLANCE
        return code

    def _asked(self, url: str) -> int:
        parts = urlsplit(url)
        host = parts.netloc.encode()
        shape = Shape(0, b"GET ", b" HTTP/1.1\r\nHost: " + host + b"\r\nAccept: */*\r\nConnection: close\r\n\r\n")
        target = Target(parts.hostname or "127.0.0.1", parts.port or 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        none = np.zeros(1, dtype=np.int64)
        job = Job([target], [shape], none, [path.encode()], none, timeout=2_000_000_000)
        return int(self._scout.run(job).status[0])

    def ended(self) -> str:
        """Return which services exited by themselves, with the end of their output; "" if none did."""
        return "".join(
            f"\n{name} exited (exits: {service.exits}); it printed:\n{self.logs.tail(name)}"
            for name, service in self._services.items()
            if service.exits
        )

    def tend(self) -> None:
        """Restart services that have exited: the first time immediately, later at most once per second.

        Raises SubmissionError if the services use too much memory or disk space, or too many files.
        """
        self._bounds.tick()
        self.tend_others("")

    def pids(self) -> set[int]:
        """Return the live processes of all services, from a list that is at most half a second old."""
        return set().union(*(service.tree.pids(0.5) for service in self._services.values() if service.tree is not None))

    def tend_others(self, but: str) -> None:
        """Restart services that have exited, except ``but``, without checking the limits."""
        for name, service in self._services.items():
            if name != but and service.wanted and service.popen is not None and service.popen.poll() is not None:
                if service.exits and time.monotonic() - service.began < self._limits.restart:
                    continue
                service.exits += 1
                self._note(name, "exited", str(service.popen.returncode))
                self._end(service)
                self.start(name)
                self._note(name, "started", "it had exited by itself")

    def aim(self, name: str) -> set[int]:
        """Find the processes of a service now, so that its next kill or pause can begin without delay. Returns them."""
        tree = self._services[name].tree
        return tree.aim() if tree is not None else set()

    def freeze(self, names: list[str]) -> None:
        """Send SIGSTOP to the processes that the last `aim` found. A kill or a pause must follow."""
        for name in names:
            tree = self._services[name].tree
            if tree is not None:
                tree.strike(signal.SIGSTOP)

    def kill(self, name: str) -> None:
        """Kill a service and all its children."""
        service = self._services[name]
        service.wanted = False
        self.freeze([name])
        self._note(name, "kill", "")
        self._end(service)
        self.logs.note(name, "killed")

    def pause(self, name: str) -> None:
        """Pause a service and all its children, and wait until all of them are stopped.

        Raises SubmissionError if something resumes them.
        """
        tree = self._services[name].tree
        if tree is not None:
            self.freeze([name])
            self._note(name, "pause", "")
            if not tree.pause():
                raise SubmissionError(
                    f"a process of {name} cannot be paused, because something resumes it; remove that"
                )

    def resume(self, name: str) -> None:
        """Resume a paused service."""
        tree = self._services[name].tree
        if tree is not None:
            tree.signal(signal.SIGCONT)
            self._note(name, "resume", "")

    def restart(self, name: str) -> None:
        """Restart a killed service, without waiting until it is ready."""
        self.start(name)
        self._note(name, "started", "after the grader killed it")

    def _end(self, service: _Service) -> None:
        self.cpu()
        if service.tree is not None:
            service.tree.kill()
        if service.popen is not None:
            service.popen.wait()
        self.cpu()
        self._tell()

    def cpu(self) -> float:
        """Return the CPU seconds that all processes have used, including those that have ended. It never decreases."""
        ended = os.times()
        used = sum(service.tree.cpu() for service in self._services.values() if service.tree is not None)
        used += ended.children_user + ended.children_system
        # When the kernel ends the processes of a PID namespace, it adds their times to no parent.
        self._lost = max(self._lost, self._used - used)
        self._used = used + self._lost
        return self._used

    def close(self) -> None:
        """Stop all services. Idempotent. Raises SubmissionError if they cannot be stopped."""
        services = self._services.values()
        try:
            kill_trees({service.tree for service in services if service.tree is not None})
        finally:
            self.logs.close()
        for service in services:
            if service.popen is not None:
                service.popen.wait()
            service.wanted, service.popen, service.tree = False, None, None
