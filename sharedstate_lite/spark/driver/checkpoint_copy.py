"""A checkpoint of an engine on Spark as a copy that stays as it is, and back.

    snapshot.json    every file with its SHA-256
    engine.json, g-.../

A copy is made beside the target under another name and renamed when it is whole; it is
checked before it is used, and it is used by being copied again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...errors import CheckpointError
from ..bins import blueprint

FILE = "snapshot.json"


def write(location: Path, generation: str, target: Path) -> None:
    """Copy the engine at ``location``, which is not running, to a new or empty folder. Raises CheckpointError."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder; a checkpoint never overwrites, so choose a new one")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(f"{target}: cannot write there ({error.strerror}); choose another folder") from error
    try:
        _copy(location, generation, work)
        files = {str(f.relative_to(work)): _digest(f) for f in sorted(work.rglob("*")) if f.is_file()}
        (work / FILE).write_text(json.dumps({"format": blueprint.FORMAT, "files": files}, indent=1))
        if target.exists():
            target.rmdir()
        os.replace(work, target)
    except OSError as error:
        raise CheckpointError(
            f"{target}: the checkpoint was not written ({error.strerror or error}); nothing is left of it"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def is_copy(folder: Path) -> bool:
    """Whether :func:`write` made this folder."""
    return (folder / FILE).is_file()


def read(source: Path, location: Path) -> None:
    """Check a copy, then put it to ``location``, a new or empty folder. Raises CheckpointError."""
    try:
        files = json.loads((source / FILE).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{source / FILE} cannot be read ({error}); use another checkpoint") from error
    for name, digest in files.items():
        try:
            found = _digest(source / name)
        except OSError as error:
            raise CheckpointError(
                f"{source / name}: it cannot be read ({error.strerror}); the checkpoint is not whole, use another"
            ) from error
        if found != digest:
            raise CheckpointError(f"{source / name} is not what was written (SHA-256 differs); use another checkpoint")
    there = [f for f in location.iterdir() if not f.name.startswith(".")] if location.exists() else []
    if there:
        raise CheckpointError(f"{location} is not empty; a checkpoint is restored to a new folder")
    location.mkdir(parents=True, exist_ok=True)
    _copy(source, blueprint.read(source)["options"]["generation"], location)


def _copy(source: Path, generation: str, target: Path) -> None:
    shutil.copytree(source / generation, target / generation)
    shutil.copy2(source / blueprint.FILE, target / blueprint.FILE)


def move_in(folder: Path, before: str) -> None:
    """After a generation's folder came here from ``before``: mend the whole paths that Spark has written down."""
    spark = folder / "spark"
    # Logs of sources hold addresses, in which a blank is %20; the metadata of state holds paths as they are.
    held = {True: spark.glob("sources/**/*"), False: spark.glob("state/*/_metadata/**/*")}
    for address, logs in held.items():
        old, new = (_written(path, address) + b"/" for path in (Path(before), folder))
        for log in logs:
            if log.is_file() and not log.name.startswith("."):
                data = log.read_bytes()
                moved = data.replace(old, new)
                if moved != data:
                    log.write_bytes(moved)
                    # Spark would compare the file with the checksum beside it.
                    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


def at_home(where: Path, told: dict[str, Any]) -> None:
    """Tell a location, of which :func:`~..bins.blueprint.read` gave ``told``, that it was moved here, if it was."""
    options = told["options"]
    if options["home"] != str(where):
        move_in(where / options["generation"], f"{options['home']}/{options['generation']}")
        options["home"] = str(where)
        blueprint.put(where, told)


def clear(where: Path, generation: str) -> None:
    """Remove the generations beside this one: an install or a rescaling left them that did not come to its end."""
    for other in where.glob("g-*"):
        if other.name != generation:
            shutil.rmtree(other, ignore_errors=True)


def forget(where: Path) -> None:
    """Remove an engine that was begun and did not come up."""
    (where / blueprint.FILE).unlink(missing_ok=True)
    clear(where, "")


def _written(path: Path, address: bool) -> bytes:
    """A path as Spark writes it into a log: as Java does in an address, or as it is; both inside a JSON text."""
    shown = "".join(c if _plain(c) else quote(c, safe="") for c in str(path)) if address else str(path)
    text = json.dumps(shown, ensure_ascii=False)[1:-1]
    if not address:
        # What takes two units of UTF-16, as an emoji, is written there as these two.
        text = re.sub(r"[\U00010000-\U0010ffff]", _units, text)
    return text.encode()


def _units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex().upper()
    return f"\\u{units[:4]}\\u{units[4:]}"


def _plain(c: str) -> bool:
    """Whether Java's URI leaves a character in a path alone; Python's ``as_uri`` leaves fewer."""
    if c.isascii():
        return c.isalnum() or c in "/-_.!~*'():@&=+$,;"
    return unicodedata.category(c) not in ("Zs", "Zl", "Zp", "Cc")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
