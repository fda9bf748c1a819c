"""A submission: processes with commands, and the addresses of its services. Texts still contain placeholders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("order", "stock", "payment", "database", "gateway", "other")
SERVICES = ("order", "stock", "payment")
PREFIXES = {"order": "orders", "stock": "stock", "payment": "payment"}
"""The paths of the services below base_url."""


@dataclass(frozen=True)
class Ready:
    """The sign that a process is ready: a port that accepts connections, or a URL that answers 2xx."""

    tcp: str = ""
    http: str = ""
    timeout: float = 0.0
    """Seconds; 0: the limit of the run."""


@dataclass(frozen=True)
class Process:
    """One [[process]] table."""

    name: str
    role: str
    command: tuple[str, ...]
    cwd: str = "."
    port: int = 0
    """0: the grader picks a free port."""
    env: dict[str, str] = field(default_factory=dict)
    ready: Ready = Ready()


@dataclass(frozen=True)
class Submission:
    """A folder to grade, or a system at --url (then without folder and processes)."""

    name: str
    folder: Path | None
    urls: dict[str, str]
    """For each service the URL before its routes."""
    processes: tuple[Process, ...] = ()
    build: tuple[tuple[str, ...], ...] = ()


def service_urls(base: str) -> dict[str, str]:
    """The URLs of the three services below one base URL."""
    return {service: f"{base.rstrip('/')}/{PREFIXES[service]}" for service in SERVICES}
