"""Reads a docker-compose.yml: what each service runs, with which environment, and what it waits for."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..errors import UsageError

FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_COMPLETED = "service_completed_successfully"
_VARIABLE = re.compile(r"\$(?:\$|(\w+)|\{(\w+)(?::?-([^}]*)|[^}]*)?\})")


@dataclass
class Service:
    """One service of the compose file."""

    name: str
    image: str = ""
    context: str = ""
    """The folder of the build, relative to the compose file; "" if there is none."""
    dockerfile: str = "Dockerfile"
    entrypoint: list[str] | None = None
    command: list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    ports: list[int] = field(default_factory=list)
    """The ports inside the container that the file names."""
    after: list[str] = field(default_factory=list)
    """The services that start before this one."""
    mounts: list[tuple[str, str]] = field(default_factory=list)
    """Each volume: a path of the repository, or "" for a volume of Docker, and the path inside the container."""
    check: list[str] = field(default_factory=list)
    """The command of the health check."""
    unfit: str = ""
    """Why the grader cannot run it, or ""."""
    names: list[str] = field(default_factory=list)
    """The names by which other services reach it."""


class Reader:
    """Reads the compose file of a folder. ``notes`` collects what could not be decided."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError if the folder has no compose file, or an invalid one."""
        self.folder = folder.resolve()
        found = [folder / name for name in FILES if (folder / name).is_file()]
        if not found:
            raise UsageError(f"{folder} has none of {', '.join(FILES)}; give the folder of the repository")
        self.path, self.notes = found[0], list[str]()
        try:
            content = yaml.safe_load(self.path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UsageError(f"{self.path} cannot be read: {error}; mend the file") from error
        services = content.get("services") if isinstance(content, dict) else None
        if not isinstance(services, dict) or not all(isinstance(table, dict) for table in services.values()):
            raise UsageError(f"{self.path}: services must be a table with a table for each service; mend the file")
        self._variables = self._env_file(".env") if (folder / ".env").is_file() else {}
        self.services = [self._service(str(name), table) for name, table in services.items()]
        waited = [table["depends_on"] for table in services.values() if isinstance(table.get("depends_on"), dict)]
        once = {name for given in waited for name, how in given.items() if (how or {}).get("condition") == _COMPLETED}
        for service in self.services:
            if service.name in once or services[service.name].get("restart") in ("no", False):
                service.unfit = "it runs once; do its work in the ready command of a process that comes before"

    def _text(self, value: Any, who: str) -> str:
        """Return a value as text, with its variables replaced."""

        def given(match: re.Match[str]) -> str:
            if match[0] == "$$":
                return "$"
            name = match[1] or match[2]
            if name not in self._variables and match[3] is None:
                self.notes.append(f"{who}: the variable {name} is not set in .env; the draft leaves it empty")
            return self._variables.get(name) or match[3] or ""

        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return _VARIABLE.sub(given, text)

    def _env_file(self, name: str) -> dict[str, str]:
        path, found = (self.folder / name).resolve(), {}
        if not path.is_relative_to(self.folder):
            raise OSError(f"{name} is outside of the repository")
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            key, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and not key.startswith("#"):
                found[key.strip()] = value.strip().strip("\"'")
        return found

    def _words(self, value: Any, who: str) -> list[str] | None:
        if value is None:
            return None
        if isinstance(value, list):
            return [self._text(word, who) for word in value]
        try:
            return shlex.split(self._text(value, who))
        except ValueError as error:
            raise UsageError(f"{self.path}: {who}: {value!r}: {error}; quote the command as in a shell") from error

    def _service(self, name: str, table: dict[str, Any]) -> Service:
        service = Service(name, self._text(table.get("image"), name), names=[name])
        build = table.get("build")
        if build is not None:
            given = build if isinstance(build, dict) else {"context": build}
            service.context = self._text(given.get("context", "."), name)
            service.dockerfile = self._text(given.get("dockerfile", "Dockerfile"), name)
        service.entrypoint = self._words(table.get("entrypoint"), name)
        service.command = self._words(table.get("command"), name)
        files = table.get("env_file") or []
        for file in files if isinstance(files, list) else [files]:
            path = file.get("path", "") if isinstance(file, dict) else file
            try:
                service.env |= self._env_file(self._text(path, name))
            except OSError:
                self.notes.append(f"{name}: the env_file {path} cannot be read")
        pairs = table.get("environment") or {}
        if isinstance(pairs, list):
            pairs = dict(str(pair).partition("=")[::2] for pair in pairs)
        service.env |= {str(key): self._text(value, name) for key, value in pairs.items()}
        ports = [_port(given) for given in (*(table.get("ports") or []), *(table.get("expose") or []))]
        service.ports = [port for port in ports if port]
        service.after = list(table.get("depends_on") or [])
        for volume in table.get("volumes") or []:
            service.mounts.append(self._mount(volume, name))
            if "docker.sock" in str(volume):
                service.unfit = "it controls Docker"
        test = (table.get("healthcheck") or {}).get("test")
        if isinstance(test, list) and test[:1] in (["CMD"], ["CMD-SHELL"]):
            words = [self._text(word, name) for word in test[1:]]
            service.check = words if test[0] == "CMD" else ["sh", "-c", *words]
        elif isinstance(test, str):
            service.check = ["sh", "-c", self._text(test, name)]
        networks = table.get("networks")
        for given in networks.values() if isinstance(networks, dict) else ():
            service.names += (given or {}).get("aliases") or []
        service.names += [str(other) for other in (table.get("container_name"), table.get("hostname")) if other]
        copies = table.get("scale") or ((table.get("deploy") or {}).get("replicas"))
        if copies and copies != 1:
            self.notes.append(f"{name}: the file starts {copies} copies; the draft starts one")
        return service

    def _mount(self, volume: Any, who: str) -> tuple[str, str]:
        if isinstance(volume, dict):
            source, target = str(volume.get("source", "")), str(volume.get("target", ""))
        else:
            source, target, *_ = (*self._text(volume, who).split(":"), "")
        path = (self.folder / source).resolve()
        inside = "/" in source and path.is_relative_to(self.folder) and path.exists()
        return str(path.relative_to(self.folder)) if inside else "", target


def _port(given: Any) -> int:
    """Return the port inside the container of an entry of ports or expose; 0 if it is not one number."""
    text = str(given.get("target", "")) if isinstance(given, dict) else str(given)
    last = text.rpartition(":")[2].partition("/")[0]
    return int(last) if last.isdecimal() else 0
