"""The base class of all handles. A task receives a handle as an address, and only the driver can close it."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, ClassVar, Self

import pyarrow as pa

from ...errors import Error
from ..runtime.address import Application
from . import client
from .client import Answered
from .driver import DriverServer


class SharedHandle:
    """A shared resource that the driver and all tasks of an application can use. It is pickled as an address.

    In the driver, a handle is a context manager that closes the resource on exit.
    """

    kind: ClassVar[str] = ""

    def __init__(self, driver: DriverServer, name: str) -> None:
        self._application, self._name = driver.application, name
        self._driver: DriverServer | None = driver
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        """The name of the resource in `metrics` and in error messages, such as ``Cache 1``."""
        return self._name

    def _request(self, head: dict[str, Any], table: pa.Table | None = None, *, retry: bool = True) -> Answered:
        return client.request(self._application, {**head, "resource": self._name}, table, retry=retry)

    def close(self) -> None:
        """Close the resource on every host, so that later requests raise Error.

        A second call does nothing. Raises Error in a task.
        """
        if self._driver is None or self._pid != os.getpid():
            raise Error(f"{self!r}: only the driver that created a handle can close it. Close it there after the job.")
        self._driver.unregister(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickle, (type(self), self._application, self._name, self._attributes())

    def _attributes(self) -> dict[str, Any]:
        """Return additional attributes to pickle. They must be plain values."""
        return {}

    def __repr__(self) -> str:
        return f"<{self._name} of application {self._application.name}>"


def unpickle(kind: type[SharedHandle], application: Application, name: str, attributes: dict[str, Any]) -> SharedHandle:
    """Create the handle that a task receives, from its pickled parts."""
    out = kind.__new__(kind)
    out._application, out._name, out._driver, out._pid = application, name, None, 0
    for attribute, value in attributes.items():
        setattr(out, attribute, value)
    return out
