"""The set-up: the choice of a Python, and an environment that is whole or not there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ["Makefile", "pyproject.toml", "LICENSE", "setup", "sharedstate_lite", "grader"]


def fake(folder: Path, name: str, body: str) -> None:
    """A program of that name."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def path(folder: Path, **variables: str) -> dict[str, str]:
    """Variables under which the folder's programs come first."""
    return {**os.environ, "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin", **variables}


@pytest.mark.parametrize("status", [0, 2])
def test_continuous_integration_is_make_test(tmp_path: Path, status: int) -> None:
    """.ci/run calls `make test`, nothing else, and passes its exit status on."""
    fake(tmp_path, "make", f'echo "make $*"; exit {status}')
    done = subprocess.run([ROOT / ".ci" / "run"], env=path(tmp_path), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("make test\n", status)


GOOD, OLD, BARE, GONE = "exit 0", "printf 'Python 3.9.2'; exit 3", "printf 3.11; exit 4", "exit 127"
NAMES = ["python3.13", "python3.12", "python3.11", "python3.14", "python3", "python"]


@pytest.mark.parametrize(
    ("pythons", "named", "chosen", "said"),
    [
        ({"python3.14": GOOD, "python3.12": GOOD}, "", "python3.12", ""),
        ({"python3.14": GOOD, "python3": OLD}, "", "python3.14", ""),
        ({"python3.13": GONE, "python3.12": BARE, "python3": GOOD}, "", "python3", ""),
        ({"python": GOOD}, "", "python", ""),
        ({"python3": OLD}, "", "", "python3 is Python 3.9.2.*apt install python3"),
        ({}, "", "", "no Python at all"),
        ({"python3.11": BARE, "python3": OLD}, "", "", "apt install python3.11-venv"),
        ({"python3.12": GOOD, "mine": GOOD}, "mine", "mine", ""),
        ({"python3.12": GOOD, "mine": OLD}, "mine", "", "PYTHON=mine is Python 3.9.2"),
        ({"python3.12": GOOD, "mine": BARE}, "mine", "", "apt install python3.11-venv"),
        ({"python3.12": GOOD}, "no such", "", "PYTHON=no such does not run"),
    ],
)
def test_choice_of_python(tmp_path: Path, pythons: dict[str, str], named: str, chosen: str, said: str) -> None:
    """The best Python that fits is taken; PYTHON is obeyed; where none fits, one sentence says so and what to do."""
    for name in NAMES:
        fake(tmp_path, name, GONE)
    for name, body in pythons.items():
        fake(tmp_path, name, body)
    command = ["sh", ROOT / "setup" / "find-python.sh"]
    done = subprocess.run(command, env=path(tmp_path, PYTHON=named), capture_output=True, text=True)
    assert done.stdout.strip() == chosen
    assert done.returncode == (0 if chosen else 1)
    assert len(done.stderr.splitlines()) == (0 if chosen else 1) and re.search(said, done.stderr), done.stderr


def test_real_python_fits() -> None:
    """The Python that runs these tests is one that the set-up would take."""
    command = ["sh", ROOT / "setup" / "find-python.sh"]
    base = sys._base_executable
    done = subprocess.run(command, env={**os.environ, "PYTHON": base}, capture_output=True, text=True)
    assert done.stdout.strip() == base, done.stderr


# --- an environment that is whole or not there -------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the set-up reads, in a folder with a space in its name."""
    copy = tmp_path / "a checkout"
    copy.mkdir()
    for name in FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    return copy


def offline(**variables: str) -> dict[str, str]:
    """Variables under which pip finds no package anywhere."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "SHAREDSTATE_LITE_CACHE")}
    return {**kept, "PYTHON": sys._base_executable, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", **variables}


@pytest.mark.parametrize("target", ["lab", "test"])
def test_no_packages_leaves_nothing(checkout: Path, target: str) -> None:
    """Where pip gets no packages, one sentence says so, make fails, and no half-made .venv is left."""
    (checkout / ".venv-gone-1" / "lib").mkdir(parents=True)
    done = subprocess.run(["make", target], cwd=checkout, env=offline(), capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr
    assert re.match(r"set-up: .*hatchling.* log in \S", done.stderr), done.stderr
    assert not list(checkout.glob(".venv*"))


def test_no_python_leaves_nothing(checkout: Path) -> None:
    """Where no Python fits, make fails with the one sentence and makes nothing."""
    done = subprocess.run(["make", "lab"], cwd=checkout, env=offline(PYTHON="false"), capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("set-up: PYTHON=false does not run")
    assert not (checkout / ".venv").exists() and not (checkout / ".cache").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_leaves_nothing(checkout: Path, number: signal.Signals) -> None:
    """Ended in the middle of the installation, it ends pip too and leaves no .venv."""
    with socket.create_server(("127.0.0.1", 0)) as index:  # takes the connection and never answers
        address = f"http://127.0.0.1:{index.getsockname()[1]}/"
        names = [name for name in os.environ if name.lower().endswith("_proxy")]
        settings = offline(PIP_NO_INDEX="0", PIP_INDEX_URL=address, PIP_NO_CACHE_DIR="1", **dict.fromkeys(names, ""))
        make = subprocess.Popen(
            ["make", "lab"],
            cwd=checkout,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        index.settimeout(120)
        connection, _ = index.accept()
        below = psutil.Process(make.pid).children(recursive=True)
        assert any("pip" in each.cmdline() for each in below)
        os.killpg(make.pid, number)
        said, _ = make.communicate(timeout=120)
        connection.close()
    assert "interrupted" in said and "Traceback" not in said
    assert not (checkout / ".venv").exists()
    assert psutil.wait_procs(below, timeout=120)[1] == []


def test_killed_is_waited_for(checkout: Path) -> None:
    """Where the set-up was killed, the next one waits until pip, which was not, has ended, and begins anew."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        address = f"http://127.0.0.1:{index.getsockname()[1]}/"
        settings = offline(PIP_NO_INDEX="0", PIP_INDEX_URL=address, PIP_NO_CACHE_DIR="1")
        command = [sys._base_executable, "-I", "-u", "setup/bootstrap.py", "run"]
        first = subprocess.Popen(command, cwd=checkout, env=settings, stdout=subprocess.DEVNULL)
        index.settimeout(120)
        connection, _ = index.accept()
        below = psutil.Process(first.pid).children(recursive=True)
        first.kill()
        first.wait()
        second = subprocess.Popen(
            command, cwd=checkout, env=offline(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert second.stdout is not None
        assert "another one is at work" in second.stdout.readline()
        for each in below:
            each.kill()
        said, _ = second.communicate(timeout=120)
        connection.close()
    assert said.startswith("set-up: .venv with Python") and "hatchling" in said
    assert not list(checkout.glob(".venv*"))


def test_letters_of_a_path_need_no_locale(tmp_path: Path) -> None:
    """A checkout under a name with other letters than ASCII is found where the locale has none but these."""
    checkout = tmp_path / "\u00e9t\u00e9 'a' \\ \u732b"
    shutil.copytree(ROOT / "setup", checkout / "setup")
    subprocess.run([sys._base_executable, "-I", "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    (place,) = (checkout / ".venv" / "lib").glob("python*/site-packages")
    (place / "kit.pth").write_text(f"{checkout}\n", encoding="utf-8")
    code = "import sys; sys.path.insert(0, 'setup'); import bootstrap; bootstrap.plain_paths()"
    subprocess.run([sys._base_executable, "-c", code], cwd=checkout, check=True)
    (checkout / "found.py").touch()
    for locale in ("POSIX", "C.UTF-8"):
        command = [checkout / ".venv" / "bin" / "python", "-c", "import found"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "LC_ALL": locale}, check=True)


def test_sigterm_to_make_alone(checkout: Path) -> None:
    """SIGTERM to make during the installation reaches the set-up."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        address = f"http://127.0.0.1:{index.getsockname()[1]}/"
        settings = offline(PIP_NO_INDEX="0", PIP_INDEX_URL=address, PIP_NO_CACHE_DIR="1")
        make = subprocess.Popen(
            ["make", "lab"], cwd=checkout, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        index.settimeout(120)
        connection, _ = index.accept()
        below = psutil.Process(make.pid).children(recursive=True)
        make.terminate()
        make.wait(timeout=120)
        assert psutil.wait_procs(below, timeout=120)[1] == []
        connection.close()
    assert not (checkout / ".venv").exists()


def bootstrap(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up's Python half directly."""
    command = [sys._base_executable, "-I", "setup/bootstrap.py", *arguments]
    return subprocess.run(command, cwd=checkout, env=offline(), capture_output=True, text=True)


def test_half_made_is_not_taken_for_whole(checkout: Path) -> None:
    """Without its stamp, or with that of another Python, lock or folder, an environment is not complete."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys._base_executable)
    assert bootstrap(checkout, "--check", "run").returncode == 1
    code = (
        "import json, sys; sys.path.insert(0, 'setup'); import bootstrap; print(json.dumps(bootstrap.expected('run')))"
    )
    said = subprocess.run([sys._base_executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=True)
    stamp = json.loads(said.stdout)
    file = checkout / ".venv" / "sharedstate-setup.json"
    file.write_text(said.stdout)
    assert bootstrap(checkout, "--check", "run").returncode == 0
    assert bootstrap(checkout, "--check", "dev").returncode == 1
    for change in ({"python": "3.11.0"}, {"root": "/elsewhere"}, {"base": "/usr/bin/other"}):
        file.write_text(json.dumps(stamp | change))
        assert bootstrap(checkout, "--check", "run").returncode == 1
    for broken in ("", "[]", said.stdout[:50]):
        file.write_text(broken)
        assert bootstrap(checkout, "--check", "run").returncode == 1
    file.write_text(said.stdout)
    with (checkout / "setup" / "requirements.txt").open("a") as lock:
        lock.write("# another\n")
    assert bootstrap(checkout, "--check", "run").returncode == 1


def test_chosen_python_is_kept(checkout: Path, tmp_path: Path) -> None:
    """An environment that lacks something is extended or rebuilt with the Python that it was made with."""
    fake(tmp_path / "bin", "python3.13", "exit 0")  # what a search would find
    venv = ["-I", "-m", "venv", "--without-pip", checkout / ".venv"]
    subprocess.run([sys._base_executable, *venv], check=True)
    settings = offline(PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", PYTHON="")
    done = subprocess.run(["make", "test"], cwd=checkout, env=settings, capture_output=True, text=True)
    assert f"({sys._base_executable})" in done.stdout and "hatchling" in done.stderr


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_somebody_elses_folder_is_left_alone(checkout: Path, tmp_path: Path, kind: str) -> None:
    """A .venv that is no virtual environment is refused, and nothing in it is touched."""
    place, elsewhere = checkout / ".venv", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("years")
    if kind == "folder":
        elsewhere.rename(place)
    elif kind == "file":
        place.write_text("years")
    else:
        place.symlink_to(elsewhere)
    done = bootstrap(checkout, "run")
    assert done.returncode == 1 and "is no virtual environment: move it away" in done.stderr
    assert (place if kind == "file" else place / "thesis.txt").read_text() == "years"


def test_clean_removes_what_was_made_and_nothing_else(checkout: Path) -> None:
    """`make clean` removes environment, caches and leftovers of builds, and leaves a person's files."""
    made = [".venv/x", ".cache/x", "build/x", "dist/x", "a.egg-info/x", "sharedstate_lite/__pycache__/x"]
    kept = [
        "notebooks/mine.ipynb",
        "work/notebooks/mine.ipynb",
        "data/.cache/x",
        "data/build/x",
        "my.venv/x",
        "notes.txt",
    ]
    for name in [*made, *kept]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("x")
    subprocess.run(["make", "clean"], cwd=checkout, check=True)
    assert [name for name in made if (checkout / name).parent.exists()] == []
    assert [name for name in kept if not (checkout / name).exists()] == []
    assert (checkout / "Makefile").exists() and (checkout / "sharedstate_lite" / "py.typed").exists()


def test_packages_fit_together() -> None:
    """pip finds no conflict among the installed packages."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("repository", "limit"), [("a folder", 300), ("nobody", 300), ("deaf", 1)])
def test_jars_that_cannot_be_had_stop_nothing(checkout: Path, tmp_path: Path, repository: str, limit: int) -> None:
    """Where jars are not carried, nobody answers, or an answer never ends, the set-up goes on and the log says so."""
    code = (
        "import sys; sys.path.insert(0, 'setup'); import bootstrap; from pathlib import Path\n"
        f"bootstrap.ENVIRONMENT, bootstrap.KIT_SECONDS = Path({sys.prefix!r}), {limit}\n"
        "bootstrap.LOG.parent.mkdir(parents=True)\n"
        "bootstrap.kit('jars', 'jars: fetching', open(bootstrap.CACHE / 'setup.lock', 'w')); print('on')"
    )
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1] if repository == 'deaf' else 9}/"
        settings = offline(SHAREDSTATE_LITE_MAVEN=str(tmp_path) if repository == "a folder" else address)
        done = subprocess.run(
            [sys._base_executable, "-c", code], cwd=checkout, env=settings, capture_output=True, text=True, timeout=120
        )
    assert (done.stdout, done.stderr, done.returncode) == ("on\n", "", 0)
    log = (checkout / ".cache" / "logs" / "setup.log").read_text()
    absent = [] if repository == "deaf" else ["postgresql", "graphframes"]
    assert re.findall(r"^jars: (\w+) \S+: missing: .*sharedstate_lite.spark.session.jars", log, re.MULTILINE) == absent


@pytest.mark.slow
def test_fresh_checkout(checkout: Path) -> None:
    """From nothing, `make doctor` builds the environment and finds the machine ready; the second run builds nothing."""
    shutil.copy(ROOT / "README.md", checkout)
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("SHAREDSTATE", "PYTHON"))}
    first = subprocess.run(["make", "doctor"], cwd=checkout, env=settings, capture_output=True, text=True)
    assert first.returncode == 0 and "set-up: done" in first.stdout, first.stdout + first.stderr
    assert "DEPRECATION" not in (checkout / ".cache" / "logs" / "setup.log").read_text()
    second = subprocess.run(["make", "doctor"], cwd=checkout, env=settings, capture_output=True, text=True)
    assert second.returncode == 0 and "set-up:" not in second.stdout
