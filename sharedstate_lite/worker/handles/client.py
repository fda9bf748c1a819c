"""A question to the runtime of this host: asked, asked again where that does no harm, or reported as lost."""

from __future__ import annotations

import socket

import pyarrow as pa

from ...errors import Error
from ..runtime import protocol
from ..runtime.address import Application
from ..runtime.protocol import Head
from . import connection
from .connection import Lost

TRIES = 5
"""A runtime that dies so often while it is at one question dies of it."""

Answered = tuple[Head, "pa.Table | None", "int | None"]


def ask(application: Application, head: Head, table: pa.Table | None = None, *, retry: bool = True) -> Answered:
    """The answer to one question; see :meth:`ClientSession.ask`."""
    with ClientSession(application) as conversation:
        return conversation.ask(head, table, retry=retry)


class ClientSession:
    """Questions over one connection that nobody else uses meanwhile: its end gives back what this one was to do."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._sock: socket.socket | None = None

    def ask(self, head: Head, table: pa.Table | None = None, *, retry: bool = True) -> Answered:
        """The answer: its head, its table, the open file that came along.

        ``again``: the question can be asked twice without harm. Raises Error for what the
        runtime refuses, Lost where it ended before it answered and the question must not be
        asked again, or has been too often.
        """
        for _ in range(TRIES if retry else 1):
            sock = self._sock = self._sock or connection.take(self._application)
            try:
                answered = protocol.request(sock, head, table)
            except OSError:
                self._end()
                connection.drop(self._application)
                continue
            except BaseException:
                # Whoever used it next would read this answer.
                self._end()
                raise
            if "error" in answered[0]:
                raise Error(answered[0]["error"])
            return answered
        what = f"{head.get('thing')}: the runtime of this host ended while it was at {head['op']!r}"
        if retry:
            raise Lost(f"{what}, {TRIES} times; something in the question kills it")
        raise Lost(f"{what}; it is not known whether that was done, so it is not asked again: look, then repeat it")

    def __enter__(self) -> ClientSession:
        return self

    def __exit__(self, *_: object) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            connection.give(self._application, sock)

    def _end(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
