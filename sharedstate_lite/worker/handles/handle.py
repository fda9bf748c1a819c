"""What every handle is: an address that tasks carry, and something that its driver can end."""

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
    """A shared thing, from anywhere in its application; pickles as its address. A context manager in the driver."""

    kind: ClassVar[str] = ""

    def __init__(self, driver: DriverServer, name: str) -> None:
        self._application, self._name = driver.application, name
        self._driver: DriverServer | None = driver
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        """What it is called in ``metrics()`` and in errors."""
        return self._name

    def _ask(self, head: dict[str, Any], table: pa.Table | None = None, *, retry: bool = True) -> Answered:
        """What the runtime of this host answers."""
        return client.ask(self._application, {**head, "thing": self._name}, table, retry=retry)

    def close(self) -> None:
        """End it on every host; whoever asks it afterwards gets an error. Harmless when repeated."""
        if self._driver is None or self._pid != os.getpid():
            raise Error(
                f"{self!r}: only the driver that made it can close it; leave that to the program that starts jobs"
            )
        self._driver.remove(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self._application, self._name, self._pickled_attributes())

    def _pickled_attributes(self) -> dict[str, Any]:
        """What else travels: attributes that are plain values."""
        return {}

    def __repr__(self) -> str:
        return f"<{self._name} of application {self._application.name}>"


def _unpickle(kind: type[SharedHandle], application: Application, name: str, carried: dict[str, Any]) -> SharedHandle:
    """A handle as it arrives in a task."""
    out = kind.__new__(kind)
    out._application, out._name, out._driver, out._pid = application, name, None, 0
    for attribute, value in carried.items():
        setattr(out, attribute, value)
    return out
