"""A submission: its processes and the addresses of its services. Their strings still contain placeholders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("order", "stock", "payment", "database", "gateway", "other")
LOOPBACK = "127.0.0.1"
SERVICES = ("order", "stock", "payment")
PREFIXES = {"order": "orders", "stock": "stock", "payment": "payment"}
"""The path of each service below base_url."""


@dataclass(frozen=True)
class Ready:
    """How to tell that a process is ready: a port accepts connections, a URL answers 2xx, or a command exits with 0."""

    tcp: str = ""
    http: str = ""
    command: tuple[str, ...] = ()
    timeout: float = 0.0
    """The time limit in seconds; 0: use the limit of the run."""


@dataclass(frozen=True)
class Process:
    """One [[process]] table of checkout.toml."""

    name: str
    role: str
    command: tuple[str, ...]
    """The words of the command; empty for a process with routes."""
    cwd: str = "."
    port: int = 0
    """0: the grader picks a free port."""
    env: dict[str, str] = field(default_factory=dict)
    ready: Ready = Ready()
    address: str = LOOPBACK
    """The loopback address of this process. Two processes with different addresses can use the same port."""
    routes: tuple[tuple[str, str], ...] = ()
    """The routes of a gateway that the grader provides: prefixes of paths, and the addresses of their services."""


@dataclass(frozen=True)
class Submission:
    """A folder to grade, or a system at --url, which has no folder and no processes."""

    name: str
    folder: Path | None
    urls: dict[str, str]
    """The URL of each service, to which the paths of its routes are added."""
    processes: tuple[Process, ...] = ()
    build: tuple[tuple[str, ...], ...] = ()
    python: str = ""
    """The Python that the submission uses: a version such as "3.12", or a path; "": the grader's."""


def service_urls(base: str) -> dict[str, str]:
    """Return the URLs of the three services below one base URL."""
    return {service: f"{base.rstrip('/')}/{PREFIXES[service]}" for service in SERVICES}
