"""Passes errors from Python workers to the driver. The JVM between them keeps only the text of an exception.

If a kernel refuses a row, the worker raises `RowRefused`, whose text contains the kit's error in encoded form. In the
driver, `refused` decodes the error from the text of Spark's exception. For every other failure, `reason` finds the line
that names the cause.

>>> from sharedstate_lite.errors import RowError
>>> from sharedstate_lite.spark.rounds.errors import RowRefused, refused
>>> refused(f"org.apache.spark.SparkException: task failed: {RowRefused(RowError('visit: no such row'))}")
RowError('visit: no such row')
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from ... import errors
from ...errors import Error

TRIES = 8
"""How often a micro-batch or job is tried.

If the process that forks workers is killed, each of its idle workers makes one attempt fail.
"""

_MARK = "<<refused "

T = TypeVar("T")


class RowRefused(Exception):
    """An exception that carries an error of the kit, encoded in its text, from a Python worker to the driver."""

    def __init__(self, error: Error) -> None:
        encoded = json.dumps([type(error).__name__, str(error)]).encode()
        super().__init__(f"{_MARK}{base64.b64encode(encoded).decode()}>>")


def refused(text: str) -> Error | None:
    """Return the kit's error from the text of Spark's exception, or None if the text does not contain one."""
    found = re.search(re.escape(_MARK) + r"([\w+/=]+)>>", text)
    if found is None:
        return None
    name, message = json.loads(base64.b64decode(found[1]))
    kind: Any = getattr(errors, name, Error)
    error: Error = kind(message)
    return error


def reason(text: str) -> str:
    """Return the line that names the cause in the text of Spark's exception, cut to 300 characters."""
    ended = re.search(r"terminated with exception: *(\S[^\n]*)", text)
    if ended is not None and not re.search(r"SparkException|Job aborted|FOREACH_BATCH", ended[1]):
        return ended[1][:300]
    lines = [re.sub(r"^(: |Caused by: )", "", line.strip()) for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.$]*(Error|Exception)\b", line)]
    return (named or lines or ["no reason was given"])[-1][:300]


def retry(job: Callable[[], T], what: str) -> T:
    """Run a Spark job that has no side effects, and return its result. Retry it if it fails.

    A job can fail, for example, because a worker died. After ``TRIES`` failures, raises Error with a message that
    starts with ``what``.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # workers import this module
    from pyspark.errors import PySparkException

    for left in reversed(range(TRIES)):
        try:
            return job()
        except (PySparkException, Py4JJavaError) as error:
            if not left:
                raise Error(f"{what}: {reason(str(error))}") from error
    raise AssertionError(TRIES)
