"""The files of the project that must agree with one another."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sharedstate_lite.doctor import machine
from sharedstate_lite.spark.session import java

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *(each for name, extra in EXTRAS.items() if name not in ("all", "dev") for each in extra),
]


def locked(name: str) -> list[str]:
    """The pins of a lock file, plain; a package under different markers may come twice."""
    return re.findall(r"^[a-z0-9-]+==[^\s;\\]+", (ROOT / "setup" / name).read_text(), re.MULTILINE)


def test_lock_has_what_is_declared() -> None:
    """Every locked version is in the declared range, and what the tests add moves nothing that the lab has."""
    run, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    for lock, declared in ((run, DECLARED), (dev, EXTRAS["dev"])):
        versions = dict(pin.split("==") for pin in lock)
        for each in map(Requirement, declared):
            assert each.specifier.contains(versions[canonicalize_name(each.name)]), each
    assert set(run) <= set(dev)
    assert len(run) > 90


def test_lock_is_exact_and_portable() -> None:
    """Every package has hashes, for the wheels of every platform; no line names an index, a host or a path."""
    for name in ("requirements-build.lock", "requirements.lock", "requirements-dev.lock"):
        text = (ROOT / "setup" / name).read_text()
        entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert len(entries) == len(locked(name))
        assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
        assert not re.search(r"https?:|file:|^-|--index|--find-links|@ ", text, re.MULTILINE)
    numpy = next(entry for entry in entries if entry.startswith("numpy=="))
    assert numpy.count("--hash") > 20


def test_lock_installs_on_every_platform() -> None:
    """`make lock` found wheels of these very locks for Linux and macOS on both processors, and for Windows.

    The locks have hashes without the names of wheels, so a test cannot see for which platform a wheel is.
    """
    record = json.loads((ROOT / "setup" / "wheels.json").read_text())
    systems, processors = ("unknown-linux-gnu", "apple-darwin"), ("x86_64", "aarch64")
    every = {f"{p}-{s} 3.{minor}" for p in processors for s in systems for minor in range(11, 15)}
    every |= {f"x86_64-pc-windows-msvc 3.{minor}" for minor in range(11, 15)}
    assert set(record) == {path.name for path in (ROOT / "setup").glob("requirements*.lock")}
    for name, lock in record.items():
        assert lock["sha256"] == hashlib.sha256((ROOT / "setup" / name).read_bytes()).hexdigest(), name
        assert set(lock["installs on"]) == every


def test_build_tools_are_locked() -> None:
    """What builds this package is pinned to the version that the set-up installs."""
    assert set(PROJECT["build-system"]["requires"]) <= set(locked("requirements-build.lock"))


def test_environment_file_agrees() -> None:
    """environment.yml has pyproject.toml's Python, the package with all extras, and the five that it is built on."""
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    plainly = [entry for entry in content["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in content["dependencies"] if isinstance(entry, dict)]
    assert content["channels"] == ["conda-forge"]
    assert "python " + PROJECT["project"]["requires-python"] in plainly
    assert {entry.split()[0] for entry in plainly} == {"python", "openjdk", "make", "pip"}
    assert pip[0] == "--editable .[all,dev]"
    assert set(pip[1:]) == {"pyspark", "jupyterlab", "ipywidgets", "plotly", "graphframes-py"}
    assert set(pip[1:]) <= {Requirement(each).name for each in DECLARED}


def test_pyproject_says_what_for() -> None:
    """Each dependency of pyproject.toml has a comment."""
    text = (ROOT / "pyproject.toml").read_text().partition("\nall = ")
    text = text[0] + text[2].partition("[tool.")[0]
    found = re.findall(r'^    "([^"]+)",? +# \S.+$', text, re.MULTILINE)
    assert found == [*DECLARED, *EXTRAS["dev"]]


def test_the_grader_and_spark_are_left_out_on_windows() -> None:
    """What needs POSIX has a marker, so that `pip install .[all]` works on Windows for the notebooks without Spark."""
    for name in ("spark", "postgres", "grader"):
        assert [each for each in map(Requirement, EXTRAS[name]) if str(each.marker) != 'sys_platform != "win32"'] == []
    assert EXTRAS["all"] == ["sharedstate-lite[notebooks,spark,postgres,grader]"]


def test_pages_count_the_dependencies() -> None:
    """README.md and CHANGELOG.md say how many packages `pip install .` brings."""
    number = ["no", "one", "two", "three", "four", "five", "six", "seven"][len(PROJECT["project"]["dependencies"])]
    for page in ("README.md", "CHANGELOG.md"):
        assert f" {number} dependencies" in (ROOT / page).read_text()


def test_javas_agree() -> None:
    """conda's Java is one that the kit takes."""
    assert f"openjdk >={java.OLDEST},<{java.NEWEST + 1} " in (ROOT / "environment.yml").read_text()


def test_pythons_agree() -> None:
    """The set-up, the doctor and pyproject.toml have the same oldest and newest Python."""
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    assert (machine.OLDEST, machine.NEWEST) == ((3, 11), (3, 14))
    assert (
        f'PYTHONS = "cpython{PROJECT["project"]["requires-python"]}"' in (ROOT / "setup" / "environment.py").read_text()
    )


def test_citation_and_licence_agree() -> None:
    """CITATION.cff has the licence of pyproject.toml, and LICENSE is that licence in full."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["license"] == PROJECT["project"]["license"] == "Apache-2.0"
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text and len(text) > 10_000


def test_types_are_shipped() -> None:
    """Both packages say that they are typed."""
    assert all((ROOT / name / "py.typed").is_file() for name in ("sharedstate_lite", "grader"))


def test_help_names_every_target() -> None:
    """`make help` lists every target with what it does."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    command = ["make", "--no-print-directory", "help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in said.splitlines()} == targets >= {"lab", "test", "slow", "lock", "clean"}


def test_no_two_modules_of_tests_have_one_name() -> None:
    """Tests import one another by bare names, so each name is there once; conftest.py and systems to grade apart."""
    systems = {"zoo", "compose"}
    names = [p.name for p in (ROOT / "tests").rglob("*.py") if p.name != "conftest.py" and not systems & set(p.parts)]
    assert len(names) > 100
    assert sorted(n for n in set(names) if names.count(n) > 1) == []
