"""The archive of Spark's classes, and the process that workers are forked from: there, used, and never needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sharedstate_lite.errors import Error
from sharedstate_lite.spark import workers
from sharedstate_lite.spark.session import classes
from sharedstate_lite.spark.session.java import Java, find_java

USED = """
import sys
import sharedstate_lite as ss
options = f"-Xlog:class+load:file={sys.argv[1]}"
with ss.spark.session("local[2]", memory="1g", conf={"spark.driver.extraJavaOptions": options}) as spark:
    def told(batches):
        import os
        from pathlib import Path
        mother = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode()
        for batch in batches:
            yield batch.set_column(0, "mother", [mother] * batch.num_rows)
    frame = spark.createDataFrame([("",)], "mother STRING")
    print(frame.mapInArrow(told, "mother STRING").first()[0].replace(chr(0), " "))
    def drawn(_):
        import os
        import numpy as np
        from pyspark import BarrierTaskContext
        # Two workers at once, or there would be one.
        BarrierTaskContext.get().barrier()
        yield os.getpid(), np.random.rand()
    print(*zip(*spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(drawn).collect()), sep=chr(10))
"""


def test_a_session_maps_what_was_archived(tmp_path: Path) -> None:
    """Most classes come out of the archive; workers come out of the kit's process, and draw different numbers."""
    made = subprocess.run(
        [sys.executable, "-m", "sharedstate_lite.spark.session.classes"], capture_output=True, text=True
    )
    assert made.returncode == 0 and made.stdout.splitlines()[-1].startswith(
        f"classes: {classes.archive(find_java())} ("
    ), made.stdout + made.stderr
    log = tmp_path / "loaded"
    used = subprocess.run([sys.executable, "-c", USED, str(log)], capture_output=True, text=True)
    assert used.returncode == 0 and f"-m {workers.__name__} pyspark.worker" in used.stdout, used.stderr
    processes, numbers = map(ast.literal_eval, used.stdout.splitlines()[-2:])
    assert len(set(processes)) == len(set(numbers)) == 2
    loaded = log.read_text().splitlines()
    ours = [line for line in loaded if "source: shared objects file (top)" in line]
    assert len(loaded) > 5000 and len(ours) > len(loaded) / 2


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Java, or other caches, have an archive of their own, and no options before it is made."""
    java = Java(tmp_path / "jdk", "21.0.1", "PATH")
    assert classes.options(java) == ""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    assert classes.options(find_java()) == "" and classes.archive(java).parent == tmp_path / "classes"
    assert classes.archive(java) != classes.archive(Java(tmp_path / "other", "21.0.1", "PATH"))
    classes.archive(java).touch()
    assert str(classes.archive(java)) in classes.options(java)


def test_a_path_that_java_would_split_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java takes a colon for the end of an archive's path."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "a:b"))
    with pytest.raises(Error, match="move the caches"):
        classes.make(find_java())


def test_a_java_that_archives_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are in the message, and nothing half-made is left."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho no room here\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Error, match="does not archive its own classes .no room here."):
        classes.make(Java(tmp_path / "jdk", "21.0.1", "PATH"))
    assert list((tmp_path / "cache" / "classes").iterdir()) == []


def test_another_thread_has_workers_import_for_themselves() -> None:
    """A process with threads that a fork would lose becomes PySpark's own."""
    code = (
        "import os, sys, threading, sharedstate_lite.spark.workers as workers\n"
        "threading.Thread(target=threading.Event().wait, daemon=True, name='mine').start()\n"
        "os.execv = lambda program, arguments: (print(*arguments[1:]), sys.stdout.flush(), os._exit(0))\n"
        "sys.argv[1:] = ['pyspark.worker']\n"
        "workers.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("-m pyspark.daemon pyspark.worker\n", 0), done.stderr
