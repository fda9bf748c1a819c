"""The placeholders {port}, {port:NAME}, {address}, {address:NAME}, {data} and {submission}.

``{{`` and ``}}`` are literal braces.

Any other name and any single brace are errors, so that a typo never reaches a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .model import LOOPBACK

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class BadPlace(ValueError):
    """A string contains an unknown placeholder or a single brace."""


def places(text: str) -> list[str]:
    """Return the names of all placeholders in a string, in order. Raises BadPlace if there is a single brace."""
    found = []
    for match in _TOKEN.finditer(text):
        if match[1] is not None:
            found.append(match[1])
        elif match[0] in "{}":
            raise BadPlace(f"single {match[0]!r} in {text!r}; double it to write a literal brace")
    return found


def check(text: str, names: set[str], inside: bool) -> None:
    """Raise BadPlace if a string contains an unknown placeholder. ``inside``: the string belongs to a process."""
    for place in places(text):
        kind, _, name = place.partition(":")
        if kind in ("port", "address") and name:
            if name not in names:
                known = ", ".join(sorted(names)) or "none"
                raise BadPlace(f"{{{place}}}: no [[process]] is named {name!r}; the names are {known}")
        elif place not in ("port", "address", "data", "submission"):
            raise BadPlace(
                f"{{{place}}} is not a placeholder; use {{port}}, {{port:NAME}}, {{address}}, {{address:NAME}}, "
                "{data} or {submission}"
            )
        elif place != "submission" and not inside:
            raise BadPlace(
                f"{{{place}}} is allowed only in a [[process]]; here, write {{port:NAME}} or {{address:NAME}}"
            )


@dataclass(frozen=True)
class Places:
    """The values of the placeholders in one run."""

    ports: Mapping[str, int]
    data: Callable[[str], str]
    """A function that returns the data folder of a process, given its name."""
    submission: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The loopback addresses of the processes that do not use 127.0.0.1."""
    ways: Mapping[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    """The addresses and ports that lead from a process, or from the client (""), to another process, if not its own."""

    @property
    def direct(self) -> Places:
        """The same without ``ways``."""
        return replace(self, ways={})

    def open_ports(self) -> tuple[int, ...]:
        """Return the ports that a process of the run can connect to."""
        return (*self.ports.values(), *(port for _, port in self.ways.values()))

    def fill(self, text: str, process: str = "") -> str:
        """Replace the placeholders in a string that `check` has accepted. ``process``: the process it belongs to."""

        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            kind, _, name = match[1].partition(":")
            own = self.addresses.get(name or process, LOOPBACK), self.ports.get(name or process, 0)
            address, port = self.ways.get((process, name), own)
            if kind == "port":
                return str(port)
            if kind == "address":
                return address
            return self.data(process) if kind == "data" else self.submission

        return _TOKEN.sub(value, text)
