"""Records of version 1: phases by number, and facts that only the names of waves and the texts of notes told.

Everything here is fixed, since no record of this version is written any more. Version 2 has a name for each phase,
flags in its waves, and a field for each fact.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_PHASES = ("contract", "duplicates", "load", "scarcity", "faults", "speed", "powercut")
"""The column ``phase`` of orders, users and items was a place in this list."""
_LIMIT_FOUND = "a rate that is not held was found"
"""Why the speed phase had ended, if not for lack of time."""


def types(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a table of version 1 has, given those of now."""
    place = schema.get_field_index("phase")
    return schema if place < 0 else schema.set(place, pa.field("phase", pa.int8()))


def names(places: list[int]) -> list[str]:
    """Return the names of phases, given their places in the list."""
    return [_PHASES[place] for place in places]


def mended(about: dict[str, Any], exchanges: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the contents of run.json and exchanges.json as version 2 has them."""
    waves = [{"start": 0, "requests": 0, **wave} for wave in about.get("waves", [])]
    main = {wave["phase"] for wave in waves if wave["name"] == wave["phase"]}
    for wave in waves:
        # A wave with the name of its phase was the only one that counted.
        wave["counts"] = wave["name"] == wave["phase"] if wave["phase"] in main else True
        wave["may_refuse"] = wave["name"].startswith("short")
        wave["again"] = wave["name"] == "what was shed"
    phases = {phase: dict(notes) for phase, notes in about.get("phases", {}).items()}
    if phases.get("speed", {}).get("ended") == _LIMIT_FOUND:
        phases["speed"]["limit_found"] = True
    asked = [{"service": "", **each, "reads": each["request"].startswith("GET")} for each in exchanges]
    return {**about, "waves": waves, "phases": phases}, asked
