"""Downloads packages and their dependencies from a Maven repository with Ivy, the resolver in PySpark's jars.

Ivy runs as a separate program. By default, it downloads from Maven Central. A different repository (an address or a
folder) can be set in the environment variable SHAREDSTATE_LITE_MAVEN, in Spark's variable DEFAULT_ARTIFACT_REPOSITORY,
or as a mirror in the user's Maven settings. Ivy checks each file against the checksum in the repository. Repositories
that require a password are not supported. This module uses only the standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from ...errors import Error
from . import home
from .java import find_java

VARIABLE = "SHAREDSTATE_LITE_MAVEN"
FETCH_SECONDS = 120
CONNECT_SECONDS, READ_SECONDS = 10, 30

_NOT_FOUND = "the repository does not have it"


class NotInRepository(Error):
    """The repository responded, but it does not have the package."""


def retrieve(wanted: str, scratch: Path, say: Callable[[str], None]) -> list[Path]:
    """Download the jars of a package and its dependencies, and return their paths.

    ``wanted`` is ``group:artifact:version``, and the version can be a pattern such as ``0.12.+``. ``scratch`` is the
    path of a new folder for the files. ``say`` is called with the name of each file. Raises NotInRepository, or Error
    for any other failure.
    """
    scratch.mkdir()
    resolver = next(iter(sorted((home.package() / "jars").glob("ivy-*.jar"))), None)
    if resolver is None:
        raise Error("this version of PySpark does not include the jar of Ivy")
    group, artifact, version = wanted.split(":")
    root = repository()
    (scratch / "settings.xml").write_text(_SETTINGS.format(
        root=f" root={quoteattr(root)}" if root else "", connect=CONNECT_SECONDS * 1000, read=READ_SECONDS * 1000
    ))  # fmt: skip
    (scratch / "ivy.xml").write_text(_IVY.format(group=group, artifact=artifact, version=version))
    command = [str(find_java().home / "bin" / "java"), "-Xmx256m", *_proxies(), "-jar", str(resolver)]
    command += ["-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml"), "-confs", "default"]
    command += ["-cache", str(scratch / "cache"), "-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
    output = _run(command, scratch, say)
    jars = sorted((scratch / "jars").glob("*.jar"))
    if output is None and jars:
        return jars
    reason = _reason(output or "")
    raise (NotInRepository if reason == _NOT_FOUND else Error)(f"{wanted}: {reason}")


def repository() -> str | None:
    """Return the address of the repository to use instead of Maven Central, or None to use Maven Central."""
    named = os.environ.get(VARIABLE) or os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or _mirror()
    if not named:
        return None
    return named if re.match(r"\w[\w+.-]+:/", named) else Path(named).expanduser().absolute().as_uri()


def _run(command: list[str], folder: Path, say: Callable[[str], None]) -> str | None:
    """Run Ivy for at most FETCH_SECONDS. Return its output if it failed, and otherwise None."""
    try:
        ivy = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Error(f"{command[0]} does not start ({error.strerror or error})") from error
    limit, output = threading.Timer(FETCH_SECONDS, ivy.kill), []
    limit.start()
    with ivy:
        try:
            assert ivy.stdout is not None
            for line in ivy.stdout:
                output.append(line)
                file = re.match(r"downloading \S*/(\S+)", line)
                if file:
                    say(file[1])
            late = ivy.wait() < 0
        finally:
            limit.cancel()
            ivy.kill()
    if late:
        raise Error(f"the repository did not answer within {FETCH_SECONDS} s")
    return None if ivy.returncode == 0 else "".join(output)


def _reason(output: str) -> str:
    """Return the cause of a failure in a few words. Ivy prints "not found" for every failure, so it is checked last."""
    if re.search(r"PKIX|SSLHandshake", output):
        return "this Java does not trust the repository's certificate"
    access = re.search(r"Server access error at url \S+ \((.{1,200}?)\)\s*$", output, re.MULTILINE)
    if access:
        return f"the repository returned an error ({access[1]})"
    unreachable = r"UnknownHost|Host \S+ not found|[cC]onnect\w* (refused|timed out)|[tT]imed? ?out|unreachable"
    if re.search(unreachable, output):
        return "the repository cannot be reached"
    if "checksum" in output:
        return "a file from the repository does not match the repository's checksum"
    if re.search(r"::\s+\S+: not found", output):
        return _NOT_FOUND
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "Ivy printed nothing"


def _proxies() -> list[str]:
    """Return the Java options for the proxies in the environment variables http_proxy, https_proxy and no_proxy."""
    out = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        address = urlsplit(value if value and "//" in value else f"//{value or ''}")
        if address.hostname:
            out += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 80}"]
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if out and direct:
        hosts = [f"*{part}" if part.startswith(".") else part for part in direct.replace(" ", "").split(",") if part]
        out.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return out


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


_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="{connect}" readTimeout="{read}"/>
  </timeout-constraints>
  <resolvers><ibiblio name="maven" m2compatible="true" timeoutConstraint="patience"{root}/></resolvers>
</ivysettings>
"""

_IVY = """\
<ivy-module version="2.0">
  <info organisation="kit" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{group}" name="{artifact}" rev="{version}" conf="default->default">
      <exclude org="org.apache.spark"/><exclude org="org.scala-lang"/><exclude org="org.checkerframework"/>
      <exclude org="org.apache.datasketches"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
"""The excluded packages are already in PySpark, or are needed only by compilers."""
