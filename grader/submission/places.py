"""The four placeholders: {port}, {port:NAME}, {data}, {submission}; ``{{`` and ``}}`` are braces.

Any other name is an error, and so is a lone brace: a typing error must not reach a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class BadPlace(ValueError):
    """A text with a placeholder that is none of the four."""


def places(text: str) -> list[str]:
    """The names in braces, in order. Raises BadPlace for a brace that is no part of one."""
    found = []
    for match in _TOKEN.finditer(text):
        if match[1] is not None:
            found.append(match[1])
        elif match[0] in "{}":
            raise BadPlace(f"a lone {match[0]!r} in {text!r}; a brace itself is written twice")
    return found


def check(text: str, names: set[str], inside: bool) -> None:
    """Raises BadPlace unless every placeholder is known; ``inside``: the text belongs to one process."""
    for place in places(text):
        kind, _, name = place.partition(":")
        if kind == "port" and name:
            if name not in names:
                known = ", ".join(sorted(names)) or "there is none"
                raise BadPlace(f"{{{place}}}: no [[process]] is named {name!r} (named: {known})")
        elif place not in ("port", "data", "submission"):
            raise BadPlace(f"{{{place}}} is no placeholder; they are {{port}}, {{port:NAME}}, {{data}}, {{submission}}")
        elif place in ("port", "data") and not inside:
            raise BadPlace(f"{{{place}}} belongs to one process; here it is written {{port:NAME}}")


@dataclass(frozen=True)
class Places:
    """What the placeholders of a run stand for."""

    ports: Mapping[str, int]
    data: Callable[[str], str]
    """A process's folder, by the process's name."""
    submission: str

    def fill(self, text: str, process: str = "") -> str:
        """The text with its placeholders replaced; it has been checked when it was read."""

        def value(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            kind, _, name = match[1].partition(":")
            if kind == "port":
                return str(self.ports[name or process])
            return self.data(process) if kind == "data" else self.submission

        return _TOKEN.sub(value, text)
