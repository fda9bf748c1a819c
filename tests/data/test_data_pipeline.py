"""The shop made by Spark, and the command line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from caches import own_cache

from sharedstate_lite.data import SCHEMA, epochs, folder, generate, make
from sharedstate_lite.data.__main__ import main
from sharedstate_lite.data.rows import RELATIONS
from sharedstate_lite.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"visits": 4000, "products": 50, "users": 40, "categories": 5, "epochs": 7, "moves": 0.2}
OPTIONS = [part for name, value in SMALL.items() for part in (f"--{name}", str(value))]


@contextmanager
def command(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``sharedstate data`` with its own cache, from a folder that is not the checkout; ended with the block."""
    cache = own_cache(tmp_path / "cache", "classes", "home")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SHAREDSTATE_LITE_CACHE": str(cache)}
    with subprocess.Popen(
        [sys.executable, "-m", "sharedstate_lite.data", *arguments],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        if process.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop made on local[2]."""
    out = tmp_path_factory.mktemp("made") / "shop"
    make(out, session=spark, **SMALL)
    return out


def test_spark_makes_the_rows_of_the_generator(shop: Path) -> None:
    """Every epoch's rows on disk are, in order, those that this process generates."""
    for (epoch, made), (number, generated) in zip(epochs(shop), generate(**SMALL), strict=True):
        assert epoch == number and all(made[name].equals(generated[name]) for name in RELATIONS)
    assert sorted(path.name for path in shop.iterdir()) == ["info", "manifest.json", "visit"]
    assert [path.name for path in shop.parent.iterdir()] == ["shop"]
    folder.check(shop)


@pytest.mark.slow
def test_another_number_of_cores_makes_the_same(shop: Path, tmp_path: Path) -> None:
    """The command on one core makes, byte for byte, the files that were made on two, and prints what it did."""
    with command(tmp_path, "make", *OPTIONS, "--master", "local[1]", "--out", "new/shop") as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and re.fullmatch(r"starting Spark\n(writing epochs: .*\n)*", err), err
    assert re.fullmatch(r"new/shop: 7 epochs, info: [\d,]+ rows .*, visit: [\d,]+ rows .*; \d+ s\n", out)
    for file in sorted(path.relative_to(shop) for path in shop.rglob("*") if path.is_file()):
        assert (tmp_path / "new" / "shop" / file).read_bytes() == (shop / file).read_bytes(), file
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "new"]


def test_a_stream_reads_the_epochs_in_order(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    """Spark's file source, a file at a time, sees each relation's epochs in order, whole, once."""
    seen: list[tuple[list[int], int]] = []

    def note(batch: DataFrame, _: int) -> None:
        seen.append(([row[0] for row in batch.select("epoch").distinct().collect()], batch.count()))

    schema = f"{SCHEMA['visit']}, diff BIGINT, epoch INT"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(shop / "visit"))
    query = stream.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    query.stop()
    assert seen == [([epoch], tables["visit"].num_rows) for epoch, tables in epochs(shop)]


def test_what_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A task that cannot write ends the making with one error; no folder, half a folder or process stays."""

    def sabotage(done: int, total: int) -> None:
        for path in tmp_path.glob("in/.shop.making-*/visit"):
            # At once: a folder that is emptied while tasks write is never empty.
            path.rename(tmp_path / "gone")

    with pytest.raises(Error, match="Spark failed to write the epochs.*No such file"):
        make(tmp_path / "in" / "shop", session=spark, progress=sabotage, visits=2_000_000, epochs=400)
    assert list((tmp_path / "in").iterdir()) == []


def test_only_a_made_folder_is_overwritten(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    """A taken folder is refused; overwrite replaces a made one whole, and never anything else."""
    mine = tmp_path / "mine"
    shutil.copytree(shop, mine)
    with pytest.raises(Error, match="not empty"):
        make(mine, session=spark, **SMALL)
    manifest = make(mine, session=spark, overwrite=True, **{**SMALL, "epochs": 2})
    assert len(manifest["epochs"]) == 2 == len(list(epochs(mine)))
    (mine / "manifest.json").unlink()
    with pytest.raises(Error, match="overwrite replaces only a folder that make has written"):
        make(mine, session=spark, overwrite=True, **SMALL)
    with pytest.raises(Error, match="this is a file"):
        make(mine / "visit" / "epoch=00001" / "part.parquet", session=spark, **SMALL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
    (tmp_path / "empty").mkdir()
    make(tmp_path / "empty", session=spark, **SMALL)
    assert len(list(epochs(tmp_path / "empty"))) == 7


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C, SIGTERM or a closed terminal in the middle ends it soon: no file, no process, the right exit code."""
    with command(tmp_path, "make", "--visits", "50_000_000", "--epochs", "1000", "--out", "shop") as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".shop.making-*/visit/*/part.parquet")):
            assert process.poll() is None and time.monotonic() < deadline
            try:
                process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code and out == "" and "Traceback" not in err, err
    assert err.endswith("interrupted; shop was not written\n")
    assert psutil.wait_procs(children, timeout=120)[1] == []
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert list((tmp_path / "cache" / "spark").iterdir()) == []


BAD = [
    (["--visits", "-5"], "visits=-5"),
    (["--visits", "many"], "invalid int value: 'many'"),
    (["--visits", "1e6"], "invalid int value: '1e6'"),
    (["--deletes", "1.5"], "deletes=1.5"),
    (["--deletes", "0.7", "--updates", "0.7"], "add up to at most 1"),
    (["--visits", "10", "--epochs", "20"], "epochs=20"),
    (["--skew", "nan"], "skew=nan"),
    (["--out", "{taken}"], "not empty"),
    (["--out", "{file}"], "this is a file"),
    (["--out", "{file}/below"], "the folder cannot be written"),
    (["--out", "/proc/shop"], "the folder cannot be written"),
    (["--out", "/tmp/" + "y" * 300], "is not a path (File name too long)"),
    (["--master", "foo"], "master 'foo': a session runs on local[N]"),
    (["--master", ""], "master '': a session runs on local[N]"),
    (["--size", "3"], "unrecognized arguments: --size 3"),
]


@pytest.mark.parametrize(("options", "named"), BAD, ids=[" ".join(options) for options, _ in BAD])
def test_wrong_options_are_one_line_and_exit_code_2(
    options: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be is said in one line before Spark starts, and nothing is left."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "something").touch()
    filled = [part.format(taken=tmp_path / "taken", file=tmp_path / "taken" / "something") for part in options]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    try:
        code = main(["make", "--out", str(tmp_path / "new"), *filled])
    except SystemExit as stop:
        code = int(str(stop.code))
    said = capsys.readouterr()
    assert code == 2 and said.out == ""
    assert named in said.err and said.err.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_help_and_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """--help says what there is; no command is one line and 2."""
    for arguments, code in ((["--help"], 0), (["make", "--help"], 0), ([], 2), (["make"], 2)):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == code
    out, err = capsys.readouterr()
    assert "--visits" in out and "check" in out and err.count("\n") == 2


def test_check_tells_made_from_changed(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``check`` prints a folder's totals and exits with 0, or names the first fault and exits with 1."""
    copy = tmp_path / "copy"
    shutil.copytree(shop, copy, copy_function=shutil.copyfile)
    for file in copy.rglob("*.parquet"):
        os.utime(file, (1e9, 1e9))
    assert main(["check", str(shop)]) == 0
    assert main(["check", str(copy)]) == 1
    assert main(["check", str(copy), "--stamp"]) == 0
    folder.part(copy, "info", 3).unlink()
    assert main(["check", str(copy)]) == 1
    assert main(["check", str(copy), "--stamp"]) == 1
    out, err = capsys.readouterr()
    assert out.count("matches its manifest; 7 epochs, info") == 2 and err.count("\n") == 3 and "epoch=00003" in err
