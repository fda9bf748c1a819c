"""The folder for files that can be made again."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.system import cache


def test_the_variable_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SHAREDSTATE_LITE_CACHE sets the folder. It is created, and its path is absolute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.VARIABLE, "mine")
    assert cache.cache_dir("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


def test_the_checkout_comes_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the variable is unset or empty, the folder is .cache in the checkout."""
    monkeypatch.setattr(cache, "checkout", lambda: tmp_path)
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    assert cache.cache_dir() == tmp_path / ".cache"
    monkeypatch.setenv(cache.VARIABLE, "")
    assert cache.cache_dir("logs") == tmp_path / ".cache" / "logs"


@pytest.mark.parametrize("home", [None, "file"])
def test_the_user_cache_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None) -> None:
    """Without a checkout, or if the checkout cannot be written, the folder is in the user's cache."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(cache, "checkout", lambda: tmp_path / home if home else None)
    monkeypatch.setattr(cache.sys, "platform", "linux")
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir("jars") == tmp_path / "xdg" / "sharedstate-lite" / "jars"


def nobody(number: int) -> pwd.struct_passwd:
    """In place of getpwuid, for a user id without an entry in /etc/passwd."""
    raise KeyError(f"getpwuid(): uid not found: {number}")


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_no_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str) -> None:
    """Without a home folder, the checkout's folder is used; if there is none, the error names HOME and the variable."""
    for name in (cache.VARIABLE, "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(cache.sys, "platform", system)
    monkeypatch.setattr(cache, "checkout", lambda: tmp_path)
    assert cache.cache_dir("logs") == tmp_path / ".cache" / "logs"
    monkeypatch.setattr(cache, "checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Error, match=r"~/\S+/logs \(HOME is not set\).*set SHAREDSTATE_LITE_CACHE"):
        cache.cache_dir("logs")
    assert [path.name for path in tmp_path.iterdir()] == [".cache"]


def test_no_folder_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the folder of the variable cannot be made, the error names both, and no other place is tried."""
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(Error, match=r"cannot write to the cache folder: .*file.*; set SHAREDSTATE_LITE_CACHE"):
        cache.cache_dir("logs")


def test_checkout_is_found() -> None:
    """The tests run from a checkout: the folder above tests/."""
    assert cache.checkout() == Path(__file__).resolve().parents[2]
