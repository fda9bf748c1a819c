"""The Python that checkout.toml asks for: it is found by its files, and builds and runs inside the sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from boxes import said, sandbox

from grader.errors import SubmissionError
from grader.processes import prepare, python
from grader.processes.python import find, programs_of
from grader.submission import Submission


def install(folder: Path, version: str) -> Path:
    """Make the files by which a Python is recognized. Returns its program."""
    program = folder / "bin" / f"python{version}"
    library = folder / "lib" / program.name
    for place in (program.parent, library):
        place.mkdir(parents=True)
    (library / "os.py").touch()
    program.write_text("#!/bin/sh\necho not a Python at all\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which versions of pyenv are found, and no other Python."""
    monkeypatch.setattr(python, "_PLACES", (str(tmp_path / "*" / "bin"),))
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    return tmp_path


def test_a_version_is_found_the_newest_patch_first(only: Path) -> None:
    """A script in pyenv's folder of shims is not a Python, because no library is beside it."""
    install(only / "3.12.9", "3.12")
    newest = install(only / "3.12.10", "3.12")
    install(only / "3.9.1", "3.9")
    (only / "shims").mkdir()
    (only / "shims" / "python3.12").write_text("#!/bin/sh\n")
    (only / "shims" / "python3.12").chmod(0o755)
    assert find("3.12") == newest
    with pytest.raises(SubmissionError, match=r"has no Python 3\.13; it has 3\.9, 3\.12\. Install Python 3\.13"):
        find("3.13")


def test_a_link_is_followed_except_into_a_virtual_environment(only: Path) -> None:
    """A link on the PATH leads to a folder that the sandbox must show; an environment must keep its packages."""
    program = install(only / "3.12.1", "3.12")
    environment = only / "team" / "bin" / "python"
    for link in (only / "shims" / "python3.12", environment):
        link.parent.mkdir(parents=True)
        link.symlink_to(program)
    (only / "team" / "pyvenv.cfg").touch()
    assert find("3.12") == find(str(only / "shims" / "python3.12")) == program
    assert find(str(environment)) == environment
    assert environment.parent.parent in programs_of(environment, only).readable


@pytest.mark.parametrize("path", ["/bin/sh", "/nowhere/bin/python3.12", "{submission}/python3.12"])
def test_a_path_that_is_not_a_python_is_refused(tmp_path: Path, path: str) -> None:
    """The grader does not run the program to find out, because it could be the submission's own."""
    (tmp_path / "python3.12").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (tmp_path / "python3.12").chmod(0o755)
    with pytest.raises(SubmissionError, match=r"python: .* is not a Python on this machine; write the path"):
        find(path.replace("{submission}", str(tmp_path)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("tier", [1, 2])
def test_it_builds_and_runs_in_the_sandbox(tmp_path: Path, tier: int) -> None:
    """`python3` is this Python in the build and in both tiers; a virtual environment made from it works there.

    The grader's own programs are not on the PATH, because they would run on another Python.
    """
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "app.py").touch()
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    build = (("python3", "-m", "venv", "--without-pip", ".venv"), ("python", "-c", "import sys; print(sys.prefix)"))
    built = prepare(Submission("team", tmp_path / "team", {}, (), build, str(base)), tmp_path / "cache", 60, tier)
    own = str(built.folder / ".venv" / "bin" / "python3")
    code = (
        "import shutil, subprocess, sys\n"
        "print(sys.prefix, shutil.which('ruff'), shutil.which('postgres') is not None)\n"
        "print(subprocess.run([sys.argv[1], '-c', 'import ssl, sys; print(sys.prefix)'], capture_output=True).stdout)\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    box = sandbox(tier, scratch, built.folder, built.programs)
    try:
        status, text = said(box, code, own, tmp_path / "data")
    finally:
        box.close()
    assert (status, text.split("\n")[0]) == (0, f"{sys.base_prefix} None True")
    assert str(built.folder / ".venv") in text.split("\n")[1]
