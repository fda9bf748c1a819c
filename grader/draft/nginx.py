"""Reads the routes of an nginx configuration: locations with proxy_pass, and upstreams."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LOCATION = re.compile(r"location\s+(?:(=|~\*?|\^~)\s+)?(\S+)\s*\{([^{}]*)\}")


@dataclass
class Routes:
    """The URLs of each prefix, and what could not be decided."""

    urls: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read(text: str) -> Routes:
    """Read a configuration."""
    text = re.sub(r"#.*", "", text)
    upstreams = {
        name: [server.split()[0] for server in re.findall(r"server\s+([^;]+);", body)]
        for name, body in re.findall(r"upstream\s+(\S+)\s*\{([^{}]*)\}", text)
    }
    found = Routes()
    for kind, path, body in _LOCATION.findall(text):
        passed = re.search(r"proxy_pass\s+(\S+?)\s*;", body)
        if passed is None:
            found.notes.append(f"location {path} has no proxy_pass")
            continue
        parts = re.fullmatch(r"http://([^/$]+)(/[^$]*)?", passed[1])
        rewrite = re.search(r"rewrite\s+(\S+)\s+(\S+)", body)
        stripped = rewrite and re.fullmatch(r"\^?" + re.escape(path) + r"/?\(\.[*+]\)\$?", rewrite[1])
        if kind.startswith("~") or kind == "=" or parts is None or rewrite and not (stripped and rewrite[2] == "/$1"):
            found.notes.append(f"location {path} uses more than a prefix and an address; write its route by hand")
            continue
        rest = ("/" if path.endswith("/") else "") if stripped else parts[2] or ""
        if stripped and not rest:
            path, rest = f"{path}/", "/"
        found.urls[path] = [f"http://{server}{rest}" for server in upstreams.get(parts[1], [parts[1]])]
    return found
