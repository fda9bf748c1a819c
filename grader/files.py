"""JSON that is equal for equal values, and files and folders that are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from .errors import UsageError, VoidError
from .folders import temporary


def as_json(value: Any) -> str:
    """Return a JSON text that is equal for equal values.

    >>> as_json({"b": 1, "a": "é"})
    '{\\n "a": "é",\\n "b": 1\\n}\\n'
    """
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def encoded(text: str) -> bytes:
    """Return a text as UTF-8. Half a surrogate pair, which an answer may contain, becomes its escape."""
    return text.encode("utf-8", "backslashreplace")


def write(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write a whole file or nothing; nothing if it would stay the same. Raises VoidError if that is not possible.

    ``private``: whether only its owner may read the file.
    """
    data = content if isinstance(content, bytes) else encoded(content)
    new = path.with_name(f".{path.name}.new")
    try:
        if path.is_file() and path.read_bytes() == data and not private:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(new, "wb", opener=partial(os.open, mode=0o600 if private else 0o666)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        rule = f"{path} cannot be written ({error.strerror}); nothing is half written"
        raise VoidError(f"{rule}. Make room, and run the same command again") from error


def write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """Write texts by their paths below a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """Yield a folder that becomes ``out`` at the end of the block. After an error, ``out`` is as it was before."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary(f".{out.name}-", out.parent) as beside:
        made, old = beside / "new", beside / "old"
        made.mkdir()
        yield made
        if out.exists():
            out.rename(old)
        made.rename(out)


@contextmanager
def room(out: Path) -> Iterator[None]:
    """Create the report folder on entry. If the block raises, remove the folder again unless it contains files.

    Raises UsageError if the folder cannot be created or written to.
    """
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise UsageError(f"--report {out}: {error.strerror}; choose a folder that you can write to") from error
    try:
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):  # the folder is not empty
                path.rmdir()
        raise
