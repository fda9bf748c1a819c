"""Reads a Dockerfile: the Python of its image, the folder of its code, its packages and its command."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


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
    """Each copied file: its path in the context, and its path in the image."""
    others: list[str] = field(default_factory=list)
    """Other commands that build the image."""

    @property
    def python(self) -> str:
        """The version of Python in the name of the image, such as "3.12", or ""."""
        found = re.match(r"(?:.*/)?python:(3\.\d+)", self.image)
        return found[1] if found else ""


def read(path: Path) -> Dockerfile:
    """Read a Dockerfile. Raises OSError if it cannot be read."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8-sig"), flags=re.MULTILINE)
    found = Dockerfile()
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        _take(found, word.upper(), rest.strip())
    return found


def _take(found: Dockerfile, word: str, rest: str) -> None:
    if word == "FROM":
        found.__init__(rest.split()[0] if rest else "")  # type: ignore[misc]  # only the last stage runs
    elif word == "WORKDIR":
        found.workdir = rest
    elif word == "EXPOSE":
        found.ports += [int(port.partition("/")[0]) for port in rest.split() if port.partition("/")[0].isdecimal()]
    elif word == "ENV":
        pairs = shlex.split(rest)
        if pairs and "=" not in pairs[0]:
            pairs = [f"{pairs[0]}={' '.join(pairs[1:])}"]
        found.env |= dict(pair.partition("=")[::2] for pair in pairs)
    elif word in ("COPY", "ADD"):
        *sources, target = [part for part in shlex.split(rest) if not part.startswith("--")] or [""]
        found.copies += [(source, target) for source in sources]
    elif word == "ENTRYPOINT":
        found.entrypoint = words_of(rest)
    elif word == "CMD":
        found.command = words_of(rest)
    elif word == "RUN":
        for command in re.split(r"&&|;", rest):
            words = shlex.split(command, comments=True)
            at = next((n for n, part in enumerate(words) if part == "install" and "pip" in " ".join(words[:n])), None)
            if at is not None:
                found.installs.append([part for part in words[at + 1 :] if part not in ("--no-cache-dir", "--user")])
            elif words:
                found.others.append(" ".join(words))


def words_of(text: str) -> list[str]:
    """Return the words of a CMD or an ENTRYPOINT in either of its forms."""
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if isinstance(words, list):
        return [str(word) for word in words]
    return ["sh", "-c", text] if re.search(r"[|&;<>$`*]", text) else shlex.split(text)
