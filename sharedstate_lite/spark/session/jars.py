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
import zipfile
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

    ``{spark}`` in an artifact stands for the major version of PySpark, and ``{scala}`` for its version of Scala.
    """

    name: str
    purpose: str
    group: str
    artifact: str
    version: str
    variable: str
    classes: dict[str, str]
    """A class -> the artifact whose jar contains it. The user's own jars must contain all these classes."""
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
            classes={"org.postgresql.Driver": "postgresql"},
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
            classes={
                "org.graphframes.GraphFrame": "graphframes-spark{spark}_{scala}",
                "org.apache.spark.graphframes.graphx.VertexRDD": "graphframes-graphx-spark{spark}_{scala}",
            },
        ),
    )
}
"""The packages that the kit can use, by name. GraphFrames must have the same version as its Python package."""


@dataclass(frozen=True)
class Found:
    """The result of looking for a package on this machine.

    ``paths`` are its jars, and ``version`` is the version that was downloaded. If it cannot be used, ``absent`` is the
    reason, ``mend`` says what to do, and ``version`` is the version to download.
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
    own = f"or set {package.variable} to the paths of its jars; only {package.purpose} needs it"
    mend = f"run {AGAIN}, {own}"
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
        mend = f"run {AGAIN} again, if necessary with {ivy.VARIABLE} set to another repository, {own}"
        return Found(name, package.version, absent=record["absent"], mend=mend)
    for file, digest in record["files"].items():
        if not (folder / file).is_file() or _digest(folder / file) != digest:
            return Found(name, package.version, absent=f"{folder / file} is missing or was changed", mend=mend)
    prefix = f"{wanted.split(':')[1]}-"
    version = next(file.removeprefix(prefix) for file in record["files"] if file.startswith(prefix))
    return Found(name, version.removesuffix(".jar"), tuple(folder / file for file in record["files"]))


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
    reason = _refused(package, named, paths)
    if not reason:
        return Found(package.name, "its own", paths)
    mend = f"correct {package.variable}, which can name several jars separated by {os.pathsep!r}, or unset it"
    return Found(package.name, package.version, absent=f"{package.variable}={named}{reason}", mend=mend)


def _refused(package: Package, named: str, paths: tuple[Path, ...]) -> str:
    """Return why a session cannot use the user's own jars, or an empty string if it can."""
    files: set[str] = set()
    for path in paths:
        if not path.is_file():
            return f": {path} is not a file"
        if not zipfile.is_zipfile(path):
            return f": {path} is not a jar"
        with zipfile.ZipFile(path) as jar:
            files.update(jar.namelist())
    if odd := sorted(ODD & set(named)):
        return f": Spark treats {' '.join(odd)} in a path as a pattern; move the jar"
    built = re.search(r"-spark(\d+)_([\d.]+\d)", " ".join(path.name for path in paths))
    if built and built.groups() != _spark():
        return f" is for Spark {built[1]} and Scala {built[2]}, not {' and '.join(_spark())}"
    for name, artifact in package.classes.items():
        if f"{name.replace('.', '/')}.class" not in files:
            return f" does not contain {name}, which is in the jar of {_artifact(artifact)}"
    return ""


def _spark() -> tuple[str, str]:
    """Return the major version of Spark and the version of Scala in PySpark's jars, such as 4 and 2.13."""
    for jar in (home.package() / "jars").glob("spark-core_*.jar"):
        found = re.fullmatch(r"spark-core_([\d.]+)-(\d+)\..*", jar.name)
        if found:
            return found[2], found[1]
    raise Error("the package pyspark does not contain a spark-core jar; reinstall it")


def _coordinates(package: Package) -> str:
    return f"{package.group}:{_artifact(package.artifact)}:{package.version}"


def _artifact(name: str) -> str:
    """Return the name of an artifact with PySpark's versions of Spark and Scala."""
    spark, scala = _spark() if "{" in name else ("", "")
    return name.format(spark=spark, scala=scala)


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
