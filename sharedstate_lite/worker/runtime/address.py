"""The address of a Spark application: all that a handle needs to find its runtime and its driver."""

from __future__ import annotations

import dataclasses

from . import host


@dataclasses.dataclass(frozen=True)
class Application:
    """One Spark application and the secret that its processes prove to each other. A handle pickles as this."""

    name: str
    """A random name; not a secret."""
    secret: bytes = dataclasses.field(repr=False)
    driver: tuple[str, int]
    """Host and port of the lease."""
    identity: str
    """The driver's host (`host.identity`). A runtime on the same host maps the driver's files without a copy."""
    override: str | None
    """The value of SHAREDSTATE_LITE_HOST in the driver."""

    def runtime_name(self) -> str:
        """The name under which this host's runtime listens."""
        return f"{self.name}@{host.identity(self.override)}"

    def driver_name(self) -> str:
        """The name under which the driver listens on its own host, to pass files."""
        return f"{self.name}/driver"
