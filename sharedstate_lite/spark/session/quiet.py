"""Log levels of PySpark's Python side: silence what only repeats the exception that is raised."""

from __future__ import annotations

import logging
import os

_REPEATING = (
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "StreamingQueryContextLogger",
    "py4j.clientserver",
)


def silence() -> None:
    """Turn these logs off. Harmless when repeated."""
    for name in _REPEATING:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Drops py4j's tracebacks on the root logger about calls that were interrupted or lost their JVM."""
    return os.path.join("py4j", "java_gateway") not in record.pathname
