"""bench/pathway/env.py: an environment counts only when it is complete, and a failure is one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import environment
from bench.pathway import env
from sharedstate_lite.errors import Error

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty caches folder."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    return tmp_path


def test_nothing_is_there_at_first(cache: Path) -> None:
    """Without the environment the reason is the command that makes it, and --check changes nothing."""
    assert env.missing() == "python bench/pathway/env.py makes its environment"
    done = subprocess.run([sys.executable, ROOT / env.COMMAND.split()[1], "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, f"Pathway: absent: {env.missing()}\n")
    assert list(cache.iterdir()) == []


def test_a_stamp_is_of_one_lock_and_one_python(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp of another lock, or of an interpreter that does not start, is no environment."""
    folder = cache / "pathway-venv"
    folder.mkdir()
    (folder / "complete").write_text("another")
    assert "another lock or Python" in str(env.missing())
    (folder / "complete").write_text(env.expected())
    (folder / "bin").mkdir()
    env.python().symlink_to("/bin/false")
    assert "does not start" in str(env.missing())
    env.python().unlink()
    env.python().symlink_to(sys.executable)
    assert env.missing() is None


def test_what_pip_refuses_is_one_sentence(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip cannot fill the environment, its last words are told, with the log, and no stamp is left."""
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(env, "LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said: list[str] = []
    with pytest.raises(Error, match=r"pip could not fill it: .*no-such-package.*; all its words are in .*\.log$"):
        env.make(said.append)
    assert len(said) == 1
    assert env.missing() == "python bench/pathway/env.py makes its environment"


def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that the lock has no wheels for is told before anything is made."""
    monkeypatch.setattr(environment, "PYTHONS", ((3, 99), (3, 99)))
    with pytest.raises(Error, match=r"locked for Python 3.99 to 3.99, and this is 3\.\d+"):
        env.make(print)


def test_the_lock_is_exact_and_names_no_host() -> None:
    """Every package has one version and hashes, and no line says where it is fetched from."""
    text = env.LOCK.read_text()
    pins = re.findall(r"^[a-z0-9-]+==[^\s]+", text, re.MULTILINE)
    assert any(pin.startswith("pathway==0.33.") for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins) > 50
    assert not re.search(r"://|--index-url|--find-links", text)
