"""A relation's file, read by each task with bins for its rows."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shopping import EPOCHS, arrow, views

import sharedstate_lite as ss
from sharedstate_lite.changelog import read_tables
from sharedstate_lite.spark.bins import files
from sharedstate_lite.spark.bins.channels import ROWS
from sharedstate_lite.spark.bins.engine_spec import EngineSpec
from sharedstate_lite.spark.rounds.message import BinMessage
from sharedstate_lite.storage import wire
from sharedstate_lite.storage.batch import Delta
from sharedstate_lite.storage.encoding import Dictionary

VISITS = [*EPOCHS[0]["visit"], *EPOCHS[0]["visit"][:7], *EPOCHS[1]["visit"], *EPOCHS[3]["visit"]]


@pytest.fixture(params=["full", "shared"])
def route(request: pytest.FixtureRequest) -> Any:
    """The route of two views."""
    return EngineSpec(request.param, views()).route()


def write(file: Path, pairs: list[Any]) -> None:
    """A file of visits."""
    pq.write_table(arrow("visit", pairs), file)


def take(file: Path, route: Any, bins: int) -> tuple[dict[tuple[int, int, int], Delta], Dictionary, list[BinMessage]]:
    """The rows of each bin, as codes of one dictionary, and the messages with counts."""
    strings, counts, out = Dictionary(), [], {}
    for message in files.file_messages(route, "visit", bins, file):
        out[message.bin, message.stage, message.channel], sent = files.rows_for_bin(message, route, bins, strings)
        counts += sent
    return out, strings, counts


def bag(delta: Delta) -> Counter[Any]:
    """(row, diff) -> how often it occurs."""
    return Counter(zip(*delta.rows.tolist(), delta.diffs.tolist(), strict=True))


@pytest.mark.parametrize("bins", [1, 2, 5])
def test_bins_take_what_one_task_would_send_them(tmp_path: Path, route: Any, bins: int) -> None:
    """The bins take the same rows from a file as the driver would send of its rows; each row is counted once."""
    write(tmp_path / "a.parquet", VISITS)
    taken, strings, counts = take(tmp_path / "a.parquet", route, bins)
    schema = route.engine.catalog.schema("visit")
    whole = read_tables.table(pq.read_table(tmp_path / "a.parquet"), schema, "visit", strings)[0]
    sent = route.relation_messages("visit", whole, bins, strings)
    rows = {(m.bin, m.stage, m.channel): bag(wire.unpack(m.blob, strings)) for m in sent}
    assert {place: bag(delta) for place, delta in taken.items() if len(delta.diffs)} == rows
    assert sum(sum(bag.values()) for bag in rows.values()) >= len(VISITS)
    assert {m.channel for m in counts} == {ROWS}
    assert sum(int(m.blob) for m in counts) == len(VISITS)


def test_a_file_is_kept_while_it_is_the_same(tmp_path: Path, route: Any) -> None:
    """A replaced file is read again; one that is missing, damaged or not Parquet is refused with its name."""
    file = tmp_path / "a b.parquet"
    write(file, VISITS)
    whole = sum(len(delta.diffs) for delta in take(file, route, 2)[0].values())
    write(file, VISITS[:9])
    os.utime(file, (1_700_000_000, 1_700_000_000))
    fewer = sum(len(delta.diffs) for delta in take(file, route, 2)[0].values())
    assert whole * 9 == fewer * len(VISITS)
    data = file.read_bytes()
    for bad in (None, b"no Parquet", data[:4] + bytes(len(data) // 2) + data[4 + len(data) // 2 :]):
        file.unlink(missing_ok=True)
        if bad is not None:
            file.write_bytes(bad)
        with pytest.raises(ss.RowError, match=r"visit: .*a b\.parquet cannot be read \("):
            take(file, route, 2)


def test_a_wrong_value_is_named_by_its_row_in_the_file(tmp_path: Path, route: Any) -> None:
    """Every bin raises the in-process error for a wrong value: relation, row of the file, rule."""
    table = arrow("visit", VISITS)
    bad = table.set_column(3, "diff", pa.array([1] * (len(VISITS) - 1) + [0]))
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(ss.RowError) as here, ss.engine("full", views()) as engine:
        engine.step({"visit": bad})
    for message in files.file_messages(route, "visit", 3, tmp_path / "bad.parquet"):
        with pytest.raises(ss.RowError) as there:
            files.rows_for_bin(message, route, 3, Dictionary())
        assert str(there.value) == str(here.value)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("groups", [7, 1_000])
def test_dictionary_encoded_texts_are_read_as_dictionaries(tmp_path: Path, dictionary: bool, groups: int) -> None:
    """Dictionary-encoded columns are read as dictionaries, others are not, and the rows are those of another reader."""
    count = 1_000
    columns: dict[str, Any] = {
        "once": pa.array([f"https://a.place/{n}" for n in range(count)]),
        "Often": pa.array(
            [None if n % 5 == 0 else f"https://a.place/{n % 3}" for n in range(count)], pa.large_string()
        ),
        "never": pa.array([None] * count, pa.string()),
        "n": pa.array(range(count), pa.int32()),
        "diff": pa.array([1] * count),
    }
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file, use_dictionary=dictionary, row_group_size=groups)
    schema = ss.Catalog(t="once STRING, often STRING, never STRING, n INT").schema("t")
    found = files.read_file(file, schema)
    coded = [name for name in found.column_names if pa.types.is_dictionary(found[name].type)]
    assert coded == (["Often", "never"] if dictionary and groups > 7 else coded)
    assert "once" not in coded and "n" not in coded
    told = [list(row.values()) for row in pq.read_table(file).to_pylist()]
    strings = Dictionary()
    delta = read_tables.table(found, schema, "t", strings)[0]
    texts = [strings.to_list(line) for line in delta.rows[:3]]
    assert [list(row) for row in zip(*texts, delta.rows[3].tolist(), delta.diffs.tolist(), strict=True)] == told
