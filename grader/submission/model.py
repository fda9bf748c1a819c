"""A submission: its processes and the addresses of its services. Their strings still contain placeholders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("order", "stock", "payment", "database", "gateway", "other")
SERVICES = ("order", "stock", "payment")
PREFIXES = {"order": "orders", "stock": "stock", "payment": "payment"}
"""The path of each service below base_url."""


@dataclass(frozen=True)
class Ready:
    """How to tell that a process is ready: a port accepts connections, or a URL answers 2xx."""

    tcp: str = ""
    http: str = ""
    timeout: float = 0.0
    """The time limit in seconds; 0: use the limit of the run."""


@dataclass(frozen=True)
class Process:
    """One [[process]] table of checkout.toml."""

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
    """A folder to grade, or a system at --url, which has no folder and no processes."""

    name: str
    folder: Path | None
    urls: dict[str, str]
    """The URL of each service, to which the paths of its routes are added."""
    processes: tuple[Process, ...] = ()
    build: tuple[tuple[str, ...], ...] = ()


def service_urls(base: str) -> dict[str, str]:
    """Return the URLs of the three services below one base URL."""
    return {service: f"{base.rstrip('/')}/{PREFIXES[service]}" for service in SERVICES}
