"""Jars that PySpark does not include: they are downloaded once, during setup, and passed to each session.

    python -m sharedstate_lite.spark.session.jars     downloads missing jars

If Spark resolved a package itself, it would do so at each start of a session, and the session would not start if that
failed. So the packages are downloaded in advance, with their dependencies (:mod:`.ivy`). A session receives the paths
of the files that exist and are intact, in the setting ``spark.jars``. If a package cannot be downloaded, the reason is
stored until the next attempt, and sessions start without the package.

A user can set an environment variable to the path of their own jar, which then takes precedence. A downloaded file must
match its SHA-256 in this module or, if this module has none, the checksum in the repository. Before each use, it must
still match the digest that was recorded after the download. This module uses only the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import Error
from ...system.cache import cache_dir
from ...system.command import command
from . import home, ivy

AGAIN = "python -m sharedstate_lite.spark.session.jars"
ODD = frozenset("[]{}*?#,")
"""Characters that Spark does not take literally in the path of a jar, so that a session would not start."""


@dataclass(frozen=True)
class Package:
    """A package on Maven Central: its purpose, its coordinates, and the environment variable for the user's own jar.

    ``{spark}`` in ``artifact`` stands for the major version of PySpark, and ``{scala}`` for its version of Scala.
    """

    name: str
    purpose: str
    group: str
    artifact: str
    version: str
    variable: str
    instead: str = ""
    """If the repository does not have ``version``, the newest version that matches this pattern is used."""
    digests: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256, for files whose content is known in advance."""


PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        Package(
            name="postgresql",
            purpose="reading PostgreSQL with Spark",
            group="org.postgresql",
            artifact="postgresql",
            version="42.7.14",
            variable="SHAREDSTATE_LITE_POSTGRES_JAR",
            digests={"postgresql-42.7.14.jar": "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c"},
        ),
        Package(
            name="graphframes",
            purpose="the GraphFrames rung",
            group="io.graphframes",
            artifact="graphframes-spark{spark}_{scala}",
            version="0.12.3",
            instead="0.12.+",
            variable="SHAREDSTATE_LITE_GRAPHFRAMES_JAR",
        ),
    )
}
"""The packages that the kit can use, by name. GraphFrames must have the same version as its Python package."""


@dataclass(frozen=True)
class Found:
    """The result of looking for a package on this machine.

    ``paths`` are its jars. If it cannot be used, ``absent`` is the reason, and ``mend`` says what to do.
    """

    name: str
    version: str
    paths: tuple[Path, ...] = ()
    absent: str | None = None
    mend: str = ""


def find(name: str) -> Found:
    """Look for a package on this machine. This takes milliseconds. Raises Error if ``name`` is not in `PACKAGES`."""
    if name not in PACKAGES:
        raise Error(f"jar {name!r}: the kit downloads only {', '.join(PACKAGES)}; set spark.jars for other jars")
    package = PACKAGES[name]
    named = os.environ.get(package.variable)
    if named:
        return _own(package, named)
    mend = f"run {AGAIN}, or set {package.variable} to the path of the jar; only {package.purpose} needs it"
    try:
        wanted, folder = _coordinates(package), cache_dir("jars")
        if odd := sorted(ODD & set(str(folder))):
            raise Error(f"Spark cannot load a jar from {folder}: it treats {' '.join(odd)} in a path as a pattern")
        record = json.loads((folder / f"{name}.json").read_text())
    except (FileNotFoundError, ValueError) as error:
        reason = str(error) if isinstance(error, Error) else "it has not been downloaded yet"
        return Found(name, package.version, absent=reason, mend=mend)
    if record.get("package") != wanted:
        return Found(name, package.version, absent=f"{wanted} has not been downloaded yet", mend=mend)
    if "absent" in record:
        again = f"run {AGAIN} again, if necessary with {ivy.VARIABLE} set to another repository"
        mend = f"{again}, or set {package.variable} to the path of the jar; only {package.purpose} needs it"
        return Found(name, package.version, absent=record["absent"], mend=mend)
    for file, digest in record["files"].items():
        if not (folder / file).is_file() or _digest(folder / file) != digest:
            return Found(name, package.version, absent=f"{folder / file} is missing or was changed", mend=mend)
    return Found(name, package.version, tuple(folder / file for file in record["files"]))


def setting() -> dict[str, str]:
    """Return the setting ``spark.jars`` with all jars on this machine, or an empty dict if there are none."""
    paths = [str(path) for name in PACKAGES for path in find(name).paths]
    return {"spark.jars": ",".join(paths)} if paths else {}


def fetch(name: str, say: Callable[[str], None] = lambda text: None) -> Found:
    """Download a package, or store the reason if that fails. Return the result of `find` afterwards.

    ``say`` is called with the name of each file. This takes one or two seconds, and at most ivy.FETCH_SECONDS per
    attempt. Each file is renamed into place when it is complete.
    """
    package, folder = PACKAGES[name], cache_dir("jars")
    if ODD & set(str(folder)):
        return find(name)
    wanted = _coordinates(package)
    record: dict[str, object] = {"package": wanted}
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            jars = _retrieve(package, wanted, Path(scratch), say)
            digests = {jar.name: _digest(jar) for jar in jars}
            for file, digest in digests.items():
                if package.digests.get(file, digest) != digest:
                    raise Error(f"the repository's {file} does not have the SHA-256 that the kit expects")
            for jar in jars:
                os.replace(jar, folder / jar.name)
        record["files"] = digests
    except Error as error:
        record["absent"] = str(error)
    handle, part = tempfile.mkstemp(dir=folder, prefix=".record-")
    with os.fdopen(handle, "w") as file_:
        json.dump(record, file_, indent=1)
    os.replace(part, folder / f"{name}.json")
    return find(name)


def _own(package: Package, named: str) -> Found:
    """Return the jars that a package's environment variable names. They are separated like the folders in PATH."""
    paths = tuple(Path(part).expanduser().absolute() for part in named.split(os.pathsep) if part)
    bad = next((path for path in paths if not path.is_file()), None)
    reason = f"{package.variable}={named}: {bad} is not a file" if bad else None
    if reason is None and (odd := sorted(ODD & set(named))):
        reason = f"{package.variable}={named}: Spark treats {' '.join(odd)} in a path as a pattern; move the jar"
    built = re.search(r"-spark(\d+)_([\d.]+\d)", " ".join(path.name for path in paths))
    if reason is None and built and built.groups() != _spark():
        reason = (
            f"{package.variable}={named} is for Spark {built[1]} and Scala {built[2]}, not {' and '.join(_spark())}"
        )
    if reason is None:
        return Found(package.name, "its own", paths)
    return Found(package.name, package.version, absent=reason, mend=f"correct or unset {package.variable}")


def _spark() -> tuple[str, str]:
    """Return the major version of Spark and the version of Scala in PySpark's jars, such as 4 and 2.13."""
    for jar in (home.package() / "jars").glob("spark-core_*.jar"):
        found = re.fullmatch(r"spark-core_([\d.]+)-(\d+)\..*", jar.name)
        if found:
            return found[2], found[1]
    raise Error("the package pyspark does not contain a spark-core jar; reinstall it")


def _coordinates(package: Package) -> str:
    spark, scala = _spark() if "{" in package.artifact else ("", "")
    return f"{package.group}:{package.artifact.format(spark=spark, scala=scala)}:{package.version}"


def _retrieve(package: Package, wanted: str, scratch: Path, say: Callable[[str], None]) -> list[Path]:
    """Download the package. If the repository lacks its version, download the newest one that matches ``instead``."""
    try:
        return ivy.retrieve(wanted, scratch / "first", say)
    except ivy.NotInRepository:
        if not package.instead:
            raise
        return ivy.retrieve(f"{wanted.rpartition(':')[0]}:{package.instead}", scratch / "second", say)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(names: Iterable[str] = tuple(PACKAGES)) -> int:
    """Download missing packages, and print one line per package. Return 1 if one is still missing, and otherwise 0."""
    absent = 0
    for name in names:
        found = find(name)
        if found.absent is not None and not os.environ.get(PACKAGES[name].variable):
            found = fetch(name, lambda file: print(f"jars: downloading {file}", flush=True))
        absent += found.absent is not None
        text = f"missing: {found.absent}; {found.mend}" if found.absent is not None else _sizes(found)
        print(f"jars: {name} {found.version}: {text}", flush=True)
    return 1 if absent else 0


def _sizes(found: Found) -> str:
    return ", ".join(f"{path} ({path.stat().st_size / 1e6:.1f} MB)" for path in found.paths)


if __name__ == "__main__":
    command("jars", main)
