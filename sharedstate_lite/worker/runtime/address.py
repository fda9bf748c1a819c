"""What a handle pickles as: an address, never what it is the address of."""

from __future__ import annotations

import dataclasses

from . import host


@dataclasses.dataclass(frozen=True)
class Application:
    """One Spark application: whom its runtimes belong to, and how to prove that one does."""

    name: str
    """Drawn for it; not a secret."""
    secret: bytes = dataclasses.field(repr=False)
    driver: tuple[str, int]
    """Host and port of the lease."""
    identity: str
    """The driver's host, by which a runtime knows that it may map what the driver has."""
    override: str | None
    """What SHAREDSTATE_LITE_HOST was in the driver."""

    def runtime_name(self) -> str:
        """The name of the runtime of this host."""
        return f"{self.name}@{host.identity(self.override)}"

    def driver_name(self) -> str:
        """The name under which the driver hands out files to its own host."""
        return f"{self.name}/driver"
