"""Jars that PySpark does not include: they are downloaded once, during setup, and passed to each session.

    python -m sharedstate_lite.spark.session.jars     downloads missing jars

If Spark resolved a package itself, it would do so at each start of a session, and the session would not start if that
failed. So the jars are downloaded in advance. A session receives the paths of the files that exist and are intact, in
the setting ``spark.jars``. If a package cannot be downloaded, the reason is stored until the next attempt, and sessions
start without the package.

The jars come from Maven Central or from another repository (an address or a folder): that of the environment variable
SHAREDSTATE_LITE_MAVEN, of Spark's variable DEFAULT_ARTIFACT_REPOSITORY, or a mirror in the user's Maven settings. A
user can set an environment variable to the path of their own jar, which then takes precedence.

A downloaded file must match the checksum in the repository, and its SHA-256 if this module has one. Before each use, it
must still match the digest that was recorded after the download. This module uses only the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.request
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from ...errors import Error
from ...system.cache import cache_dir
from ...system.command import command

AGAIN = "python -m sharedstate_lite.spark.session.jars"
VARIABLE = "SHAREDSTATE_LITE_MAVEN"
CENTRAL = "https://repo1.maven.org/maven2"
READ_SECONDS = 30
SPARK, SCALA = "4", "2.13"
"""The versions of Spark and Scala in PySpark."""
ODD = frozenset("[]{}*?#,")
"""Characters that Spark does not take literally in the path of a jar, so that a session would not start."""


@dataclass(frozen=True)
class Package:
    """Jars of one group and version on Maven Central, and the environment variable for the user's own jars."""

    purpose: str
    group: str
    version: str
    variable: str
    classes: dict[str, str]
    """An artifact -> a class in its jar. The user's own jars must contain all these classes."""
    digests: dict[str, str] = field(default_factory=dict)
    """Artifact -> SHA-256, for jars whose content is known in advance."""

    @property
    def coordinates(self) -> str:
        """The name of the package in Maven."""
        return f"{self.group}:{next(iter(self.classes))}:{self.version}"


PACKAGES = {
    "postgresql": Package(
        purpose="reading PostgreSQL with Spark",
        group="org.postgresql",
        version="42.7.14",
        variable="SHAREDSTATE_LITE_POSTGRES_JAR",
        classes={"postgresql": "org.postgresql.Driver"},
        digests={"postgresql": "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c"},
    ),
    "graphframes": Package(
        purpose="the GraphFrames rung",
        group="io.graphframes",
        version="0.12.3",
        variable="SHAREDSTATE_LITE_GRAPHFRAMES_JAR",
        classes={
            f"graphframes-spark{SPARK}_{SCALA}": "org.graphframes.GraphFrame",
            f"graphframes-graphx-spark{SPARK}_{SCALA}": "org.apache.spark.graphframes.graphx.VertexRDD",
        },
    ),
}
"""The packages that the kit can use, by name. GraphFrames must have the same version as its Python package."""


@dataclass(frozen=True)
class Found:
    """The result of looking for a package on this machine.

    ``paths`` are its jars. If it cannot be used, ``absent`` is the reason, and ``mend`` says what to do.
    """

    name: str
    paths: tuple[Path, ...] = ()
    absent: str | None = None
    mend: str = ""


def find(name: str) -> Found:
    """Look for a package on this machine. This takes milliseconds. Raises Error if ``name`` is not in `PACKAGES`."""
    if name not in PACKAGES:
        raise Error(f"jar {name!r}: the kit downloads only {', '.join(PACKAGES)}; set spark.jars for other jars")
    package = PACKAGES[name]
    named = os.environ.get(package.variable)
    try:
        paths = _own(package, named) if named else _downloaded(name, package)
        if odd := sorted(ODD & set("".join(map(str, paths)))):
            raise Error(f"{paths[0]}: Spark treats {' '.join(odd)} in a path as a pattern; move the jar")
        return Found(name, paths)
    except Error as error:
        if named:
            mend = f"correct {package.variable}, which can name several jars separated by {os.pathsep!r}, or unset it"
            return Found(name, absent=f"{package.variable}={named}: {error}", mend=mend)
        mend = (
            f"run {AGAIN}, if necessary with {VARIABLE} set to another repository, or set {package.variable} to the "
            f"paths of its jars; only {package.purpose} needs it"
        )
        return Found(name, absent=str(error), mend=mend)


def setting() -> dict[str, str]:
    """Return the setting ``spark.jars`` with all jars on this machine, or an empty dict if there are none."""
    paths = [str(path) for name in PACKAGES for path in find(name).paths]
    return {"spark.jars": ",".join(paths)} if paths else {}


def _own(package: Package, named: str) -> tuple[Path, ...]:
    """Return the jars that a package's environment variable names, like the folders in PATH. Raises Error."""
    paths = tuple(Path(part).expanduser().absolute() for part in named.split(os.pathsep) if part)
    files: set[str] = set()
    for path in paths:
        if not path.is_file() or not zipfile.is_zipfile(path):
            raise Error(f"{path} is not {'a jar' if path.is_file() else 'a file'}")
        with zipfile.ZipFile(path) as jar:
            files.update(jar.namelist())
        built = re.search(r"-spark(\d+)_([\d.]+\d)", path.name)
        if built and built.groups() != (SPARK, SCALA):
            raise Error(f"{path} is for Spark {built[1]} and Scala {built[2]}, not {SPARK} and {SCALA}")
    for artifact, name in package.classes.items():
        if f"{name.replace('.', '/')}.class" not in files:
            raise Error(f"no class {name}, which is in the jar of {artifact}")
    return paths


def _downloaded(name: str, package: Package) -> tuple[Path, ...]:
    """Return the jars in the cache. Raises Error if they are not there, or not as they were downloaded."""
    folder = cache_dir("jars")
    try:
        record = json.loads((folder / f"{name}.json").read_text())
    except (FileNotFoundError, ValueError):
        record = {}
    if record.get("package") != package.coordinates:
        raise Error(f"{package.coordinates} has not been downloaded yet")
    if "absent" in record:
        raise Error(record["absent"])
    for jar, digest in record["files"].items():
        if not (folder / jar).is_file() or _digest((folder / jar).read_bytes()) != digest:
            raise Error(f"{folder / jar} is missing or was changed")
    return tuple(folder / jar for jar in record["files"])


def fetch(name: str, say: Callable[[str], None] = lambda text: None) -> Found:
    """Download a package, or store the reason if that fails. Return the result of `find` afterwards.

    ``say`` is called with the name of each file. Each file is renamed into place when it is complete.
    """
    package, folder = PACKAGES[name], cache_dir("jars")
    record: dict[str, object] = {"package": package.coordinates}
    try:
        files = {}
        for artifact in package.classes:
            say(jar := f"{artifact}-{package.version}.jar")
            content = _download(package, artifact, jar)
            _replace(folder / jar, content)
            files[jar] = _digest(content)
        record["files"] = files
    except Error as error:
        record["absent"] = str(error)
    _replace(folder / f"{name}.json", json.dumps(record, indent=1).encode())
    return find(name)


def _download(package: Package, artifact: str, jar: str) -> bytes:
    """Return the content of a jar in the repository. Raises Error if it has another checksum, or none."""
    address = "/".join([repository().rstrip("/"), *package.group.split("."), artifact, package.version, jar])
    try:
        content, sha1 = (_read(each) for each in (address, f"{address}.sha1"))
    except (OSError, HTTPException) as error:
        raise Error(f"{address} cannot be downloaded ({error})") from error
    if hashlib.sha1(content).hexdigest().encode() not in sha1.split():
        raise Error(f"{address} does not match the repository's checksum")
    if package.digests.get(artifact, found := _digest(content)) != found:
        raise Error(f"{address} does not have the SHA-256 that the kit expects")
    return content


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=READ_SECONDS) as answer:
        return bytes(answer.read())


def repository() -> str:
    """Return the address of the repository."""
    named = os.environ.get(VARIABLE) or os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or _mirror() or CENTRAL
    return named if re.match(r"\w[\w+.-]+:/", named) else Path(named).expanduser().absolute().as_uri()


def _mirror() -> str | None:
    """Return the address of the mirror of Maven Central in the user's Maven settings, or None."""
    file = Path(os.path.expanduser("~/.m2/settings.xml"))  # Path.home() raises an error if there is no home folder
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iterfind(".//{*}mirror"):
        of = {part.strip() for part in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        url = (mirror.findtext("{*}url") or "").strip()
        if url and "!central" not in of and of & {"central", "*", "external:*"}:
            return url
    return None


def _replace(file: Path, content: bytes) -> None:
    part = file.with_name(f".{os.getpid()}-{file.name}")
    part.write_bytes(content)
    part.replace(file)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(names: Iterable[str] = tuple(PACKAGES)) -> int:
    """Download missing packages, and print one line per package. Return 1 if one is still missing, and otherwise 0."""
    absent = 0
    for name in names:
        found = find(name)
        if found.absent is not None and not os.environ.get(PACKAGES[name].variable):
            found = fetch(name, lambda file: print(f"jars: downloading {file}", flush=True))
        absent += found.absent is not None
        sizes = ", ".join(f"{path} ({path.stat().st_size / 1e6:.1f} MB)" for path in found.paths)
        print(f"jars: {name}: {sizes or f'missing: {found.absent}; {found.mend}'}", flush=True)
    return 1 if absent else 0


if __name__ == "__main__":
    command("jars", main)
