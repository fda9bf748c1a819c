"""What a submission is: processes with commands, and where its services answer. Texts still hold their placeholders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("order", "stock", "payment", "database", "gateway", "other")
SERVICES = ("order", "stock", "payment")
PREFIXES = {"order": "orders", "stock": "stock", "payment": "payment"}
"""Under base_url, without a gateway's own word."""


@dataclass(frozen=True)
class Ready:
    """How a process shows that it is up: a port that accepts, or a URL that answers 2xx."""

    tcp: str = ""
    http: str = ""
    timeout: float = 0.0
    """Seconds; 0: the run's own limit."""


@dataclass(frozen=True)
class Process:
    """One [[process]]."""

    name: str
    role: str
    command: tuple[str, ...]
    cwd: str = "."
    port: int = 0
    """0: a free one."""
    env: dict[str, str] = field(default_factory=dict)
    ready: Ready = Ready()


@dataclass(frozen=True)
class Submission:
    """A folder that can be graded, or a system that runs elsewhere (no folder, no processes)."""

    name: str
    folder: Path | None
    urls: dict[str, str]
    """Service to the URL that its routes follow."""
    processes: tuple[Process, ...] = ()
    build: tuple[tuple[str, ...], ...] = ()


def service_urls(base: str) -> dict[str, str]:
    """The three services behind one base URL."""
    return {service: f"{base.rstrip('/')}/{PREFIXES[service]}" for service in SERVICES}
