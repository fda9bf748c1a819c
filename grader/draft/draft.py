"""Combines what the files of a repository say into a checkout.toml, and notes what they do not say."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import SubmissionError
from ..folders import paths
from ..processes.python import find
from ..submission.model import SERVICES
from . import dockerfile, images, nginx, toml
from .compose import Reader, Service
from .dockerfile import Dockerfile
from .sources import hard_coded

_ROLES = {"order": "order", "stock": "stock|inventory", "payment": "payment|user"}
"""The role of a service whose name contains one of these words."""
_HOSTS = re.compile(r"HOST|URL|URI|ADDR|SERVER|BROKER|ENDPOINT|NODE|PEER", re.IGNORECASE)
"""A variable with such a name contains the name of a host."""
_PYTHON_PROGRAMS = re.compile(r"python[\d.]*|gunicorn|flask|uvicorn|hypercorn|waitress-serve|celery|faust|quart")
_ALL_ADDRESSES = re.compile(r"(?<![\w.])(0\.0\.0\.0|\[::\]|^(?=:\d))")
_LISTENS = re.compile(r"(?:^|0\.0\.0\.0|\[::\]):(\d{2,5})\b")
"""An address on which a command listens."""
_NAMES_A_HOST = re.compile(r"--?(h|host\w*|server|replicaof|slaveof|bootstrap-servers?|brokers?)")
_LEAST_PORT = 1024


@dataclass(frozen=True)
class Draft:
    """The text of a checkout.toml, and what could not be decided."""

    text: str
    processes: list[str]
    notes: list[str]


@dataclass
class _Process:
    """One [[process]] of the draft. Its strings still contain the names of services."""

    service: Service
    role: str
    address: str
    inner: int = 0
    """The port in the container; 0 if it is not known. Ports below 1024 cannot be used outside of a container."""
    command: list[str] = field(default_factory=list)
    routes: dict[str, list[str]] = field(default_factory=dict)
    cwd: str = ""
    env: dict[str, str] = field(default_factory=dict)
    ready: dict[str, str | list[str]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """The port outside of the container; 0: the grader picks a free one."""
        return self.inner if self.inner >= _LEAST_PORT and not self.routes else 0


def draft(folder: Path) -> Draft:
    """Draft the checkout.toml of a repository. Raises UsageError if it has no compose file, or an invalid one."""
    return _Drafting(folder).result()


class _Drafting:
    def __init__(self, folder: Path) -> None:
        self._compose = Reader(folder)
        self._folder, self._notes = self._compose.folder, self._compose.notes
        self._build: list[list[str]] = []
        self._pythons: set[str] = set()
        self._environments: dict[tuple[str, str], str] = {}
        self._processes: list[_Process] = []
        for number, service in enumerate(_in_order(self._compose.services), 2):
            process = None if service.unfit else self._process(service, f"127.0.0.{number}")
            if process is not None and (process.command or process.routes):
                self._processes.append(process)
            else:
                why = service.unfit or f"its image {service.image or service.context} has no command that is known here"
                self._note(service.name, f"the draft leaves it out, because {why}")
        self._hosts = {name: process for process in self._processes for name in process.service.names}
        names = sorted(map(re.escape, self._hosts), key=len, reverse=True)
        self._host = re.compile(rf"(//|@|,|^)({'|'.join(names) or '(?!)'})(?::(\d+))?(?![\w.-])")

    def result(self) -> Draft:
        """Return the draft."""
        for process in self._processes:
            self._ports_of_routes(process)
        blocks = [self._block(process) for process in self._processes]
        head = [
            f"# Drafted from {self._compose.path.name} by `python -m grader draft`.",
            f"name = {toml.value(self._folder.name)}",
            self._addresses(),
            *self._python(),
        ]
        if self._build:
            head.append("build = [\n" + "".join(f"    {toml.value(command)},\n" for command in self._build) + "]")
        contexts = sorted({process.service.context for process in self._processes if process.service.context})
        self._notes += hard_coded(self._folder, contexts, {n: p.service.name for n, p in self._hosts.items()})
        names = [process.service.name for process in self._processes]
        return Draft("\n".join([*head, "", *blocks]), names, list(dict.fromkeys(self._notes)))

    def _note(self, who: str, text: str) -> None:
        self._notes.append(f"{who}: {text}")

    def _process(self, service: Service, address: str) -> _Process:
        docker = self._dockerfile(service)
        kind = images.kind(docker.image or service.image)
        service.command = service.command or docker.command
        if kind in images.PORTS or kind == "nginx":
            service.mounts += [(str(Path(service.context, source)), target) for source, target in docker.copies]
        if kind in images.PORTS:
            process = _Process(service, "database", address, images.port(kind, service))
            return self._database(service, process, kind) if images.is_plain(service) else process
        if kind == "nginx":
            return self._gateway(service, docker, _Process(service, "gateway", address, 80))
        role = next((role for role, words in _ROLES.items() if re.search(words, service.name)), "other")
        return self._service(service, docker, _Process(service, role, address))

    def _database(self, service: Service, process: _Process, kind: str) -> _Process:
        started = images.database(kind, service, images.scripts_of(service, self._folder))
        process.command, process.env, process.ready = started.command, started.env, started.ready
        self._build += [command for command in started.build if command not in self._build]
        for text in started.notes:
            self._note(service.name, text)
        if started.missing:
            self._notes.append(started.missing)
        return process

    def _dockerfile(self, service: Service) -> Dockerfile:
        if not service.context:
            return Dockerfile()
        try:
            return dockerfile.read(self._folder / service.context / service.dockerfile)
        except OSError as error:
            self._note(service.name, f"its Dockerfile cannot be read ({error.strerror})")
            return Dockerfile()

    def _gateway(self, service: Service, docker: Dockerfile, process: _Process) -> _Process:
        process.inner = next(iter([*service.ports, *docker.ports]), 80)
        places = [path for path, target in service.mounts if path and "nginx" in target]
        for path in (file for place in places for file in _files(self._folder / place)):
            found = nginx.read(path.read_text(errors="replace"))
            process.routes |= {prefix: self._known(urls) for prefix, urls in found.urls.items()}
            for text in found.notes:
                self._note(service.name, f"{path.relative_to(self._folder)}: {text}")
        return process

    def _known(self, urls: list[str]) -> list[str]:
        """Return URLs in which the copy of a service, such as order-2, has the name of the service."""
        names = {service.name for service in self._compose.services}
        found = []
        for url in urls:
            host = urlsplit(url).hostname or ""
            first = re.sub(r"[-_]\d+$", "", host)
            found.append(url if host in names or first not in names else url.replace(host, first, 1))
        return list(dict.fromkeys(found))

    def _service(self, service: Service, docker: Dockerfile, process: _Process) -> _Process:
        folders = {target: f"{{submission}}/{path}" if path else "{data}" for path, target in service.mounts if target}
        for target in {docker.workdir, *service.env.values(), *(target for _, target in docker.copies)}:
            source = docker.place(target) or ("." if target and target == docker.workdir else None)
            if source is not None:
                folders.setdefault(target, posixpath.normpath(f"{{submission}}/{service.context}/{source}"))
        place = posixpath.normpath(posixpath.join(service.context, docker.place(docker.workdir) or "."))
        process.cwd = "" if place == "." else place
        words = [*(service.entrypoint or docker.entrypoint), *(service.command or [])]
        process.command = [_inside(word, folders) for word in words]
        process.env = {name: _inside(value, folders) for name, value in {**docker.env, **service.env}.items()}
        named = [int(port) for word in words for port in _LISTENS.findall(word)]
        # A command that is not the image's own need not listen on the ports of the image.
        exposed = docker.ports if service.command == docker.command else []
        process.inner = next(iter([*named, *service.ports, *exposed]), 0)
        if docker.python:
            self._pythons.add(docker.python)
            self._environment(docker, process)
        elif docker.image:
            self._note(service.name, f"its image is made from {docker.image}; write commands for build that make it")
        for command in docker.others:
            self._note(service.name, f"its Dockerfile runs {command!r}; add this to build if the service needs it")
        for path, target in service.mounts:
            if (self._folder / path).is_dir() and path:
                self._note(service.name, f"it mounts {path} at {target}; if it writes there, let it write to {{data}}")
        if service.check and not service.context:
            here = [word.replace("localhost", "0.0.0.0") for word in service.check]
            process.ready = {"command": [_inside(word, folders) for word in here]}
        elif process.inner:
            process.ready = {"tcp": "{port}"}
        elif words:
            self._note(service.name, "its command names no port; if it listens on one, add port and ready")
        return process

    def _environment(self, docker: Dockerfile, process: _Process) -> None:
        """Let `build` make a virtual environment for an image, and let the command of a process use it."""
        if not docker.installs:
            return
        context = process.service.context
        place = self._environments.get((context, process.service.dockerfile))
        if place is None:
            place = self._environments[context, process.service.dockerfile] = f".venvs/{process.service.name}"
            self._build.append(["python3", "-m", "venv", place])
            for words in docker.installs:
                there = [docker.place(posixpath.join(docker.workdir or "/", word)) or word for word in words]
                paths = [posixpath.normpath(posixpath.join(context, path)) for path in there]
                files = [path if (self._folder / path).is_file() else w for w, path in zip(words, paths, strict=True)]
                self._build.append([f"{place}/bin/pip", "install", *files])
        programs = f"{{submission}}/{place}/bin"
        if process.command and _PYTHON_PROGRAMS.fullmatch(process.command[0]):
            process.command[0] = f"{programs}/{process.command[0]}"
        elif len(process.command) > 2 and process.command[0].rpartition("/")[2] in ("sh", "bash"):
            process.command[2] = f"PATH={programs}:$PATH; {process.command[2]}"

    def _ports_of_routes(self, gateway: _Process) -> None:
        """Take the port of a service from the gateway's configuration if nothing else names it."""
        for prefix, urls in gateway.routes.items():
            for url in urls:
                parts = urlsplit(url)
                target = self._hosts.get(parts.hostname or "")
                if target is None:
                    self._note(
                        gateway.service.name, f"{prefix} leads to {parts.netloc}, which the draft does not start"
                    )
                elif not target.inner:
                    target.inner = parts.port or 80
                    target.ready = {"tcp": "{port}"}

    def _named(self, text: str) -> str:
        """Return a string with the names of hosts replaced by their addresses."""

        def put(match: re.Match[str]) -> str:
            before, name, port = match.groups()
            if port is None and before in (",", ""):
                return match[0]  # this may be any word
            process = self._hosts[name]
            if not process.port and port in (None, str(process.inner)):
                port = f"{{port:{process.service.name}}}"
            return f"{before}{{address:{process.service.name}}}" + (f":{port}" if port else "")

        return self._host.sub(put, text)

    def _variable(self, who: str, name: str, text: str) -> str:
        process = self._hosts.get(text)
        if process is None:
            return self._named(text)
        if _HOSTS.search(name):
            return f"{{address:{process.service.name}}}"
        self._note(who, f"{name} is {text!r}; if this is the host and not just a name, write {{address:{text}}}")
        return text

    def _word(self, process: _Process, text: str) -> str:
        """Return a word of a command that listens on the address and the port of its process."""
        text = _ALL_ADDRESSES.sub("{address}", self._named(text))
        if process.inner and not process.port:
            text = re.sub(rf"(^|[:=]){process.inner}$", r"\1{port}", text)
        return text

    def _block(self, process: _Process) -> str:
        name = process.service.name
        command = [self._word(process, word) for word in process.command]
        for at, word in enumerate(process.command[1:], 1):
            if word in self._hosts and _NAMES_A_HOST.fullmatch(process.command[at - 1]):
                command[at] = f"{{address:{self._hosts[word].service.name}}}"
        ready = {
            key: [self._word(process, w) for w in v] if isinstance(v, list) else v for key, v in process.ready.items()
        }
        started = [url for urls in process.routes.values() for url in urls if urlsplit(url).hostname in self._hosts]
        routes = {
            p: urls for p, given in process.routes.items() if (urls := [self._named(u) for u in given if u in started])
        }
        table: dict[str, object] = {
            "name": name,
            "role": process.role,
            "address": process.address,
            "port": process.port,
            "cwd": process.cwd,
            "command": command,
            "routes": {prefix: urls[0] if len(urls) == 1 else urls for prefix, urls in routes.items()},
            "ready": ready,
        }
        lines = ["[[process]]", *(f"{key} = {toml.value(value)}" for key, value in table.items() if value)]
        if process.env:
            lines += ["[process.env]"]
            lines += [f"{toml.key(k)} = {toml.value(self._variable(name, k, v))}" for k, v in process.env.items()]
        return "\n".join(lines) + "\n"

    def _addresses(self) -> str:
        """Return base_url if there is a gateway, and otherwise urls."""
        gateways = [process.service.name for process in self._processes if process.role == "gateway"]
        if gateways:
            return f'base_url = "http://{{address:{gateways[0]}}}:{{port:{gateways[0]}}}"'
        urls = {}
        for role in SERVICES:
            mine = [process.service.name for process in self._processes if process.role == role]
            if len(mine) != 1:
                self._note("urls", f"{len(mine)} services have {role} in their names; write the right address")
            if mine:
                urls[role] = f"http://{{address:{mine[0]}}}:{{port:{mine[0]}}}"
        self._note("urls", "there is no nginx; if a service has /orders, /stock or /payment in its paths, add it here")
        return f"urls = {toml.value(urls)}"

    def _python(self) -> list[str]:
        if not self._pythons:
            return []
        *older, newest = sorted(self._pythons, key=lambda version: int(version[2:]))
        if older:
            self._note("python", f"the images have {', '.join(older)} and {newest}; the draft takes {newest} for all")
        try:
            find(newest)
        except SubmissionError as error:
            self._notes.append(str(error).removeprefix("checkout.toml, "))
        return [f"python = {toml.value(newest)}"]


def _in_order(services: list[Service]) -> list[Service]:
    """Return the services in the order of depends_on, with databases first and nginx last."""
    named = {service.name: service for service in services}
    found: dict[str, Service] = {}
    seen: set[str] = set()

    def visit(service: Service) -> None:
        if service.name not in seen:
            seen.add(service.name)
            for name in service.after:
                if name in named:
                    visit(named[name])
            found[service.name] = service

    for service in sorted(
        services, key=lambda s: (images.kind(s.image) == "nginx", images.kind(s.image) not in images.PORTS)
    ):
        visit(service)
    return list(found.values())


def _inside(text: str, folders: dict[str, str]) -> str:
    """Return a string of a container for checkout.toml: braces are doubled, and ``folders`` are replaced."""
    text = text.replace("{", "{{").replace("}", "}}")
    places = {folder.rstrip("/"): place for folder, place in folders.items()}
    names = "|".join(sorted((re.escape(name) for name in places if name), key=len, reverse=True))
    return re.sub(rf"(?<![\w/.-])({names})(?![\w.-])", lambda found: places[found[1]], text) if names else text


def _files(place: Path) -> list[Path]:
    return sorted(path for path in map(place.joinpath, paths(place)) if path.is_file()) if place.is_dir() else [place]
