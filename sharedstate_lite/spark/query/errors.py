"""Errors on their way through the JVM, which carries them as text only.

A kernel's error is raised in a Python worker as `Refused`, whose text contains the kit's error, encoded. The driver
finds it in Spark's exception with `refused`. For every other failure, `reason` picks the line that names the cause.

>>> from sharedstate_lite.errors import RowError
>>> from sharedstate_lite.spark.query.errors import Refused, refused
>>> refused(f"org.apache.spark.SparkException: task failed: {Refused(RowError('visit: no such row'))}")
RowError('visit: no such row')
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ... import errors
from ...errors import Error

TRIES = 8
"""Attempts at a micro-batch or job. If the process that forks workers is killed, each idle worker fails one attempt."""

_MARK = "<<refused "

T = TypeVar("T")


class Refused(Exception):
    """An error of the kit, raised in a Python worker."""

    def __init__(self, error: Error) -> None:
        encoded = json.dumps([type(error).__name__, str(error)]).encode()
        super().__init__(f"{_MARK}{base64.b64encode(encoded).decode()}>>")


def refused(text: str) -> Error | None:
    """The kit's error in the text of Spark's exception; None if there is none."""
    found = re.search(re.escape(_MARK) + r"([\w+/=]+)>>", text)
    if found is None:
        return None
    name, message = json.loads(base64.b64decode(found[1]))
    kind: Any = getattr(errors, name, Error)
    error: Error = kind(message)
    return error


def reason(text: str) -> str:
    """The line that names the cause, from the text of Spark's exception; at most 300 characters."""
    ended = re.search(r"terminated with exception: *(\S[^\n]*)", text)
    if ended is not None and not re.search(r"SparkException|Job aborted|FOREACH_BATCH", ended[1]):
        return ended[1][:300]
    lines = [re.sub(r"^(: |Caused by: )", "", line.strip()) for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.$]*(Error|Exception)\b", line)]
    return (named or lines or ["no reason given"])[-1][:300]


def retry(job: Callable[[], T], what: str) -> T:
    """The result of a Spark job without side effects; it runs again if it fails, for example because a worker died.

    Raises Error, which starts with ``what``, after ``TRIES`` failures.
    """
    for left in reversed(range(TRIES)):
        try:
            return job()
        except (PySparkException, Py4JJavaError) as error:
            if not left:
                raise Error(f"{what}: {reason(str(error))}") from error
    raise AssertionError(TRIES)
