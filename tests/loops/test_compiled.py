"""How loops run: their cache, the switch from Python, and what happens without Numba or a place for the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sharedstate_lite
from sharedstate_lite import loops
from sharedstate_lite.errors import Error
from sharedstate_lite.loops import compiled

numba = pytest.importorskip("numba", reason="nothing is compiled without Numba")

HELPER = """
from .compiled import loop

@loop("i8(i8)")
def twice(x):
    return x * 2
"""
CALLER = """
from .compiled import loop
from .helper import twice

@loop("i8(i8)")
def twice_and_one(x):
    return twice(x) + 1
"""
ASK = "from sharedstate_lite import loops; loops.moved(10**6); print(loops.twice_and_one(20), flush=True)"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A folder with a package that has two small loops in two files instead of the kit's."""
    source, target = Path(sharedstate_lite.__file__).parent, tmp_path / "kit" / "sharedstate_lite"
    for room in ("system", "loops", "errors.py"):
        if (source / room).is_dir():
            shutil.copytree(source / room, target / room, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source / room, target / room)
    (target / "__init__.py").touch()
    code = (
        (target / "loops" / "compiled.py").read_text().replace("\nMODULES = ", '\nMODULES = ("helper", "caller")\n_ = ')
    )
    (target / "loops" / "compiled.py").write_text(code)
    (target / "loops" / "helper.py").write_text(HELPER)
    (target / "loops" / "caller.py").write_text(CALLER)
    return target.parent


def started(path: Path, cache: Path, code: str = ASK, **variables: str) -> subprocess.Popen[str]:
    """Start a process that imports the package from ``path`` alone."""
    settings = {**os.environ, "PYTHONPATH": str(path), "SHAREDSTATE_LITE_CACHE": str(cache), **variables}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        env={name: value for name, value in settings.items() if value},
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    """What the process printed. It must not fail."""
    out, error = process.communicate()
    assert process.returncode == 0, error
    return out.strip()


def test_an_edited_helper_is_compiled_into_its_callers(kit: Path, tmp_path: Path) -> None:
    """After an edit of a helper in another file, its callers use the new one; the cache is used until then."""
    cache = tmp_path / "cache"
    assert answer(started(kit, cache)) == "41"
    written = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    assert {path.name.split("-")[0] for path in written} == {"helper.twice", "caller.twice_and_one"}
    assert answer(started(kit, cache)) == "41"
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")} == written
    (kit / "sharedstate_lite" / "loops" / "helper.py").write_text(HELPER.replace("* 2", "* 3"))
    assert answer(started(kit, cache)) == "61"


def test_a_zip_has_the_same_cache_wherever_it_is(kit: Path, tmp_path: Path) -> None:
    """Loops in a zip archive, as Spark ships them, are cached, also for a copy of the archive in another folder."""
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        with zipfile.ZipFile(tmp_path / place / "kit.zip", "w") as archive:
            for path in sorted(kit.rglob("*.py")):
                archive.write(path, path.relative_to(kit))
    cache = tmp_path / "cache"
    assert answer(started(tmp_path / "one" / "kit.zip", cache)) == "41"
    written = sorted(cache.rglob("*.nb?"))
    assert answer(started(tmp_path / "two" / "kit.zip", cache)) == "41"
    assert written and sorted(cache.rglob("*.nb?")) == written


def test_without_a_place_for_the_cache_loops_are_compiled_and_it_is_told(kit: Path) -> None:
    """Where the cache folder cannot be made, loops are compiled in memory, and one line says so."""
    told = "import logging; logging.basicConfig(level=logging.INFO, stream=__import__('sys').stdout)\n"
    out = answer(started(kit, Path("/dev/null/x"), told + ASK, HOME=""))
    assert out.splitlines()[-1] == "41" and out.count("loops are compiled again in each process") == 1


def test_four_cold_starts_at_once(kit: Path, tmp_path: Path) -> None:
    """Four processes that find no cache all compile, and all answer the same; so does the one after them."""
    cache = tmp_path / "cache"
    processes = [started(kit, cache) for _ in range(4)]
    assert [answer(process) for process in processes] == ["41"] * 4
    assert answer(started(kit, cache)) == "41"


def test_without_numba_loops_run_in_python(kit: Path, tmp_path: Path) -> None:
    """Without Numba, and where Python is asked for, loops run in Python."""
    code = "import sys; sys.modules['numba'] = None\n" + ASK + "; print(type(loops.twice).__name__)"
    assert answer(started(kit, tmp_path, code)).split() == ["41", "function"]
    code = ASK + "; import sys; print('numba' in sys.modules)"
    assert answer(started(kit, tmp_path, code, SHAREDSTATE_LITE_LOOPS="python")).split() == ["41", "False"]


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable has three values, and the error names them."""
    monkeypatch.setenv("SHAREDSTATE_LITE_LOOPS", "fast")
    with pytest.raises(Error, match="SHAREDSTATE_LITE_LOOPS=fast is not valid; set it to python, bounds, compiled"):
        compiled.Switch({}).start()


def test_few_rows_run_in_python_and_many_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are bound to Python functions until enough rows have been moved, and to compiled ones after that."""
    monkeypatch.delenv("SHAREDSTATE_LITE_LOOPS", raising=False)
    bound: dict[str, object] = {}
    switch = compiled.Switch(bound)
    switch.moved(compiled.SWITCH - 1)
    words = np.array([1, 3])
    assert type(bound["lower"]).__name__ == "function" and bound["lower"](words, 0, 2, 2) == 1  # type: ignore[operator]
    switch.moved(1)
    assert isinstance(bound["lower"], numba.core.dispatcher.Dispatcher)
    assert bound["lower"](words, 0, 2, 2) == 1
    assert len(bound["lower"].signatures) == 1
    with pytest.raises(TypeError, match="No matching definition"):
        bound["lower"](words.astype(np.float64), 0, 2, 2)


def test_a_name_that_is_no_loop() -> None:
    """The room has the loops as its attributes, and no others."""
    with pytest.raises(AttributeError, match="has no attribute 'higher'"):
        _ = loops.higher
