"""The four placeholders {port}, {port:NAME}, {data} and {submission}. ``{{`` and ``}}`` stand for braces.

Any other name is an error, and so is a single brace, so that no typing error reaches a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class BadPlace(ValueError):
    """A text contains an unknown placeholder or a single brace."""


def places(text: str) -> list[str]:
    """The names of all placeholders, in order. Raises BadPlace for a single brace."""
    found = []
    for match in _TOKEN.finditer(text):
        if match[1] is not None:
            found.append(match[1])
        elif match[0] in "{}":
            raise BadPlace(f"single {match[0]!r} in {text!r}; write a brace twice")
    return found


def check(text: str, names: set[str], inside: bool) -> None:
    """Raises BadPlace for an unknown placeholder. ``inside``: the text belongs to one process."""
    for place in places(text):
        kind, _, name = place.partition(":")
        if kind == "port" and name:
            if name not in names:
                known = ", ".join(sorted(names)) or "none"
                raise BadPlace(f"{{{place}}}: no [[process]] is named {name!r}; the names are {known}")
        elif place not in ("port", "data", "submission"):
            raise BadPlace(f"{{{place}}} is not a placeholder; use {{port}}, {{port:NAME}}, {{data}} or {{submission}}")
        elif place in ("port", "data") and not inside:
            raise BadPlace(f"{{{place}}} needs a process; write {{port:NAME}} here")


@dataclass(frozen=True)
class Places:
    """The values of the placeholders in one run."""

    ports: Mapping[str, int]
    data: Callable[[str], str]
    """The data folder of a process, by its name."""
    submission: str

    def fill(self, text: str, process: str = "") -> str:
        """Replace the placeholders of a text that `check` has accepted."""

        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            kind, _, name = match[1].partition(":")
            if kind == "port":
                return str(self.ports[name or process])
            return self.data(process) if kind == "data" else self.submission

        return _TOKEN.sub(value, text)
