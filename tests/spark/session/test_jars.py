"""The cache of jars: downloads are complete and verified; what cannot be downloaded is absent, with the reason."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import ivy, jars, settings

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = "io.graphframes:graphframes-spark4_2.13"
CORE, GRAPHX = "org.graphframes.GraphFrame", "org.apache.spark.graphframes.graphx.VertexRDD"


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache in a folder with a blank in its name, and no jars of the user; returns the jars' folder."""
    for package in jars.PACKAGES.values():
        monkeypatch.delenv(package.variable, raising=False)
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "a cache"))
    return tmp_path / "a cache" / "jars"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Maven repository in a folder, which the environment names."""
    monkeypatch.setenv(ivy.VARIABLE, str(tmp_path / "repository"))
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


def publish(repository: Path, coordinates: str, needs: tuple[str, ...] = (), checksum: str = "") -> bytes:
    """Put a package into the repository, with its checksums; returns the content of its jar."""
    group, artifact, version = coordinates.split(":")
    folder = repository.joinpath(*group.split("."), artifact, version)
    folder.mkdir(parents=True)
    wanted = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *each.split(":")
        )
        for each in needs
    )
    pom = (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><dependencies>{wanted}</dependencies></project>"
    ).encode()
    jar = f"the jar of {coordinates}".encode()
    for kind, content in (("pom", pom), ("jar", jar)):
        (folder / f"{artifact}-{version}.{kind}").write_bytes(content)
        said = checksum or hashlib.sha1(content).hexdigest()
        (folder / f"{artifact}-{version}.{kind}.sha1").write_text(said)
    versions = sorted(path.name for path in folder.parent.iterdir() if path.is_dir())
    (folder.parent / "maven-metadata.xml").write_text(
        f"<metadata><groupId>{group}</groupId><artifactId>{artifact}</artifactId><versioning><versions>"
        + "".join(f"<version>{each}</version>" for each in versions)
        + "</versions></versioning></metadata>"
    )
    return jar


def packed(path: Path, *classes: str) -> Path:
    """A jar that contains these classes, without their code; returns its path."""
    with zipfile.ZipFile(path, "w") as jar:
        for name in classes:
            jar.writestr(f"{name.replace('.', '/')}.class", b"")
    return path


def nothing_is_fetched(*arguments: object) -> list[Path]:
    """In place of Ivy where it must not run."""
    raise AssertionError("fetched")


@pytest.fixture
def copies(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository with a copy in place of Ivy, which is a JVM per call; a missing version raises as Ivy's does."""

    def retrieve(wanted: str, scratch: Path, say: Callable[[str], None]) -> list[Path]:
        group, artifact, version = wanted.split(":")
        jar = repository.joinpath(*group.split("."), artifact, version, f"{artifact}-{version}.jar")
        if not jar.exists():
            raise ivy.NotInRepository(f"{wanted}: the repository does not have it")
        scratch.mkdir()
        say(jar.name)
        return [Path(shutil.copy(jar, scratch))]

    monkeypatch.setattr(ivy, "retrieve", retrieve)
    return repository


def test_fetched_with_what_it_needs(repository: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package comes with its dependencies, except those in PySpark, and is passed to a session."""
    needed = (
        "io.graphframes:graphframes-graphx-spark4_2.13:0.12.3",
        "org.scala-lang:scala-library:2.13.16",
        "org.apache.datasketches:datasketches-java:6.2.0",
    )
    jar = publish(repository, f"{GRAPHS}:0.12.3", needed)
    publish(repository, needed[0])
    assert jars.find("graphframes").absent == "it has not been downloaded yet" and jars.setting() == {}
    heard: list[str] = []
    found = jars.fetch("graphframes", heard.append)
    names = ["graphframes-graphx-spark4_2.13-0.12.3.jar", "graphframes-spark4_2.13-0.12.3.jar"]
    assert found.absent is None and [path.name for path in found.paths] == names
    assert sorted(heard) == names and found.paths[1].read_bytes() == jar
    monkeypatch.setattr(ivy, "retrieve", nothing_is_fetched)
    assert jars.find("graphframes") == found
    assert jars.setting() == {"spark.jars": ",".join(map(str, found.paths))}
    assert [path.name for path in empty.iterdir() if path.name.startswith(".")] == []


def test_newest_of_the_line_instead(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the repository does not have the version, the newest of the same line is taken, and that version is named."""
    for version in ("0.12.1", "0.12.2", "0.13.0"):
        publish(repository, f"{GRAPHS}:{version}")
    found = jars.fetch("graphframes")
    assert [path.name for path in found.paths] == ["graphframes-spark4_2.13-0.12.2.jar"]
    assert found.version == jars.find("graphframes").version == "0.12.2"
    assert jars.main(["graphframes"]) == 0 and capsys.readouterr().out.startswith("jars: graphframes 0.12.2: /")


def test_absence_is_remembered(
    copies: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be downloaded is absent, with the reason and what to do; only a command tries again."""
    found = jars.fetch("graphframes")
    assert found.absent is not None and "does not have it" in found.absent and jars.AGAIN in found.mend
    with monkeypatch.context() as quiet:
        quiet.setattr(ivy, "retrieve", nothing_is_fetched)
        assert jars.find("graphframes") == found and jars.setting() == {}
    publish(copies, f"{GRAPHS}:0.12.3")
    assert jars.main(["graphframes"]) == 0
    said = capsys.readouterr().out
    assert "downloading graphframes-spark4_2.13-0.12.3.jar" in said and "MB" in said
    assert jars.find("graphframes").absent is None


def test_wrong_checksums(repository: Path, empty: Path) -> None:
    """A file that does not match the repository's checksum, or the kit's, is rejected."""
    publish(repository, f"{GRAPHS}:0.12.3", checksum="0" * 40)
    assert re.search("checksum", str(jars.fetch("graphframes").absent))
    publish(repository, "org.postgresql:postgresql:42.7.14")
    assert "does not have the SHA-256" in str(jars.fetch("postgresql").absent)
    assert sorted(path.name for path in empty.iterdir()) == ["graphframes.json", "postgresql.json"]


def test_damaged_file_is_absent(copies: Path) -> None:
    """A jar that was changed or removed in the cache is not passed to a session; another download repairs it."""
    publish(copies, f"{GRAPHS}:0.12.3")
    (jar,) = jars.fetch("graphframes").paths
    for damage in (lambda: jar.write_bytes(b"short"), jar.unlink):
        damage()
        assert "is missing or was changed" in str(jars.find("graphframes").absent) and jars.setting() == {}
        assert jars.fetch("graphframes").paths == (jar,)


def test_another_version_is_another_package(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars for another Spark, or of an earlier kit, do not count."""
    publish(copies, f"{GRAPHS}:0.12.3")
    jars.fetch("graphframes")
    monkeypatch.setattr(jars, "_spark", lambda: ("5", "3.3"))
    assert jars.find("graphframes").absent == "io.graphframes:graphframes-spark5_3.3:0.12.3 has not been downloaded yet"


def test_repository_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers, and a closed port: the download ends with the reason."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(ivy.VARIABLE, f"http://127.0.0.1:{server.getsockname()[1]}/maven")
        monkeypatch.setattr(ivy, "FETCH_SECONDS", 2)
        assert jars.fetch("postgresql").absent == "the repository did not answer within 2 s"
    monkeypatch.setattr(ivy, "FETCH_SECONDS", 60)
    assert "repository" in str(jars.fetch("postgresql").absent) and "have it" not in str(jars.find("postgresql").absent)


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Java nothing can be downloaded, and that is the reason that is stored."""

    def none() -> None:
        raise Error("Java: none that Spark can use")

    monkeypatch.setattr(ivy, "find_java", none)
    assert jars.fetch("postgresql").absent == "Java: none that Spark can use"


def test_own_jar_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable names one jar or several; a missing file, or one for another Spark, is absent with the reason."""
    variable = jars.PACKAGES["graphframes"].variable
    mine = [packed(tmp_path / "graphframes-spark4_2.13-0.11.0.jar", CORE), packed(tmp_path / "graphx.jar", GRAPHX)]
    monkeypatch.setenv(variable, os.pathsep.join(map(str, mine)))
    assert jars.find("graphframes").paths == tuple(mine)
    assert jars.setting() == {"spark.jars": ",".join(map(str, mine))}
    monkeypatch.setenv(variable, str(tmp_path / "none.jar"))
    assert re.search(f"{variable}=.*is not a file", str(jars.find("graphframes").absent)) and jars.setting() == {}
    monkeypatch.setenv(variable, str(packed(tmp_path / "graphframes-spark3_2.12-0.9.0.jar", CORE)))
    assert "is for Spark 3 and Scala 2.12, not 4 and 2.13" in str(jars.find("graphframes").absent)


def test_own_jar_that_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's jars must contain the classes of the package and of what it needs; one jar with all is enough."""
    core, graphx = packed(tmp_path / "core.jar", CORE), packed(tmp_path / "graphx.jar", GRAPHX)
    variable = jars.PACKAGES["graphframes"].variable
    for jar, named in ((core, rf"{GRAPHX}.*graphframes-graphx-spark4_2\.13"), (graphx, rf"{CORE}.*graphframes-spark4")):
        monkeypatch.setenv(variable, str(jar))
        found = jars.find("graphframes")
        assert re.search(rf"{variable}=.*does not contain {named}", str(found.absent)) and variable in found.mend
        assert jars.setting() == {} and jars.main(["graphframes"]) == 1
    monkeypatch.setenv(variable, str(packed(tmp_path / "both.jar", CORE, GRAPHX)))
    assert jars.find("graphframes").absent is None
    (tmp_path / "page.jar").write_text("<html>not found</html>")
    for name, package in jars.PACKAGES.items():
        for jar, why in (
            (tmp_path / "page.jar", "page.jar is not a jar"),
            (packed(tmp_path / "no.jar"), "not contain"),
        ):
            monkeypatch.setenv(package.variable, str(jar))
            assert why in str(jars.find(name).absent)


@pytest.mark.parametrize("name", ["a [1]", "no#1"])
def test_path_that_is_a_pattern_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A jar whose path Spark reads as a pattern is absent, and the reason names the characters."""
    variable, place = jars.PACKAGES["postgresql"].variable, tmp_path / name
    place.mkdir()
    packed(place / "mine.jar", "org.postgresql.Driver")
    monkeypatch.setenv(variable, str(place / "mine.jar"))
    assert "in a path as a pattern" in str(jars.find("postgresql").absent) and jars.setting() == {}


def test_own_folder_that_is_a_pattern_to_spark(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is a downloaded one."""
    publish(repository, f"{GRAPHS}:0.12.3")
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "kit [1]"))
    found = jars.fetch("graphframes")
    assert "[ ] in a path as a pattern" in str(found.absent) and "GRAPHFRAMES_JAR" in found.mend


def test_which_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's variable, then Spark's, then a mirror of Maven's settings, then Maven Central."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(ivy.VARIABLE, raising=False)
    assert ivy.repository() is None
    (tmp_path / ".m2").mkdir()
    text = (
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>'
        "<mirror><mirrorOf>*,!central</mirrorOf><url>https://other.test/</url></mirror>"
        "<mirror><mirrorOf>central</mirrorOf><url> https://mirror.test/maven </url></mirror></mirrors></settings>"
    )
    (tmp_path / ".m2" / "settings.xml").write_text(text)
    assert ivy.repository() == "https://mirror.test/maven"
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    assert ivy.repository() is None
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://spark.test/")
    assert ivy.repository() == "https://spark.test/"
    monkeypatch.setenv(ivy.VARIABLE, str(tmp_path / "a folder"))
    assert ivy.repository() == (tmp_path / "a folder").as_uri()


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy variables that pip obeys apply to jars too."""
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128/")
    monkeypatch.setenv("no_proxy", "localhost, .here.test")
    assert ivy._proxies() == [
        "-Dhttps.proxyHost=proxy.test",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.here.test",
    ]


def test_jars_of_both_hold() -> None:
    """The user's jars are added to the kit's."""
    assert settings.merged({"spark.jars": "/a.jar"}, {"spark.jars": "/b.jar"}) == {"spark.jars": "/a.jar,/b.jar"}
    assert settings.merged({}, {"spark.jars": "/b.jar"}) == {"spark.jars": "/b.jar"}


def test_versions_agree() -> None:
    """GraphFrames' JVM half has the version of the Python half that is locked, and both fit PySpark."""
    lock = (ROOT / "setup" / "requirements.lock").read_text()
    versions = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, re.MULTILINE))
    assert versions["graphframes-py"] == jars.PACKAGES["graphframes"].version
    assert jars._spark() == (versions["pyspark"].split(".")[0], "2.13")
    with pytest.raises(Error, match="the kit downloads only postgresql, graphframes"):
        jars.find("neo4j")
