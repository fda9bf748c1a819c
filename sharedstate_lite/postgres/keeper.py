"""Keeps one PostgreSQL server: makes it, watches its owner, ends it, and clears away. Run as a program, by its path.

Standard input carries one line of JSON, the job, and then nothing: its end is the order
to stop. However the owner ends, killed included, the pipe ends; on Linux the owner's
process is watched too, since a copy of it (a fork) holds the pipe as well. Standard
output carries one line: the port and the password, or why there is no server.

Should the keeper itself be killed, Linux ends the server with it (PR_SET_PDEATHSIG);
elsewhere the server notices when the next keeper takes its data away. Folders are
held by a lock, which the system lets go of however a keeper ends: what nobody holds,
the next one clears away.

Imports the standard library only: it starts in some 20 ms and holds next to no memory.
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
HELD = ".held"
START_SECONDS, FAST_SECONDS, QUIT_SECONDS = 60, 60, 10
"""How long a server may take to start, to end with its data in order, and to end at all, before the next harder way."""
PORT_TRIES = 5
DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG in Linux's sys/prctl.h."""


class Ended(Exception):
    """The owner is gone, or wants no more of the server."""


class Failed(Exception):
    """There is no server; the message says why."""


class Owner:
    """Who the server is for."""

    def __init__(self, pid: int) -> None:
        self._signs = [0]
        if os.getppid() != pid:
            raise Ended
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # refused by some containers; then the pipe alone tells
                self._signs.append(os.pidfd_open(pid))

    def wait(self, seconds: float, *others: int) -> None:
        """Wait that long, or until one of the other descriptors can be read. Raises Ended."""
        readable, _, _ = select.select([*self._signs, *others], [], [], seconds)
        if any(sign in readable for sign in self._signs):
            raise Ended


class Keeper:
    """One job: what is asked for, and the folder that goes with this process."""

    def __init__(self, job: dict[str, Any], owner: Owner, scratch: Path, log: int) -> None:
        self.job, self.owner, self.scratch, self.log = job, owner, scratch, log
        self.user: dict[str, Any] = {}
        if job["user"]:
            self.user = {"user": job["user"][0], "group": job["user"][1], "extra_groups": []}
        self.base = Path(job["folder"]) if job["folder"] else scratch
        self.bin = self._programs()

    def serve(self) -> None:
        """Make the data where there are none, start the server, say so, wait for the end, end it."""
        with contextlib.ExitStack() as held:
            password = self._prepare(held)
            for attempt in range(1, PORT_TRIES + 1):
                port = self.job["port"] or free_port()
                server = self._start(port)
                memory = None
                try:
                    if self._ready(server):
                        memory = self._memory()
                        tell(port=port, password=password, pid=server.pid)
                        self._until_end(server)
                        return
                finally:
                    self._end(server, memory)
                if self.job["port"] or attempt == PORT_TRIES or not self._port_taken():
                    raise Failed(f"it ended at once, with exit code {server.returncode}")

    def _programs(self) -> Path:
        """The programs; a copy where the server's user may not enter the folder that they are in."""
        programs = Path(self.job["bin"])
        if not self.job["copy"]:
            return programs
        # Beside the package lie the libraries that its programs are linked to, by a relative path.
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
        """Hold the folder, make what is missing in it, and return the password."""
        secret = self.base / "password"
        if self.base != self.scratch:
            if not self.base.exists():
                self.base.mkdir(parents=True)
                # Its data are another user's, who has to come by.
                self.base.chmod(0o711 if self.user else 0o700)
            others = [path.name for path in self.base.iterdir() if path.name not in (HELD, "log", "data.new")]
            ours = (self.base / "data").is_dir()
            if others and not ours:
                raise Failed(f"{self.base} holds other things, such as {sorted(others)[0]}")
            lock = held.enter_context((self.base / HELD).open("a"))
            if not locked(lock.fileno()):
                raise Failed(f"{self.base} is held by another server")
            if ours:
                if not secret.is_file():
                    raise Failed(f"{secret}: the folder's password of its own is missing")
                return secret.read_text()
        password = secrets.token_urlsafe(24)
        self._initialise(password)
        if self.base != self.scratch:
            secret.write_text(password)
        (self.base / "data.new").rename(self.base / "data")
        return password

    def _initialise(self, password: str) -> None:
        """Run initdb into a folder that gets its name when it is whole."""
        new, told = self.base / "data.new", self.scratch / "first"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        told.write_text(password)
        if self.user:
            os.chown(new, self.user["user"], self.user["group"])
            os.chown(told, self.user["user"], self.user["group"])
        options = ["-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        # A password for everybody, and no way in but through it.
        options += ["--auth=scram-sha-256", f"--pwfile={told}"]
        initdb = self._run(["initdb", "-D", str(new), *options], signal.SIGKILL)
        try:
            self._await(initdb, lambda: initdb.poll() is not None, "initdb")
        finally:
            initdb.kill()
            initdb.wait()
            told.unlink()
        if initdb.returncode:
            raise Failed(f"initdb ended with exit code {initdb.returncode}")

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        settings = [part for name, value in self.job["settings"].items() for part in ("-c", f"{name}={value}")]
        address = ["-h", "127.0.0.1", "-p", str(port), "-k", ""]
        return self._run(["postgres", "-D", str(self.base / "data"), *address, *settings], signal.SIGQUIT)

    def _run(self, command: list[str], at_our_end: signal.Signals) -> subprocess.Popen[bytes]:
        """A program as the server's user, with none of the variables that bend PostgreSQL's."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return subprocess.Popen(
            [str(self.bin / command[0]), *command[1:]],
            cwd="/",
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            preexec_fn=tied(at_our_end),
            **self.user,
        )

    def _await(self, process: subprocess.Popen[bytes], there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not there():
            self.owner.wait(0.01)
            if time.monotonic() > deadline:
                raise Failed(f"{what} did not finish within {START_SECONDS} s")

    def _ready(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server says that it takes connections; False where it ended instead."""
        self._await(server, lambda: server.poll() is not None or self._status(server.pid) == "ready", "its start")
        return server.returncode is None

    def _status(self, pid: int) -> str:
        """What the server says of itself in its pid file; nothing where the file is an earlier one's."""
        lines = self._pid_file()
        return lines[7] if len(lines) > 7 and lines[0] == str(pid) else ""

    def _pid_file(self) -> list[str]:
        try:
            return [line.strip() for line in (self.base / "data" / "postmaster.pid").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _memory(self) -> int | None:
        """The id of the piece of System V memory by which a server marks its data as in use."""
        lines = self._pid_file()
        return int(lines[6].split()[1]) if len(lines) > 6 and len(lines[6].split()) == 2 else None

    def _until_end(self, server: subprocess.Popen[bytes]) -> None:
        """Wait until the owner or the server ends."""
        signs = []
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                signs.append(os.pidfd_open(server.pid))
        while server.poll() is None:
            self.owner.wait(60 if signs else 0.5, *signs)

    def _end(self, server: subprocess.Popen[bytes], memory: int | None) -> None:
        """End the server: with its data in order where they stay, at once where they go."""
        stays = self.base != self.scratch
        for number, seconds in [(signal.SIGINT, FAST_SECONDS)][:stays] + [(signal.SIGQUIT, QUIT_SECONDS)]:
            if server.poll() is None:
                server.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(seconds)
        server.kill()
        server.wait()
        if server.returncode < 0 and memory is not None:
            # A server that was killed leaves it behind, and some systems have few of them.
            ctypes.CDLL(None).shmctl(memory, 0, None)

    def _port_taken(self) -> bool:
        return b"Address already in use" in Path(self.job["log"]).read_bytes()[-4000:]


def tied(number: signal.Signals) -> Callable[[], None] | None:
    """What a child does before it becomes a program, so that it gets this signal when the keeper dies; Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    system, keeper = ctypes.CDLL(None), os.getpid()

    def tie() -> None:
        system.prctl(DEATH_SIGNAL, int(number))
        if os.getppid() != keeper:
            os._exit(1)

    return tie


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def locked(file: int) -> bool:
    """Take the lock of an open file; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def scratch(entered: bool) -> Iterator[Path]:
    """A new folder that goes at the end, and before it those that killed keepers left.

    ``entered``: others than its owner may enter it, though not list it.
    """
    parent = Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (leftover / HELD).open("a") as file:
            if leftover.stat().st_uid == os.geteuid() and locked(file.fileno()):
                shutil.rmtree(leftover, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    with (path / HELD).open("a") as file:
        locked(file.fileno())
        if entered:
            path.chmod(0o711)
        # Only now does it get a name that others clear away.
        path = path.rename(path.with_name(path.name[1:]))
        try:
            yield path
        finally:
            remove(path)


def remove(path: Path) -> None:
    """Remove a folder that a server which was killed may still be writing to for a moment."""
    deadline = time.monotonic() + QUIT_SECONDS
    while path.exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)


def tell(**what: object) -> None:
    """Say one thing to the owner."""
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except BrokenPipeError:
        raise Ended from None


def first_line() -> bytes:
    """Standard input up to its first line's end, and not a byte further."""
    out = b""
    while not out.endswith(b"\n"):
        read = os.read(0, 65536)
        if not read:
            raise Ended
        out += read
    return out


def stop(number: int, frame: object) -> None:
    """Take a signal for the order to stop."""
    raise Ended


def main() -> None:
    """Do the job that comes on standard input."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    os.umask(0o077)
    with contextlib.suppress(Ended):
        job = json.loads(first_line())
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        try:
            owner = Owner(job["owner"])
            with scratch(entered=bool(job["user"])) as folder:
                Keeper(job, owner, folder, log).serve()
        except Ended:
            # All went as it should; what is read of a log is why not.
            os.unlink(job["log"])
        except Failed as error:
            tell(error=str(error))
        except OSError as error:
            tell(error=f"{error.filename or tempfile.gettempdir()}: {error.strerror or error}")


if __name__ == "__main__":
    main()
