"""Silences the loggers of PySpark's Python side that only repeat an exception that is raised anyway."""

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
    """Turn these loggers off. Calling it again is harmless."""
    for name in _REPEATING:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Return False for py4j's tracebacks about calls that were interrupted, or whose JVM is gone."""
    return os.path.join("py4j", "java_gateway") not in record.pathname
