"""The address of a Spark application, which a handle uses to find its runtime and its driver."""

from __future__ import annotations

import dataclasses

from . import host


@dataclasses.dataclass(frozen=True)
class Application:
    """The address of one Spark application, and the secret that its processes use to authenticate each other.

    A pickled handle contains an Application.
    """

    name: str
    """A random name, which is not secret."""
    secret: bytes = dataclasses.field(repr=False)
    driver: tuple[str, int]
    """The host and port at which the driver accepts connections from runtimes."""
    identity: str
    """The name of the driver's host (`host.identity`). A runtime on the same host does not copy the driver's files."""
    override: str | None
    """The value of SHAREDSTATE_LITE_HOST in the driver, or None if it is not set."""

    def runtime_name(self) -> str:
        """Return the name under which the runtime on this host listens."""
        return f"{self.name}@{host.identity(self.override)}"

    def driver_name(self) -> str:
        """Return the name under which the driver listens on its own host, to pass files to the runtime there."""
        return f"{self.name}/driver"
