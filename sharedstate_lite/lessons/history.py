"""Reads the record of a graded run with Spark: one temporary view for each table, to be asked in SQL.

The grader saves a run as a folder of Parquet tables and a run.json; docs/grader.md describes their columns. In these
views, phases and kinds are words, and times are milliseconds since the run began, or NULL if something never happened.
An order, a user or an item is named by its row number in its table.

    checkouts   each attempt to check out an order: wave, order, attempt, due, sent, done, status, waited
    orders      number, label, phase, user, slot (-1: no digits), cost
    lines       each line of an order: order, item, quantity, price
    funds       each amount of credit or stock that was acknowledged: kind (user or item), number, amount, at
    snapshots   each value that was read: snapshot, phase, begin, end, kind (order, user or item), number, value
    events      each fault and restart: at, process, what, detail
    waves       the requests that were sent together: wave, phase, name

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.lessons import history
>>> session = ss.spark.session()                                                                  # doctest: +SKIP
>>> run = history.views(session, "labs/checkout/records/passes")                                  # doctest: +SKIP
>>> session.sql("SELECT count(*) FROM checkouts WHERE status = 200").first()                      # doctest: +SKIP
Row(count(1)=788)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("history", "orders", "lines", "users", "items", "funds", "snapshots", "events")
_NUMBERED = "element_at(array('contract', 'duplicates', 'load', 'scarcity', 'faults', 'speed', 'powercut'), phase + 1)"
PHASE = {1: _NUMBERED, 2: "phase"}
"""The name of a phase, by the version of the record; no others are read. Version 1 has its number in a list."""
_KIND = "element_at(array('order', 'user', 'item'), kind + 1)"
VIEWS = {
    "checkouts": """
        SELECT wave, subject AS order, attempt, due / 1e6 AS due, IF(sent > 0, sent / 1e6, NULL) AS sent,
            IF(done > 0, done / 1e6, NULL) AS done, status, waited = 1 AS waited
        FROM record_history WHERE kind = 0 AND subject >= 0""",
    "orders": """
        SELECT row AS number, concat(PHASE, '-', lpad(number, 6, '0')) AS label, PHASE AS phase, user, slot, cost
        FROM record_orders""",
    "lines": "SELECT order, item, quantity, price FROM record_lines",
    "funds": f"SELECT {_KIND} AS kind, subject AS number, amount, at / 1e6 AS at FROM record_funds",
    "snapshots": f"""
        SELECT snapshot, phase, begin / 1e6 AS begin, end / 1e6 AS end, {_KIND} AS kind, subject AS number, value
        FROM record_snapshots JOIN record_taken USING (snapshot) WHERE state = 0""",
    "events": "SELECT at / 1e6 AS at, process, what, detail FROM record_events",
    "waves": "SELECT wave, phase, name FROM record_waves",
}
"""The query of each view. ``record_orders`` and so on are the tables as they are stored, with their row numbers. PHASE
stands for the name of a phase."""


def views(session: SparkSession, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Make the views of a record, and return its run.json. They replace the views of an earlier record.

    Raises Error if the folder has no record, or one of another version. The earlier views then stay as they are.
    """
    place = Path(folder).resolve()
    try:
        run = json.loads((place / "run.json").read_text())
    except (OSError, ValueError) as error:
        raise Error(f"{folder} has no record ({error}). Give the report folder of a run of the grader.") from error
    version = run.get("record") if isinstance(run, dict) else None
    if version not in list(PHASE):
        raise Error(
            f"{folder}: the record has version {version}, and this kit reads versions 1 and 2. Grade the system again."
        )
    if missing := [name for name in TABLES if not (place / f"{name}.parquet").is_file()]:
        raise Error(f"{folder}: {missing[0]}.parquet is missing. Give a complete report folder.")
    for name in TABLES:
        table = session.read.parquet((place / f"{name}.parquet").as_uri())
        table.selectExpr("*", "_metadata.row_index AS row").createOrReplaceTempView(f"record_{name}")
    for name, rows, columns in (
        ("waves", run.get("waves", []), "wave BIGINT, phase STRING, name STRING"),
        ("taken", run.get("snapshots", []), "snapshot BIGINT, phase STRING, begin BIGINT, end BIGINT"),
    ):
        fields = [part.split()[0] for part in columns.split(", ")[1:]]
        values = [(number, *(row[field] for field in fields)) for number, row in enumerate(rows)]
        session.createDataFrame(values, columns).createOrReplaceTempView(f"record_{name}")
    for name, query in VIEWS.items():
        session.sql(query.replace("PHASE", PHASE[version])).createOrReplaceTempView(name)
    return dict(run)
