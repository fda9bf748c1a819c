"""A question to the runtime of this host: asked, asked again where that does no harm, or reported as lost."""

from __future__ import annotations

import pyarrow as pa

from ..errors import Error
from . import connection, wire
from .address import Application
from .connection import Lost
from .wire import Head

TRIES = 5
"""A runtime that dies so often while it is at one question dies of it."""

Answered = tuple[Head, "pa.Table | None", "int | None"]


def ask(application: Application, head: Head, table: pa.Table | None = None, *, again: bool = True) -> Answered:
    """The answer: its head, its table, the open file that came along.

    ``again``: the question can be asked twice without harm. Raises Error for what the
    runtime refuses, Lost where it ended before it answered and the question must not be
    asked again, or has been too often.
    """
    for _ in range(TRIES if again else 1):
        sock = connection.take(application)
        try:
            answered = wire.exchange(sock, head, table)
        except OSError:
            sock.close()
            connection.drop(application)
            continue
        except BaseException:
            # Whoever used it next would read this answer.
            sock.close()
            raise
        connection.give(application, sock)
        if "error" in answered[0]:
            raise Error(answered[0]["error"])
        return answered
    what = f"{head.get('thing')}: the runtime of this host ended while it was at {head['op']!r}"
    if again:
        raise Lost(f"{what}, {TRIES} times; something in the question kills it")
    raise Lost(
        f"{what}; it is not known whether that was done, so it is not asked again: look, then repeat it yourself"
    )
