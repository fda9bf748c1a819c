"""README's lines on Spark, run again as a person runs a cell again."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_lines_of_readme_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: Callable[[], list[str]]
) -> None:
    """The second run continues from the folder, adds the same rows again, and says so in one line."""
    own, _, on_spark = re.findall(r"```python\n(.*?)```", README, re.S)[:3]
    assert 'checkpoint="state"' in on_spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ss.spark, "session", lambda: contextlib.nullcontext(spark))
    names: dict[str, Any] = {}
    exec(own, names)
    exec(on_spark, names)
    assert notes() == [] and "epoch 1, views" in repr(names["engine"])
    exec(on_spark, names)
    assert notes() == ["continues from state, epoch 1"]
    assert repr(names["engine"]) == "<shared engine over bins, epoch 2 (continued from state, epoch 1), views: result>"
    assert ss.spark.state("state", "visit[product]")["diff"].tolist() == [2]
