"""The cache of jars: downloads are complete and verified; what cannot be downloaded is absent, with the reason."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import socket
import urllib.request
import zipfile
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import home, jars, settings

ROOT = Path(__file__).resolve().parents[3]
GRAPHS, GRAPHX_JAR = (f"io.graphframes:graphframes-{part}spark4_2.13" for part in ("", "graphx-"))
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
    monkeypatch.setenv(jars.VARIABLE, str(tmp_path / "repository"))
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


def publish(repository: Path, coordinates: str, checksum: str = "") -> bytes:
    """Put a package into the repository, with its checksum; returns the content of its jar."""
    group, artifact, version = coordinates.split(":")
    folder = repository.joinpath(*group.split("."), artifact, version)
    folder.mkdir(parents=True)
    jar = f"the jar of {coordinates}".encode()
    (folder / f"{artifact}-{version}.jar").write_bytes(jar)
    (folder / f"{artifact}-{version}.jar.sha1").write_text(checksum or hashlib.sha1(jar).hexdigest())
    return jar


def publish_graphs(repository: Path) -> tuple[bytes, bytes]:
    """Put the two jars of GraphFrames into the repository; returns their contents."""
    return publish(repository, f"{GRAPHS}:0.12.3"), publish(repository, f"{GRAPHX_JAR}:0.12.3")


def packed(path: Path, *classes: str) -> Path:
    """A jar that contains these classes, without their code; returns its path."""
    with zipfile.ZipFile(path, "w") as jar:
        for name in classes:
            jar.writestr(f"{name.replace('.', '/')}.class", b"")
    return path


def nothing_is_fetched(*arguments: object, **named: object) -> None:
    """In place of what opens an address, where nothing must be fetched."""
    raise AssertionError("fetched")


def test_fetched_and_passed_to_a_session(repository: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All jars of a package are fetched once, and passed to a session."""
    contents = publish_graphs(repository)
    assert jars.find("graphframes").absent == f"{GRAPHS}:0.12.3 has not been downloaded yet" and jars.setting() == {}
    heard: list[str] = []
    found = jars.fetch("graphframes", heard.append)
    names = ["graphframes-spark4_2.13-0.12.3.jar", "graphframes-graphx-spark4_2.13-0.12.3.jar"]
    assert found.absent is None and [path.name for path in found.paths] == heard == names
    assert tuple(path.read_bytes() for path in found.paths) == contents
    monkeypatch.setattr(urllib.request, "urlopen", nothing_is_fetched)
    assert jars.find("graphframes") == found
    assert jars.setting() == {"spark.jars": ",".join(map(str, found.paths))}
    assert [path.name for path in empty.iterdir() if path.name.startswith(".")] == []


def test_absence_is_remembered(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be downloaded is absent, with the reason and what to do; only a command tries again."""
    found = jars.fetch("graphframes")
    assert found.absent is not None and "cannot be downloaded" in found.absent and jars.AGAIN in found.mend
    with monkeypatch.context() as quiet:
        quiet.setattr(urllib.request, "urlopen", nothing_is_fetched)
        assert jars.find("graphframes") == found and jars.setting() == {}
    publish_graphs(repository)
    assert jars.main(["graphframes"]) == 0
    said = capsys.readouterr().out
    assert "downloading graphframes-spark4_2.13-0.12.3.jar" in said and "MB" in said
    assert jars.find("graphframes").absent is None


def test_wrong_checksums(repository: Path, empty: Path) -> None:
    """A file that does not match the repository's checksum, or the kit's, is rejected."""
    publish(repository, f"{GRAPHS}:0.12.3", checksum="0" * 40)
    assert "does not match the repository's checksum" in str(jars.fetch("graphframes").absent)
    publish(repository, "org.postgresql:postgresql:42.7.14")
    assert "does not have the SHA-256" in str(jars.fetch("postgresql").absent)
    assert sorted(path.name for path in empty.iterdir()) == ["graphframes.json", "postgresql.json"]


def test_damaged_file_is_absent(repository: Path) -> None:
    """A jar that was changed or removed in the cache is not passed to a session; another download repairs it."""
    publish_graphs(repository)
    paths = jars.fetch("graphframes").paths
    for damage in (lambda: paths[0].write_bytes(b"short"), paths[1].unlink):
        damage()
        assert "is missing or was changed" in str(jars.find("graphframes").absent) and jars.setting() == {}
        assert jars.fetch("graphframes").paths == paths


def test_another_version_is_another_package(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars of an earlier kit do not count."""
    publish_graphs(repository)
    jars.fetch("graphframes")
    newer = dataclasses.replace(jars.PACKAGES["graphframes"], version="0.12.4")
    monkeypatch.setitem(jars.PACKAGES, "graphframes", newer)
    assert jars.find("graphframes").absent == f"{GRAPHS}:0.12.4 has not been downloaded yet"


def test_repository_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers, and a closed port: the download ends with the reason."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(jars, "READ_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(jars.VARIABLE, f"http://127.0.0.1:{server.getsockname()[1]}/maven")
        assert "cannot be downloaded (timed out)" in str(jars.fetch("postgresql").absent)
    assert "cannot be downloaded (<urlopen error" in str(jars.fetch("postgresql").absent)


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
        assert re.search(rf"{variable}=.*no class {named}", str(found.absent)) and variable in found.mend
        assert jars.setting() == {} and jars.main(["graphframes"]) == 1
    monkeypatch.setenv(variable, str(packed(tmp_path / "both.jar", CORE, GRAPHX)))
    assert jars.find("graphframes").absent is None
    (tmp_path / "page.jar").write_text("<html>not found</html>")
    for name, package in jars.PACKAGES.items():
        for jar, why in (
            (tmp_path / "page.jar", "page.jar is not a jar"),
            (packed(tmp_path / "no.jar"), "no class"),
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
    publish_graphs(repository)
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "kit [1]"))
    found = jars.fetch("graphframes")
    assert "[ ] in a path as a pattern" in str(found.absent) and "GRAPHFRAMES_JAR" in found.mend


def test_which_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's variable, then Spark's, then a mirror of Maven's settings, then Maven Central."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(jars.VARIABLE, raising=False)
    assert jars.repository() == jars.CENTRAL
    (tmp_path / ".m2").mkdir()
    text = (
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>'
        "<mirror><mirrorOf>*,!central</mirrorOf><url>https://other.test/</url></mirror>"
        "<mirror><mirrorOf>central</mirrorOf><url> https://mirror.test/maven </url></mirror></mirrors></settings>"
    )
    (tmp_path / ".m2" / "settings.xml").write_text(text)
    assert jars.repository() == "https://mirror.test/maven"
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    assert jars.repository() == jars.CENTRAL
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://spark.test/")
    assert jars.repository() == "https://spark.test/"
    monkeypatch.setenv(jars.VARIABLE, str(tmp_path / "a folder"))
    assert jars.repository() == (tmp_path / "a folder").as_uri()


def test_jars_of_both_hold() -> None:
    """The user's jars are added to the kit's."""
    assert settings.merged({"spark.jars": "/a.jar"}, {"spark.jars": "/b.jar"}) == {"spark.jars": "/a.jar,/b.jar"}
    assert settings.merged({}, {"spark.jars": "/b.jar"}) == {"spark.jars": "/b.jar"}


def test_versions_agree() -> None:
    """GraphFrames' JVM half has the version of the Python half that is locked, and both fit PySpark."""
    lock = (ROOT / "setup" / "requirements.lock").read_text()
    versions = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, re.MULTILINE))
    assert versions["graphframes-py"] == jars.PACKAGES["graphframes"].version
    core = next((home.package() / "jars").glob("spark-core_*.jar")).name
    assert core == f"spark-core_{jars.SCALA}-{versions['pyspark']}.jar" and versions["pyspark"].startswith(jars.SPARK)
    with pytest.raises(Error, match="the kit downloads only postgresql, graphframes"):
        jars.find("neo4j")
