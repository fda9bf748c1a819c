"""A peer's environment: a virtual environment in the caches folder, from a lock of the peer's own.

It is built with the Python that runs this, and holds exactly what the lock names, by hash. A stamp is written last;
what has none is built anew. Where an environment cannot be made, measurements run without the peer and say why.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import child
from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import cache_dir

PYTHONS = ((3, 11), (3, 14))
"""The first and the last Python that the locks have wheels for."""


@dataclass(frozen=True)
class Environment:
    """One peer's, by its name and its lock."""

    peer: str
    """As a sentence names it."""
    command: str
    """What makes the environment."""
    lock: Path
    size: str
    """About how much it takes on disk."""

    @property
    def folder(self) -> Path:
        """Where it is, or would be."""
        return cache_dir() / f"{self.peer.lower()}-venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def expected(self) -> str:
        """What a complete environment is stamped with: the lock and the Python that went in."""
        return f"{hashlib.sha256(self.lock.read_bytes()).hexdigest()} {sys.version_info[0]}.{sys.version_info[1]}\n"

    def missing(self) -> str | None:
        """Why there is no environment to run in, with the way out; None where there is one."""
        stamp = self.folder / "complete"
        if not stamp.is_file():
            return f"{self.command} makes its environment"
        if stamp.read_text() != self.expected():
            return f"its environment is of another lock or Python; {self.command} makes it anew"
        ran = subprocess.run([self.python, "-c", ""], capture_output=True, stdin=subprocess.DEVNULL)
        return f"its environment does not start; {self.command} makes it anew" if ran.returncode else None

    def make(self, tell: Callable[[str], None]) -> None:
        """Make it. Raises Error, with pip's last words, where that fails; leaves no stamp then."""
        if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
            first, last = (".".join(map(str, p)) for p in PYTHONS)
            now = sys.version.split()[0]
            raise Error(f"{self.peer}'s environment is locked for Python {first} to {last}, and this is {now}")
        tell(f"making {self.peer}'s environment in {self.folder} ({self.size}, once)")
        stamp = self.folder / "complete"
        stamp.unlink(missing_ok=True)
        log = cache_dir("logs") / f"{self.folder.name}.log"
        try:
            venv.create(self.folder, with_pip=True, clear=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Error(
                f"{self.peer}'s environment: {self.folder} cannot be made: {error}; is venv installed?"
            ) from None
        pip = ["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        locked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(self.lock)]
        try:
            child.run([self.python, *pip, *locked], log, lambda line: None)
        except child.Failed as failure:
            words = [line for line in str(failure).splitlines() if line.strip()]
            raise Error(
                f"{self.peer}'s environment: pip could not fill it: {words[-1]}; all its words are in {log}"
            ) from None
        stamp.write_text(self.expected())

    def command_line(self, about: str | None) -> int:
        """Check or make, as the command's arguments say; the exit status."""
        parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--check", action="store_true")
        chosen = parser.parse_args()
        try:
            why = self.missing()
            if why and not chosen.check:
                self.make(lambda words: print(words, flush=True))
                why = self.missing()
        except Error as error:
            why = str(error)
        print(f"{self.peer}: absent: {why}" if why else f"{self.peer}: {self.python}")
        return 1 if why else 0
