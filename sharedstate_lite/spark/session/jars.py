"""The jars that PySpark does not bring: fetched once, at set-up, and named to a session where they are there.

    python -m sharedstate_lite.spark.session.jars     fetches what is absent; so does the set-up

Spark would fetch a package at each start of a session, and a package that it does not
get ends the session. So they are fetched beforehand, by the same resolver (:mod:`.ivy`)
with what they need in turn, into the caches folder; a session names files
(``spark.jars``), and only those that are there and whole. What cannot be had is absent,
and why is remembered until somebody asks again: nothing fails or waits for it.

A jar of one's own goes before: each package has a variable that names it. Files whose
SHA-256 is written here are held to it; the others to the checksum that the repository
gives, and from then on to what was fetched.
Imports the standard library only, and never pyspark.
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
from . import ivy

AGAIN = "python -m sharedstate_lite.spark.session.jars"
ODD = frozenset("[]{}*?#,")
"""In the path of a jar these are patterns to Spark, or end it; no session would start."""


@dataclass(frozen=True)
class Package:
    """Something on Maven Central: what it is for, where it is, and the variable that names a jar of one's own.

    ``{spark}`` and ``{scala}`` in the artifact stand for what PySpark was built with.
    """

    name: str
    purpose: str
    group: str
    artifact: str
    version: str
    variable: str
    instead: str = ""
    """A pattern of versions that do as well, of which the newest is taken where the repository lacks this one."""
    digests: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256, where it is known beforehand."""


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
"""What the kit can use, by name; GraphFrames has the version of its Python half."""


@dataclass(frozen=True)
class Found:
    """A package as this machine has it: ``paths`` of its jars, or why it is ``absent`` and what mends that."""

    name: str
    version: str
    paths: tuple[Path, ...] = ()
    absent: str | None = None
    mend: str = ""


def find(name: str) -> Found:
    """What there is of a package, looked up in some milliseconds and never fetched.

    Raises :class:`~sharedstate_lite.errors.Error` for a name that is none of :data:`PACKAGES`.
    """
    if name not in PACKAGES:
        raise Error(f"jar {name!r}: the kit knows {', '.join(PACKAGES)}; name others to a session with spark.jars")
    package = PACKAGES[name]
    named = os.environ.get(package.variable)
    if named:
        return _own(package, named)
    mend = f"{AGAIN} fetches it, or set {package.variable} to the jar; only {package.purpose} needs it"
    try:
        wanted, folder = _coordinates(package), cache_dir("jars")
        if odd := sorted(ODD & set(str(folder))):
            raise Error(
                f"Spark starts with no jar from {folder}: {' '.join(odd)} in a path are more than letters to it"
            )
        record = json.loads((folder / f"{name}.json").read_text())
    except (FileNotFoundError, ValueError) as error:
        reason = str(error) if isinstance(error, Error) else "it was not fetched yet"
        return Found(name, package.version, absent=reason, mend=mend)
    if record.get("package") != wanted:
        return Found(name, package.version, absent=f"{wanted} was not fetched yet", mend=mend)
    if "absent" in record:
        again = f"{AGAIN} asks again, with {ivy.VARIABLE} another repository; or set {package.variable} to the jar"
        mend = f"{again}; only {package.purpose} needs it"
        return Found(name, package.version, absent=record["absent"], mend=mend)
    for file, digest in record["files"].items():
        if not (folder / file).is_file() or _digest(folder / file) != digest:
            return Found(name, package.version, absent=f"{folder / file} is gone or was changed", mend=mend)
    return Found(name, package.version, tuple(folder / file for file in record["files"]))


def setting() -> dict[str, str]:
    """What a session is started with: ``spark.jars`` with every jar that is there, or nothing."""
    paths = [str(path) for name in PACKAGES for path in find(name).paths]
    return {"spark.jars": ",".join(paths)} if paths else {}


def fetch(name: str, say: Callable[[str], None] = lambda text: None) -> Found:
    """Fetch a package, or remember why it cannot be had; returns what there is afterwards.

    ``say`` is told each file as it comes. Takes a second or two, and at most
    ivy.FETCH_SECONDS an attempt. A file is whole or not there, whatever happens meanwhile.
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
                    raise Error(f"the repository's {file} is not the one that the kit knows (its SHA-256 differs)")
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
    """The jars that a variable names, separated as folders are in PATH."""
    paths = tuple(Path(part).expanduser().absolute() for part in named.split(os.pathsep) if part)
    bad = next((path for path in paths if not path.is_file()), None)
    reason = f"{package.variable}={named}: {bad} is no file" if bad else None
    if reason is None and (odd := sorted(ODD & set(named))):
        reason = f"{package.variable}={named}: {' '.join(odd)} in a path are more than letters to Spark; move the jar"
    built = re.search(r"-spark(\d+)_([\d.]+\d)", " ".join(path.name for path in paths))
    if reason is None and built and built.groups() != _spark():
        reason = (
            f"{package.variable}={named} is for Spark {built[1]} and Scala {built[2]}, not {' and '.join(_spark())}"
        )
    if reason is None:
        return Found(package.name, "its own", paths)
    return Found(package.name, package.version, absent=reason, mend=f"correct or unset {package.variable}")


def _spark() -> tuple[str, str]:
    """The major version of Spark and the version of Scala in PySpark's jars, such as 4 and 2.13."""
    for jar in ivy.pyspark_jars().glob("spark-core_*.jar"):
        found = re.fullmatch(r"spark-core_([\d.]+)-(\d+)\..*", jar.name)
        if found:
            return found[2], found[1]
    raise Error("the package pyspark has no spark-core jar; install it anew")


def _coordinates(package: Package) -> str:
    spark, scala = _spark() if "{" in package.artifact else ("", "")
    return f"{package.group}:{package.artifact.format(spark=spark, scala=scala)}:{package.version}"


def _retrieve(package: Package, wanted: str, scratch: Path, say: Callable[[str], None]) -> list[Path]:
    """The jars of the package in its version, or else in the newest that does as well."""
    try:
        return ivy.retrieve(wanted, scratch / "first", say)
    except ivy.NotCarried:
        if not package.instead:
            raise
        return ivy.retrieve(f"{wanted.rpartition(':')[0]}:{package.instead}", scratch / "second", say)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(names: Iterable[str] = tuple(PACKAGES)) -> int:
    """Fetch what is absent, a line for each; 0 where all is there afterwards."""
    absent = 0
    for name in names:
        found = find(name)
        if found.absent is not None and not os.environ.get(PACKAGES[name].variable):
            found = fetch(name, lambda file: print(f"jars: fetching {file}", flush=True))
        absent += found.absent is not None
        text = f"not had: {found.absent}; {found.mend}" if found.absent is not None else _sizes(found)
        print(f"jars: {name} {found.version}: {text}", flush=True)
    return 1 if absent else 0


def _sizes(found: Found) -> str:
    return ", ".join(f"{path} ({path.stat().st_size / 1e6:.1f} MB)" for path in found.paths)


if __name__ == "__main__":
    command("jars", main)
