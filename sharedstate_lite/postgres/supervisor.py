"""Supervises one PostgreSQL server: starts it, stops it when its owner exits, and deletes its files. Run as a script.

The supervisor reads its job, one line of JSON, from standard input. When standard input is closed, it stops. The pipe
is closed when the owner exits, even if the owner is killed. On Linux, the supervisor also watches the owner's process,
because a forked copy of the owner would keep the pipe open. The supervisor writes one line to standard output: the port
and the password, or the reason why the server did not start.

If the supervisor itself is killed, Linux stops the server (PR_SET_PDEATHSIG), and the next supervisor deletes the
folder. It can do so because each folder in use is locked, and the kernel releases a lock when its process exits. On
other systems, the server stops when its folder is deleted.

The supervisor uses only the standard library, so it starts in 20 ms and needs little memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PREFIX = "sharedstate-postgres-"
LOCK = ".held"
START_SECONDS, FAST_SECONDS, QUIT_SECONDS = 60, 60, 10
"""Time limits for starting a server, for an orderly shutdown, and for an immediate exit."""
PORT_TRIES = 5
PR_SET_PDEATHSIG = 1
"""The constant from Linux's sys/prctl.h."""


class Stopped(Exception):
    """Raised when the owner has exited or has requested a stop."""


class StartError(Exception):
    """Raised when the server did not start. The message is the reason."""


class OwnerWatch:
    """Detects that the owner has exited: standard input is closed or, on Linux, the owner's process has ended."""

    def __init__(self, pid: int) -> None:
        self._watched = [0]
        if os.getppid() != pid:
            raise Stopped
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # not permitted in some containers, where only the pipe is watched
                self._watched.append(os.pidfd_open(pid))

    def wait(self, seconds: float, *others: int) -> None:
        """Wait for ``seconds``, or until one of the descriptors ``others`` is readable.

        Raises Stopped as soon as the owner has exited.
        """
        readable, _, _ = select.select([*self._watched, *others], [], [], seconds)
        if any(descriptor in readable for descriptor in self._watched):
            raise Stopped


class Supervisor:
    """Starts, watches and stops the server of one job. The folder ``scratch`` is deleted when this process exits."""

    def __init__(self, job: dict[str, Any], owner: OwnerWatch, scratch: Path, log: int) -> None:
        self.job, self.owner, self.scratch, self.log = job, owner, scratch, log
        self.user: dict[str, Any] = {}
        if job["user"]:
            self.user = {"user": job["user"][0], "group": job["user"][1], "extra_groups": []}
        self.base = Path(job["folder"]) if job["folder"] else scratch
        self.bin = self._programs()

    def serve(self) -> None:
        """Create the data if there is none, start the server, and report it. Stop the server when the owner exits."""
        with contextlib.ExitStack() as held:
            password = self._prepare(held)
            for attempt in range(1, PORT_TRIES + 1):
                port = self.job["port"] or free_port()
                server = self._start(port)
                try:
                    if self._ready(server):
                        report(port=port, password=password, pid=server.pid)
                        self._until_end(server)
                        return
                finally:
                    self._stop(server)
                if self.job["port"] or attempt == PORT_TRIES or not self._port_taken():
                    raise StartError(f"it exited immediately with code {server.returncode}")

    def _programs(self) -> Path:
        """Return the folder of the programs, or that of a copy if the server's user cannot enter the original."""
        programs = Path(self.job["bin"])
        if not self.job["copy"]:
            return programs
        # The programs find the libraries next to their package through a relative path.
        install, target = programs.parent, self.scratch / "programs"
        shutil.copytree(install, target / install.parent.name / install.name, symlinks=True)
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, target / libraries.name, symlinks=True)
        for folder, _, files in os.walk(target):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                if not os.path.islink(path):
                    os.chmod(path, 0o755)
        return target / install.parent.name / install.name / programs.name

    def _prepare(self, held: contextlib.ExitStack) -> str:
        """Lock the folder, create the data in it if there is none, and return the password."""
        secret = self.base / "password"
        if self.base != self.scratch:
            if not self.base.exists():
                self.base.mkdir(parents=True)
                # The data inside belongs to another user, who must be able to enter the folder.
                self.base.chmod(0o711 if self.user else 0o700)
            others = [path.name for path in self.base.iterdir() if path.name not in (LOCK, "log", "data.new")]
            ours = (self.base / "data").is_dir()
            if others and not ours:
                raise StartError(f"{self.base} contains other files, such as {sorted(others)[0]}")
            lock = held.enter_context((self.base / LOCK).open("a"))
            if not locked(lock.fileno()):
                raise StartError(f"{self.base} is in use by another server")
            if ours:
                if not secret.is_file():
                    raise StartError(f"{secret}: the password file is missing")
                return secret.read_text()
        password = secrets.token_urlsafe(24)
        self._initialise(password)
        if self.base != self.scratch:
            secret.write_text(password)
        (self.base / "data.new").rename(self.base / "data")
        return password

    def _initialise(self, password: str) -> None:
        """Run initdb to create the data in the folder ``data.new``."""
        new, given = self.base / "data.new", self.scratch / "first"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        given.write_text(password)
        if self.user:
            os.chown(new, self.user["user"], self.user["group"])
            os.chown(given, self.user["user"], self.user["group"])
        options = ["-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        options += ["--auth=scram-sha-256", f"--pwfile={given}"]  # require a password for every connection
        initdb = self._run(["initdb", "-D", str(new), *options], signal.SIGKILL)
        try:
            self._await(initdb, lambda: initdb.poll() is not None, "initdb")
        finally:
            initdb.kill()
            initdb.wait()
            given.unlink()
        if initdb.returncode:
            raise StartError(f"initdb exited with code {initdb.returncode}")

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        settings = [part for name, value in self.job["settings"].items() for part in ("-c", f"{name}={value}")]
        address = ["-h", "127.0.0.1", "-p", str(port), "-k", ""]
        return self._run(["postgres", "-D", str(self.base / "data"), *address, *settings], signal.SIGQUIT)

    def _run(self, command: list[str], at_our_end: signal.Signals) -> subprocess.Popen[bytes]:
        """Start a program as the server's user, without the PG variables, which would change its behaviour.

        ``at_our_end`` is the signal that the program receives when this process dies, on Linux only.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            cwd="/",
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            preexec_fn=die_with_us(at_our_end),
            **self.user,
        )

    def _await(self, process: subprocess.Popen[bytes], there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not there():
            self.owner.wait(0.01)
            if time.monotonic() > deadline:
                raise StartError(f"{what} did not finish within {START_SECONDS} s")

    def _ready(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server accepts connections, and return True. Return False if it exits instead."""
        self._await(server, lambda: server.poll() is not None or self._status(server.pid) == "ready", "its start")
        return server.returncode is None

    def _status(self, pid: int) -> str:
        """Return the status in the server's pid file, or "" if the file is missing or belongs to an earlier server."""
        try:
            lines = (self.base / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        return lines[7].strip() if len(lines) > 7 and lines[0] == str(pid) else ""

    def _until_end(self, server: subprocess.Popen[bytes]) -> None:
        """Wait until the server exits. Raises Stopped when the owner exits first."""
        watched = []
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                watched.append(os.pidfd_open(server.pid))
        while server.poll() is None:
            self.owner.wait(60 if watched else 0.5, *watched)

    def _stop(self, server: subprocess.Popen[bytes]) -> None:
        """Stop the server, with an orderly shutdown if its data is kept, and immediately if the data is deleted."""
        stays = self.base != self.scratch
        for number, seconds in [(signal.SIGINT, FAST_SECONDS)][:stays] + [(signal.SIGQUIT, QUIT_SECONDS)]:
            if server.poll() is None:
                server.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(seconds)
        server.kill()
        server.wait()

    def _port_taken(self) -> bool:
        return b"Address already in use" in Path(self.job["log"]).read_bytes()[-4000:]


def die_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """Return a function that a child process calls before exec to receive this signal when the supervisor dies.

    Returns None on systems other than Linux, which do not support this.
    """
    if not sys.platform.startswith("linux"):
        return None
    system, supervisor = ctypes.CDLL(None), os.getpid()

    def tie() -> None:
        system.prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != supervisor:
            os._exit(1)

    return tie


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def locked(file: int) -> bool:
    """Lock an open file, and return True. Return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def scratch(entered: bool) -> Iterator[Path]:
    """Create a temporary folder for a ``with`` block, after deleting the folders that killed supervisors have left.

    If ``entered``, other users can enter the folder but not list it. The folder is deleted when the block ends.
    """
    parent = Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (leftover / LOCK).open("a") as file:
            if leftover.stat().st_uid == os.geteuid() and locked(file.fileno()):
                shutil.rmtree(leftover, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    with (path / LOCK).open("a") as file:
        locked(file.fileno())
        if entered:
            path.chmod(0o711)
        # Rename the folder only after it is locked, because other supervisors delete unlocked folders with this prefix.
        path = path.rename(path.with_name(path.name[1:]))
        try:
            yield path
        finally:
            remove(path)


def remove(path: Path) -> None:
    """Delete a folder. Retry for a while, because processes of a killed server may still be writing to it."""
    deadline = time.monotonic() + QUIT_SECONDS
    while path.exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)


def report(**fields: object) -> None:
    """Send the fields to the owner as one line of JSON. Raises Stopped if the owner has exited."""
    try:
        os.write(1, json.dumps(fields).encode() + b"\n")
    except BrokenPipeError:
        raise Stopped from None


def first_line() -> bytes:
    """Return the first line of standard input. Raises Stopped if standard input is closed first."""
    out = b""
    while not out.endswith(b"\n"):
        read = os.read(0, 65536)
        if not read:
            raise Stopped
        out += read
    return out


def stop(number: int, frame: object) -> None:
    """Handle SIGTERM as a request to stop."""
    raise Stopped


def main() -> None:
    """Read a job from standard input, and run the server until it or its owner stops."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    os.umask(0o077)
    with contextlib.suppress(Stopped):
        job = json.loads(first_line())
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        try:
            owner = OwnerWatch(job["owner"])
            with scratch(entered=bool(job["user"])) as folder:
                Supervisor(job, owner, folder, log).serve()
        except Stopped:
            # The log is needed only after a failure.
            os.unlink(job["log"])
        except StartError as error:
            report(error=str(error))
        except OSError as error:
            report(error=f"{error.filename or tempfile.gettempdir()}: {error.strerror or error}")


if __name__ == "__main__":
    main()
