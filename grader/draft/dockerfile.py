"""Reads a Dockerfile: the Python of its image, the folder of its code, its packages and its command."""

from __future__ import annotations

import copy
import json
import posixpath
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

_NO_ENVIRONMENT = ("--no-cache-dir", "--user", "--system", "--break-system-packages")
"""Options of pip that are not for a virtual environment."""


@dataclass
class Dockerfile:
    """The last stage of a Dockerfile."""

    image: str = ""
    workdir: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    ports: list[int] = field(default_factory=list)
    installs: list[list[str]] = field(default_factory=list)
    """The arguments of each ``pip install``."""
    copies: list[tuple[str, str]] = field(default_factory=list)
    """Each copied file or folder: its path in the context, and its absolute path in the image."""
    others: list[str] = field(default_factory=list)
    """Other commands that build the image."""

    @property
    def python(self) -> str:
        """The version of Python in the name of the image, such as "3.12", or ""."""
        found = re.match(r"(?:.*/)?python:(3\.\d+)", self.image)
        return found[1] if found else ""

    def place(self, path: str) -> str | None:
        """Return the path in the context of a file or folder of the image, or None if it was not copied."""
        for source, target in reversed(self.copies):
            if path == target or path.startswith(f"{target}/"):
                return posixpath.normpath(posixpath.join(source, path[len(target) + 1 :]))
            if target.startswith(f"{path}/") and posixpath.join(path, source) == target:
                return "."
        return None


def read(path: Path) -> Dockerfile:
    """Read a Dockerfile. Raises OSError if it cannot be read."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8-sig"), flags=re.MULTILINE)
    found, stages, given = Dockerfile(), dict[str, Dockerfile](), dict[str, str]()
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        rest = re.sub(r"\$\{?(\w+)\}?", lambda match: given.get(match[1], match[0]), rest.strip())
        if word.upper() == "ARG":
            name, _, value = rest.partition("=")
            given.setdefault(name, value.strip("\"'"))
        elif word.upper() == "FROM":
            words = [part for part in rest.split() if not part.startswith("--")] or [""]
            found = copy.deepcopy(stages[words[0]]) if words[0] in stages else Dockerfile(words[0])
            stages[words[-1]] = found
        else:
            _take(found, word.upper(), rest)
    return found


def _take(found: Dockerfile, word: str, rest: str) -> None:
    if word == "WORKDIR":
        found.workdir = posixpath.normpath(posixpath.join(found.workdir or "/", rest.strip("\"'")))
    elif word == "EXPOSE":
        found.ports += [int(port.partition("/")[0]) for port in rest.split() if port.partition("/")[0].isdecimal()]
    elif word == "ENV":
        pairs = shlex.split(rest)
        if pairs and "=" not in pairs[0]:
            pairs = [f"{pairs[0]}={' '.join(pairs[1:])}"]
        found.env |= dict(pair.partition("=")[::2] for pair in pairs)
    elif word in ("COPY", "ADD") and "--from" not in rest:
        *sources, target = [part for part in shlex.split(rest) if not part.startswith("--")] or [""]
        home = found.workdir or "/"
        place = posixpath.normpath(posixpath.join(home, target))
        into = target.endswith("/") or place == home or len(sources) > 1
        for source in map(posixpath.normpath, sources):
            # The content of a folder is copied, not the folder itself.
            name = posixpath.basename(source) if into and posixpath.splitext(source)[1] else ""
            found.copies.append((source, posixpath.join(place, name).rstrip("/")))
    elif word == "ENTRYPOINT":
        found.entrypoint = words_of(rest)
    elif word == "CMD":
        found.command = words_of(rest)
    elif word == "RUN":
        for words in _commands(rest):
            at = next((n for n, part in enumerate(words) if part == "install" and "pip" in " ".join(words[:n])), None)
            if at is not None:
                found.installs.append([part for part in words[at + 1 :] if part not in _NO_ENVIRONMENT])
            else:
                found.others.append(" ".join(words))


def _commands(text: str) -> list[list[str]]:
    """Return the words of each command of a RUN."""
    parts = shlex.shlex(text, posix=True, punctuation_chars="&|;")
    parts.whitespace_split = True
    try:
        words = list(parts)
    except ValueError:
        return [[text]]  # a quotation that does not end on this line
    found: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("&|;"):
            found.append([])
        else:
            found[-1].append(word)
    return [each for each in found if each]


def words_of(text: str) -> list[str]:
    """Return the words of a CMD or an ENTRYPOINT in either of its forms."""
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if isinstance(words, list):
        return [str(word) for word in words]
    return ["sh", "-c", text] if re.search(r"[|&;<>$`*'\"]", text) else text.split()
