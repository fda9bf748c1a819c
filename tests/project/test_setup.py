"""The set-up: one script of the standard library that fetches uv, and an environment that is whole or built again."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ["Makefile", "pyproject.toml", "README.md", "LICENSE", "setup", "sharedstate_lite", "grader", "data"]
NOT_ANSWERING = "http://127.0.0.1:9/simple"


def fake(folder: Path, name: str, body: str) -> None:
    """A program of that name."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("status", [0, 2])
def test_continuous_integration_is_make_test(tmp_path: Path, status: int) -> None:
    """.ci/run prints what `make test` prints, and passes its exit status on. On other machines it installs nothing."""
    fake(tmp_path, "make", f'echo "make $*"; exit {status}')
    fake(tmp_path, "apt-get", "echo installed; exit 1")
    path = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin", "CI": ""}
    done = subprocess.run([ROOT / ".ci" / "run"], env=path, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("make test\n", "", status)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize("network", [0, 100])
def test_continuous_integration_installs_chromium(tmp_path: Path, exists: bool, user: int, network: int) -> None:
    """Only root installs it, only if there is none, and tests go on without it; nothing goes to standard output."""
    fake(tmp_path, "make", "echo tests")
    fake(tmp_path, "id", f"echo {user}")
    fake(tmp_path, "apt-get", f'echo "apt-get $1"; exit {network}')
    for name in ("sh", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    if exists:
        fake(tmp_path, "chromium", "")
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env={"PATH": str(tmp_path), "CI": "true"}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("tests\n", 0)
    called = [line for line in done.stderr.splitlines() if line.startswith("apt-get ")]
    assert called == (
        [] if exists or user else ["apt-get update"] if network else ["apt-get update", "apt-get install"]
    )
    assert done.stderr.endswith("are skipped\n") == (bool(called) and network > 0)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the set-up reads, in a folder with a blank and an umlaut in its name."""
    copy = tmp_path / "a chéckout"
    copy.mkdir()
    for name in FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    return copy


def settings(**more: str) -> dict[str, str]:
    """The variables of this process, without those that choose a Python, a cache or an index."""
    left_out = ("PYTHON", "SHAREDSTATE_LITE_CACHE", "PIP_INDEX_URL", "PIP_CONFIG_FILE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("UV_")}
    proxies = [name for name in kept if name.lower().endswith("_proxy")]
    return kept | dict.fromkeys(proxies, "") | {"UV_DEFAULT_INDEX": NOT_ANSWERING} | more


def make(checkout: Path, target: str = "doctor", **more: str) -> subprocess.CompletedProcess[str]:
    """Run `make` in a copy of the checkout."""
    command = ["make", "--no-print-directory", target]
    return subprocess.run(command, cwd=checkout, env=settings(**more), capture_output=True, text=True)


@pytest.mark.parametrize("target", ["lab", "test"])
def test_without_an_index_one_sentence(checkout: Path, target: str) -> None:
    """Where the index does not answer, one sentence says so and names it, make fails, and there is no .venv."""
    done = make(checkout, target)
    assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr
    assert re.match(r"set-up: the package index did not answer \(http://127.0.0.1:9/simple/uv/: .*check", done.stderr)
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("how", ["variable", "file"])
def test_the_index_of_pip_is_used(checkout: Path, tmp_path: Path, how: str) -> None:
    """Without UV_DEFAULT_INDEX, pip's own settings say where the packages are."""
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = http://127.0.0.1:9/campus/\n")
    named = {"PIP_INDEX_URL": "http://127.0.0.1:9/campus"} if how == "variable" else {"PIP_CONFIG_FILE": str(config)}
    assert "http://127.0.0.1:9/campus/uv/" in make(checkout, UV_DEFAULT_INDEX="", **named).stderr


def test_an_index_with_other_content(checkout: Path) -> None:
    """A page without uv, and a wheel of another digest, are refused by name."""
    code = """
import environment, io, sys, urllib.request
pages = iter(sys.argv[1:])
urllib.request.urlopen = lambda address, timeout: io.BytesIO(next(pages).encode())
environment.WHEELS = dict.fromkeys(environment.WHEELS, "1" * 64)
try:
    environment.fetched(environment.CACHE / "uv")
except environment.Stop as stop:
    print(stop)
"""
    right = f'<a href="uv.whl#sha256={"1" * 64}">'
    for pages, says in ([["<a>"], "has no uv 0."], [[right, "forged"], "its hash differs"]):
        command = [sys.executable, "-c", code, *pages]
        done = subprocess.run(command, cwd=checkout / "setup", env=settings(), capture_output=True, text=True)
        assert says in done.stdout, done.stderr
        assert not (checkout / ".cache" / "uv").exists()


@pytest.fixture
def installing(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """`make lab` in a group of its own, while uv waits for an index that takes connections and never answers."""
    uv = next((ROOT / ".cache").glob("uv-*"), None)
    if uv is None:
        pytest.skip("uv is not in the cache folder: the environment was not made by make")
    (checkout / ".cache").mkdir()
    (checkout / ".cache" / uv.name).symlink_to(uv)
    with socket.create_server(("127.0.0.1", 0)) as index:
        address = f"http://127.0.0.1:{index.getsockname()[1]}/"
        more = {"UV_DEFAULT_INDEX": address, "UV_CACHE_DIR": str(checkout / "uv"), "PYTHON": sys._base_executable}
        child = subprocess.Popen(
            ["make", "lab"],
            cwd=checkout,
            env=settings(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        index.settimeout(120)
        connection, _ = index.accept()
        yield child
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("whom", ["all", "make alone"])
def test_interrupted_ends_all(
    checkout: Path, installing: subprocess.Popen[str], number: signal.Signals, whom: str
) -> None:
    """Ended during the installation, it ends uv too, and the environment has no stamp."""
    below = psutil.Process(installing.pid).children(recursive=True)
    assert any(Path(each.exe()).name.startswith("uv") for each in below)
    if whom == "all":
        os.killpg(installing.pid, number)
    else:
        installing.terminate()
    said, _ = installing.communicate(timeout=120)
    assert "set-up: interrupted" in said and "Traceback" not in said
    assert not (checkout / ".venv" / "sharedstate-setup.json").exists()
    assert psutil.wait_procs(below, timeout=120)[1] == []


def test_killed_the_next_waits_for_uv(checkout: Path, installing: subprocess.Popen[str]) -> None:
    """After SIGKILL of the script, its uv still keeps a second set-up out; uv's end lets it in."""
    *_, script, uv = psutil.Process(installing.pid).children(recursive=True)
    script.kill()
    installing.wait(timeout=120)
    with open(checkout / ".cache" / "logs" / "setup.log", "a") as log:
        with pytest.raises(BlockingIOError):
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        uv.kill()
        fcntl.flock(log, fcntl.LOCK_EX)
    installing.communicate()


def stamp(checkout: Path, **changed: str) -> int:
    """Stamp an environment as complete but for ``changed``. Returns the exit status of the set-up after that."""
    code = (
        "import environment, json; environment.say = lambda *_: None; environment.fetched = lambda _: exit(3)\n"
        f"stamp = {changed!r}\n"
        "import hashlib; digest = hashlib.sha256(b''.join((environment.ROOT / name).read_bytes() "
        "for name in ('pyproject.toml', environment.LOCKS['run']))).hexdigest()\n"
        "whole = {'root': str(environment.ROOT), 'python': environment.PYTHONS, 'run': digest} | stamp\n"
        "environment.STAMP.write_text(json.dumps(whole)); environment.main('run')"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=checkout / "setup", env=settings()).returncode


def environment(checkout: Path) -> None:
    """What the set-up takes for an environment: its settings and its Python."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "pyvenv.cfg").touch()
    (checkout / ".venv" / "bin" / "python").symlink_to(sys._base_executable)


def test_a_second_one_waits_and_builds_nothing_again(checkout: Path) -> None:
    """A set-up that waited for another takes the environment that this has completed."""
    environment(checkout)
    (checkout / ".cache" / "logs").mkdir(parents=True)
    code = "import environment; environment.fetched = lambda _: exit(3); environment.main('run')"
    with open(checkout / ".cache" / "logs" / "setup.log", "a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        command = [sys.executable, "-c", code]
        second = subprocess.Popen(command, cwd=checkout / "setup", env=settings(), stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None and "another one is at work" in second.stdout.readline()
        assert stamp(checkout) == 0
    assert second.communicate(timeout=120) == ("", None)
    assert second.returncode == 0


def test_half_made_is_not_taken_for_whole(checkout: Path) -> None:
    """An environment is complete only if its stamp names this folder, Python and lock, and its Python is there."""
    environment(checkout)
    (checkout / ".venv" / "bin" / "python").rename(checkout / "python")
    assert stamp(checkout) == 3
    (checkout / "python").rename(checkout / ".venv" / "bin" / "python")
    assert stamp(checkout) == 0
    for changed in ({"root": "/elsewhere"}, {"run": "another"}, {"run": "another", "dev": "another"}):
        assert stamp(checkout, **changed) == 3
    code = "import environment; print(environment.digest('dev'))"
    tests = subprocess.run([sys.executable, "-c", code], cwd=checkout / "setup", capture_output=True, text=True).stdout
    assert stamp(checkout, run="another", dev=tests.strip()) == 0  # one for the tests has all that a lesson needs
    assert stamp(checkout, python="python3.12") == 0  # chosen once, and kept
    with (checkout / "setup" / "requirements.lock").open("a") as lock:
        lock.write("# another\n")
    assert stamp(checkout) == 0
    broken = checkout / ".venv" / "sharedstate-setup.json"
    for text in ("", "[]", "{"):
        broken.write_text(text)
        assert "did not answer" in make(checkout).stderr


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
    done = make(checkout)
    assert done.returncode == 2 and "is no virtual environment: move it away" in done.stderr
    assert (place if kind == "file" else place / "thesis.txt").read_text() == "years"


def test_letters_of_a_path_need_no_locale(checkout: Path, tmp_path: Path) -> None:
    """A checkout under a name with other letters than ASCII is found where the locale has none but these."""
    subprocess.run([sys._base_executable, "-I", "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    (place,) = (checkout / ".venv" / "lib").glob("python*/site-packages")
    (place / "_sharedstate_lite.pth").write_text(f"{checkout}\n", encoding="utf-8")
    code = "import environment; environment.plain_path()"
    subprocess.run([sys._base_executable, "-c", code], cwd=checkout / "setup", check=True)
    (checkout / "found.py").touch()
    for locale in ("POSIX", "C.UTF-8"):
        command = [checkout / ".venv" / "bin" / "python", "-c", "import found"]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "LC_ALL": locale}, check=True)


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
    """The installed packages have no conflict."""
    uv = next((ROOT / ".cache").glob("uv-*"), None)
    if uv is None:
        pytest.skip("uv is not in the cache folder: the environment was not made by make")
    done = subprocess.run([uv, "pip", "check", "--python", sys.executable], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("repository", ["a folder", "no server"])
def test_jars_that_cannot_be_had_stop_nothing(checkout: Path, tmp_path: Path, repository: str) -> None:
    """Where jars are not carried, or no server answers, the set-up goes on and the log says so."""
    code = (
        f"import environment, sys; environment.ROOT\n"
        "environment.LOG.parent.mkdir(parents=True)\n"
        "with open(environment.LOG, 'w') as log:\n"
        f"    environment.run([{sys.executable!r}, '-m', 'sharedstate_lite.spark.session.jars'], log, needed=False)\n"
    )
    maven = {"SHAREDSTATE_LITE_MAVEN": str(tmp_path) if repository == "a folder" else "http://127.0.0.1:9/"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=checkout / "setup", env=settings(**maven), capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    log = (checkout / ".cache" / "logs" / "setup.log").read_text()
    found = re.findall(r"^jars: (\w+): missing: .*sharedstate_lite.spark.session.jars", log, re.MULTILINE)
    assert found == ["postgresql", "graphframes"]


@pytest.mark.slow
def test_fresh_checkout(checkout: Path) -> None:
    """From nothing, `make doctor` builds the environment and finds the machine ready; the second run builds nothing.

    An interrupted one is built again, and a moved checkout too.
    """
    public = {name: value for name, value in settings().items() if name != "UV_DEFAULT_INDEX"}
    command = ["make", "doctor"]
    first = subprocess.run(command, cwd=checkout, env=public, capture_output=True, text=True)
    assert first.returncode == 0 and "set-up: done" in first.stdout, first.stdout + first.stderr
    assert len(first.stdout.splitlines()) < 30
    second = subprocess.run(command, cwd=checkout, env=public, capture_output=True, text=True)
    assert second.returncode == 0 and "set-up:" not in second.stdout
    assert json.loads((checkout / ".venv" / "sharedstate-setup.json").read_text())["root"] == str(checkout)
    moved = checkout.rename(checkout.with_name("moved"))
    third = subprocess.run(command, cwd=moved, env=public, capture_output=True, text=True)
    assert third.returncode == 0 and "set-up: done" in third.stdout
