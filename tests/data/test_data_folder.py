"""A made folder, written here without Spark: what its reader notices."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from sharedstate_lite.data import Spec, epochs, folder, generate
from sharedstate_lite.data.__main__ import main
from sharedstate_lite.data.rows import RELATIONS, changes
from sharedstate_lite.errors import Error

SMALL: dict[str, Any] = {"visits": 300, "products": 10, "users": 5, "categories": 3, "epochs": 4, "moves": 0.3}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A made folder of four epochs."""
    root, spec, files = tmp_path / "shop", Spec.make(**SMALL), []
    for relation in RELATIONS:
        (root / relation).mkdir(parents=True)
    for epoch in range(1, spec.epochs + 1):
        files += [(epoch, r, folder.write(root, r, epoch, table)) for r, table in changes(spec, epoch).items()]
        folder.stamp(root, epoch, spec.epochs, time.time())
    folder.conclude(root, spec.parameters(), files)
    return root


def test_what_was_made_comes_back(shop: Path) -> None:
    """Epochs come in order, with the rows that were generated; the manifest adds up."""
    made, generated = list(epochs(shop)), list(generate(**SMALL))
    assert [epoch for epoch, _ in made] == [1, 2, 3, 4]
    for (_, one), (_, two) in zip(made, generated, strict=True):
        assert all(one[relation].equals(two[relation]) for relation in RELATIONS)
    manifest = folder.check(shop)
    assert manifest["parameters"] == Spec.make(**SMALL).parameters()
    assert manifest["totals"]["visit"]["rows"] == sum(tables["visit"].num_rows for _, tables in generated)


def test_times_rise_by_epoch_and_can_be_set_again(shop: Path, tmp_path: Path) -> None:
    """Files are in the order of epochs by their times; where a copy lost that, check says so and stamp mends it."""
    copy = tmp_path / "copy"
    shutil.copytree(shop, copy, copy_function=shutil.copyfile)
    for file in copy.rglob("*.parquet"):
        os.utime(file, (1e9, 1e9))
    with pytest.raises(Error, match="--stamp"):
        folder.check(copy)
    folder.stamp_all(copy)
    folder.check(copy)
    times = [folder.part(copy, "visit", epoch).stat().st_mtime for epoch in range(1, 5)]
    assert times == sorted(set(times)) and times[-1] <= time.time()


def _rewrite(shop: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = folder.part(shop, "visit", 2)
    pyarrow.parquet.write_table(change(pyarrow.parquet.ParquetFile(path).read()), path)


def _relabel(table: pa.Table) -> pa.Table:
    return table.set_column(1, "user", pa.array(["nobody"] * table.num_rows))


def _rewrite_manifest(shop: Path, **changed: Any) -> None:
    manifest = json.loads((shop / "manifest.json").read_text())
    (shop / "manifest.json").write_text(json.dumps(manifest | changed))


def _halve(shop: Path) -> None:
    path = folder.part(shop, "visit", 2)
    path.write_bytes(path.read_bytes()[:100])


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda shop: folder.part(shop, "visit", 2).unlink(), "part.parquet: the file is in the manifest but missing"),
    (lambda shop: shutil.rmtree(shop / "info" / "epoch=00003"), "epoch=00003"),
    (lambda shop: _rewrite(shop, lambda table: table.slice(1)), "the file has 79 rows instead of 80"),
    (lambda shop: _rewrite(shop, _relabel), "the rows differ from the manifest"),
    (lambda shop: _rewrite(shop, lambda table: table.drop_columns(["user"])), "the rows differ from the manifest"),
    (_halve, "cannot be read"),
    (lambda shop: (shop / "manifest.json").unlink(), "no manifest.json"),
    (lambda shop: (shop / "manifest.json").write_text("{"), "manifest.json: the file cannot be read"),
    (lambda shop: (shop / "manifest.json").write_text(json.dumps({"format": "other"})), "the format is not"),
    (
        lambda shop: (shop / "manifest.json").write_text("[" * 100_000),
        "manifest.json: the file cannot be read (maximum",
    ),
    (lambda shop: _rewrite_manifest(shop, epochs=None), "manifest.json: the file was changed (TypeError"),
    (lambda shop: _rewrite_manifest(shop, epochs=[{"epoch": 1}]), "the file was changed (KeyError"),
    (lambda shop: _rewrite_manifest(shop, epochs=[]), "the epochs do not match the totals"),
    (lambda shop: _rewrite_manifest(shop, checksum="0" * 32), "the epochs do not match the totals"),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGES, ids=[named for _, named in DAMAGES])
def test_a_damaged_folder_is_noticed_and_named(shop: Path, damage: Callable[[Path], object], named: str) -> None:
    """A file that is gone, or is not what was made, is one error that names it."""
    damage(shop)
    with pytest.raises(Error) as caught:
        list(epochs(shop))
    assert named in str(caught.value) and str(shop) in str(caught.value)


def test_a_file_too_many_is_noticed(shop: Path) -> None:
    """check, and epochs at the call, name a file that a stream would read though it was never made."""
    for extra in (folder.part(shop, "visit", 2).with_name("copy.parquet"), folder.part(shop, "visit", 99)):
        extra.parent.mkdir(exist_ok=True)
        shutil.copy(folder.part(shop, "visit", 2), extra)
        for reader in (folder.check, epochs):
            with pytest.raises(Error, match=f"{extra.name}: this file is not in the manifest"):
                reader(shop)
        extra.unlink()


def test_check_names_what_is_no_folder(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file, and a path of no letters, are told apart from a folder without a manifest."""
    for given, named in (
        (str(shop / "manifest.json"), f"{shop / 'manifest.json'}: this is a file. Pass the folder"),
        ("", "'' is not a path"),
        (str(shop / "info"), "the folder has no manifest.json"),
    ):
        for options in ([], ["--stamp"]):
            assert main(["check", given, *options]) == 1
            said = capsys.readouterr()
            assert said.out == "" and named in said.err and said.err.count("\n") == 1


def test_a_time_that_cannot_be_set_names_the_file(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another user's folder, whose times the system lets nobody else set, is one error with file and mend."""

    def refuse(path: Path, times: tuple[float, float]) -> None:
        # As the system says it: without the file.
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "utime", refuse)
    assert main(["check", str(shop), "--stamp"]) == 1
    assert capsys.readouterr().err == (
        f"sharedstate data check: error: {folder.part(shop, 'info', 1)}: the modification time "
        "cannot be set (Operation not permitted). Copy the folder, and run the command on the copy.\n"
    )


def test_no_folder_is_an_error_at_the_call() -> None:
    """epochs refuses what is no made folder before the first epoch is asked for."""
    with pytest.raises(Error, match="no such folder|no manifest"):
        epochs("/no/such/folder")


def test_a_checksum_is_of_values_not_of_chunks() -> None:
    """Slicing and chunking leave the checksum; any other value, order, type or name changes it."""
    table = pa.table({"a": ["x", "yz", None, ""], "b": pa.array([1, 2, 3, None], pa.int64())})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 3)])
    assert folder.checksum(table) == folder.checksum(chunked) == folder.checksum(pa.concat_tables([table] * 2).slice(4))
    others = [
        pa.table({"a": ["xy", "z", None, ""], "b": table["b"]}),
        pa.table({"a": ["x", "yz", "", None], "b": table["b"]}),
        table.take([1, 0, 2, 3]),
        table.rename_columns(["a", "c"]),
        table.set_column(1, "b", table["b"].cast(pa.int32())),
        table.slice(0, 3),
    ]
    assert len({folder.checksum(other) for other in [table, *others]}) == 7
