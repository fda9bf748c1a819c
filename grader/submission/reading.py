"""Read ``checkout.toml`` into a Submission. Every error shows the line, the field, the rule and an example."""

from __future__ import annotations

import difflib
import ipaddress
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import SubmissionError
from ..toml import Toml
from .model import LOOPBACK, ROLES, SERVICES, Process, Ready, Submission, service_urls
from .places import BadPlace, check

FILE = "checkout.toml"
_LONGEST = 200_000
"""The maximum size of checkout.toml in bytes. The file is read into memory."""
_MOST_PROCESSES = 64
"""In tier 1, each process can hold up to 1 GiB in /tmp and /dev/shm between two checks of the memory."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}")
_EXAMPLES = {
    "name": 'name = "team 7"',
    "base_url": 'base_url = "http://127.0.0.1:{port:gateway}"',
    "urls": 'urls = { order = "http://127.0.0.1:{port:order}", stock = "...", payment = "..." }',
    "build": 'build = [["python3", "-m", "venv", ".venv"]]',
    "python": 'python = "3.12"',
    "process": '[[process]]\n    name = "stock"\n    role = "stock"\n    command = ["python3", "stock.py", "{port}"]',
    "process.name": 'name = "stock-db"',
    "process.role": 'role = "stock"',
    "process.command": 'command = ["gunicorn", "-b", "127.0.0.1:{port}", "app:app"]',
    "process.cwd": 'cwd = "stock"',
    "process.port": "port = 5001",
    "process.address": 'address = "127.0.0.2"',
    "process.routes": 'routes = { "/orders/" = "http://127.0.0.1:{port:order}/orders/" }',
    "process.env": 'env = { REDIS_PORT = "{port:stock-db}" }',
    "process.ready": 'ready = { http = "http://127.0.0.1:{port}/health", timeout_s = 90 }',
}
_TOP = {"name", "base_url", "urls", "build", "process", "python"}
_PROCESS = {"name", "role", "command", "cwd", "port", "env", "ready", "address", "routes"}
_WAYS = {"tcp", "http", "command"}
_PYTHON = re.compile(r"3\.\d{1,2}|/.+")


class _Reader(Toml):
    """The file. Its methods check values and create errors with line numbers."""

    def wrong(self, field: str, rule: str, nth: int = -1) -> SubmissionError:
        """Return the error for a field such as process.role in the nth [[process]], with its line and an example."""
        table, _, key = field.rpartition(".")
        return SubmissionError(f"{self.at(key, table, max(0, nth))}, {field}: {rule}{_example(field)}")

    def text(self, value: Any, field: str, nth: int = -1) -> str:
        """Return the value. Raises SubmissionError unless it is a string that is not empty and has no zero byte."""
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise self.wrong(field, f"must be a non-empty string, not {value!r}", nth)
        return value

    def words(self, value: Any, field: str, nth: int = -1) -> tuple[str, ...]:
        """Return the value as the words of a command. Raises SubmissionError unless it is a list of strings."""
        if not isinstance(value, list) or not value or not all(isinstance(w, str) and "\0" not in w for w in value):
            raise self.wrong(field, f"must be a non-empty list of strings, not {value!r}", nth)
        if not value[0].strip():
            raise self.wrong(field, "the first string, which is the program, must not be empty", nth)
        return tuple(value)


def _example(field: str) -> str:
    """Return an example of the field or, if it is unknown, of the most similar field or of a process."""
    table, _, key = field.rpartition(".")
    level = {known.rpartition(".")[2]: known for known in _EXAMPLES if known.rpartition(".")[0] == table}
    near = difflib.get_close_matches(key, level, 1)
    return f"\n  example: {_EXAMPLES[level[near[0]] if near else 'process']}"


def read_submission(folder: Path, name: str = "") -> Submission:
    """Read the checkout.toml of a submission. Raises SubmissionError if it is missing or invalid.

    ``name``: that of a submission whose checkout.toml has none; by default, the folder's.
    """
    path = folder / FILE
    try:
        if not path.is_file():
            raise SubmissionError(f"{folder} has no {FILE}, which lists the processes to start; see docs/assignment.md")
        raw = path.read_bytes()
    except OSError as error:
        raise SubmissionError(f"{FILE} cannot be read ({error.strerror}); make it readable") from error
    if len(raw) > _LONGEST:
        raise SubmissionError(f"{FILE} has {len(raw):,} bytes; at most {_LONGEST:,} are allowed")
    try:
        text = raw.decode("utf-8-sig")  # some editors write a byte order mark
        reader = _Reader(FILE, text)
        return _submission(reader, reader.values, folder.resolve(), name or folder.resolve().name)
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{FILE}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:  # also a number of more than 4,300 digits
        rule = "the file is not valid TOML (put strings in quotes and lists in [ ])"
        raise SubmissionError(f"{FILE}: {error}; {rule}{_example('process')}") from error


def _submission(reader: _Reader, content: dict[str, Any], folder: Path, name: str) -> Submission:
    for field in content:
        if field not in _TOP:
            raise reader.wrong(field, f"unknown field; the fields are {', '.join(sorted(_TOP))}")
    tables = content.get("process")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise reader.wrong("process", "at least one [[process]] table (with two brackets) is required", 0)
    if len(tables) > _MOST_PROCESSES:
        rule = f"there are {len(tables):,} [[process]] tables; at most {_MOST_PROCESSES} are allowed"
        raise reader.wrong("process", rule, _MOST_PROCESSES)
    processes: list[Process] = []
    for nth, table in enumerate(tables):
        process = _process(reader, table, nth, folder)
        if process.name in {other.name for other in processes}:
            raise reader.wrong("process.name", f"{process.name!r} is used twice; choose another name", nth)
        if process.port and (process.address, process.port) in {(other.address, other.port) for other in processes}:
            rule = f"{process.port} is used by another process; choose another port, or give this process an address"
            raise reader.wrong("process.port", rule, nth)
        processes.append(process)
    names = {process.name for process in processes}
    for nth, process in enumerate(processes):
        for field, texts in _filled(process).items():
            for text in texts:
                _check(reader, f"process.{field}", text, names, nth)
    urls = _urls(reader, content)
    for service, url in urls.items():
        field = "base_url" if "base_url" in content else "urls"
        _check(reader, field, url, names, -1)
        if not _is_here(url):
            raise reader.wrong(field, f"{url!r} for {service} is not an http:// address on this machine")
    name = reader.text(content.get("name", name), "name")
    build = content.get("build", [])
    if not isinstance(build, list):
        raise reader.wrong("build", "must be a list of commands")
    commands = tuple(reader.words(command, "build") for command in build)
    python = content.get("python", "")
    if python and not (isinstance(python, str) and _PYTHON.fullmatch(python)):
        raise reader.wrong("python", f"{python!r} is neither a version of Python 3 nor an absolute path")
    return Submission(name[:200], folder, urls, tuple(processes), commands, python)


def _with_ports(text: str) -> str:
    """Replace each placeholder in a string: an address with 127.0.0.1, all others with the longest port."""
    return re.sub(r"\{[^{}]*\}", "65535", re.sub(r"\{address[^{}]*\}", LOOPBACK, text))


def _is_here(url: str) -> bool:
    """Return whether a URL is an http:// address on this machine."""
    try:
        parts = urlsplit(_with_ports(url))
        host, _ = parts.hostname or "", parts.port
        return parts.scheme == "http" and (host == "localhost" or _is_loopback(host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(reader: _Reader, field: str, text: str, names: set[str], nth: int) -> None:
    try:
        check(text, names, inside=nth >= 0)
    except BadPlace as error:
        raise reader.wrong(field, str(error), nth) from error


def _filled(process: Process) -> dict[str, tuple[str, ...]]:
    """Return the strings of a process that may contain placeholders, by field."""
    ready = (process.ready.tcp, process.ready.http, *process.ready.command)
    return {
        "command": process.command,
        "cwd": (process.cwd,),
        "env": tuple(process.env.values()),
        "ready": ready,
        "routes": tuple(url for _, url in process.routes),
    }


def _urls(reader: _Reader, content: dict[str, Any]) -> dict[str, str]:
    if ("base_url" in content) == ("urls" in content):
        raise reader.wrong("base_url" if "base_url" not in content else "urls", "give base_url or urls, but not both")
    if "base_url" in content:
        return service_urls(reader.text(content["base_url"], "base_url"))
    urls = content["urls"]
    if not isinstance(urls, dict) or set(urls) != set(SERVICES):
        raise reader.wrong("urls", f"must have one address for each of {', '.join(SERVICES)}")
    return {service: reader.text(urls[service], "urls").rstrip("/") for service in SERVICES}


def _process(reader: _Reader, table: dict[str, Any], nth: int, folder: Path) -> Process:
    for field in table:
        if field not in _PROCESS:
            known = ", ".join(sorted(_PROCESS))
            raise reader.wrong(f"process.{field}", f"unknown field; the fields are {known}", nth)
    name = reader.text(table.get("name"), "process.name", nth)
    if not _NAME.fullmatch(name):
        raise reader.wrong(
            "process.name",
            f"{name!r} is not a name; use up to 50 letters, digits, _ . and -",
            nth,
        )
    role = table.get("role", "gateway" if "routes" in table else "other")
    if role not in ROLES:
        raise reader.wrong("process.role", f"{role!r} is not a role; the roles are {', '.join(ROLES)}", nth)
    if ("command" in table) == ("routes" in table):
        raise reader.wrong("process.command", "give either command or, for the grader's own gateway, routes", nth)
    command = reader.words(table["command"], "process.command", nth) if "command" in table else ()
    cwd = reader.text(table.get("cwd", "."), "process.cwd", nth)
    if "{" not in cwd:
        inside = (folder / cwd).resolve()
        if not inside.is_relative_to(folder) or not inside.is_dir():
            raise reader.wrong("process.cwd", f"{cwd!r} is not a folder inside the submission", nth)
    port = table.get("port", 0)
    if isinstance(port, bool) or not isinstance(port, int) or not (port == 0 or 1024 <= port <= 65535):
        raise reader.wrong("process.port", f"{port!r} is not a port from 1024 to 65535", nth)
    env = table.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(value, str) and "\0" not in value for value in env.values()):
        raise reader.wrong("process.env", "must map names to strings; put numbers in quotes", nth)
    if any(not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in env):
        raise reader.wrong("process.env", "names can have only letters, digits and _, with no digit first", nth)
    address = table.get("address", LOOPBACK)
    if not isinstance(address, str) or not address.startswith("127.") or not _is_loopback(address):
        raise reader.wrong("process.address", f"{address!r} is not a loopback address such as 127.0.0.2", nth)
    routes = _routes(reader, table["routes"], nth) if "routes" in table else ()
    ready = _ready(reader, table.get("ready", {"tcp": "{port}"} if routes else {}), nth)
    return Process(name, role, command, cwd, port, dict(env), ready, address, routes)


def _routes(reader: _Reader, value: Any, nth: int) -> tuple[tuple[str, str], ...]:
    """Return the prefix and the address of each route. A prefix with several addresses is returned several times."""
    if not isinstance(value, dict) or not value:
        raise reader.wrong("process.routes", f"must map prefixes of paths to addresses, not {value!r}", nth)
    found = []
    for prefix, urls in value.items():
        if not prefix.startswith("/") or re.search(r"[\s={}]", prefix):
            raise reader.wrong("process.routes", f"{prefix!r} is not the prefix of a path, which begins with /", nth)
        for url in reader.words(urls if isinstance(urls, list) else [urls], "process.routes", nth):
            if not _is_here(url) or "?" in url:
                raise reader.wrong("process.routes", f"{url!r} is not an http:// address on this machine", nth)
            found.append((prefix, url))
    return tuple(found)


def _ready(reader: _Reader, value: Any, nth: int) -> Ready:
    if not isinstance(value, dict) or not set(value) <= {*_WAYS, "timeout_s"} or len(_WAYS & set(value)) > 1:
        raise reader.wrong("process.ready", "must have one of tcp, http and command, and can also have timeout_s", nth)
    tcp = value.get("tcp", "")
    if isinstance(tcp, int) and not isinstance(tcp, bool):
        tcp = str(tcp)
    seconds = value.get("timeout_s", 0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 600:
        raise reader.wrong("process.ready", f"timeout_s must be from 0 to 600 seconds, not {seconds!r}", nth)
    for text in (tcp, value.get("http", "")):
        if not isinstance(text, str):
            raise reader.wrong("process.ready", f"must be a string, not {text!r}", nth)
    if value.get("http") and not _is_here(value["http"]):
        raise reader.wrong("process.ready", f"{value['http']!r} is not an http:// address on this machine", nth)
    if tcp and not (_with_ports(tcp).isdecimal() and int(_with_ports(tcp)) <= 65535):
        raise reader.wrong("process.ready", f"{tcp!r} is not a port", nth)
    command = reader.words(value["command"], "process.ready", nth) if "command" in value else ()
    return Ready(tcp, value.get("http", ""), command, float(seconds))
