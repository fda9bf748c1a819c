"""Copy the submission and run its build commands, with network access and limits.

The result is cached by the hash of the submission's content, so the same content is built only once. The path of a
build never changes, because a virtual environment contains its own path. A build runs in the sandbox of the services,
but with network access, and can write only to the copy and to a separate home. Its time, memory, disk space and output
are limited, and processes that it leaves behind are killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..errors import SubmissionError, UsageError
from ..folders import copy, remove, shown, temporary, walk
from ..sandbox import Command, Programs, Sandbox, Tree, make
from ..submission import Submission
from ..submission.archive import MOST_BYTES, MOST_FILES, too_long
from ..terms import Limits
from .bounds import EVERY, Bounds
from .logs import Logs
from .python import find, programs_of, wrap

_SKIP = {".git", "__pycache__", ".venv", "node_modules"}


def content_hash(folder: Path) -> str:
    """Return a hash of the names, modes and content of all files to copy.

    Raises SubmissionError if a file cannot be copied.
    """
    digest, total, count = hashlib.sha256(), 0, [0, -1]  # files, and folders in the submission
    for level in walk(folder, _closed):
        level.folders = sorted((one for one in level.folders if one.name not in _SKIP), key=lambda one: one.name)
        names = sorted(one.name for one in level.others)
        if not _SKIP.isdisjoint(names):  # such as a link to a virtual environment
            names = [name for name in names if name not in _SKIP or not os.path.isdir(folder / level.path(name))]
        for inside in (level.path(), *map(level.path, names)):
            if why := too_long(inside):
                raise SubmissionError(f"{why}; remove it")
            path, name = folder / inside, shown(inside)
            about = path.lstat()
            total += about.st_size * stat.S_ISREG(about.st_mode)
            count[stat.S_ISDIR(about.st_mode)] += 1
            if total > MOST_BYTES or max(count) > MOST_FILES:
                raise SubmissionError(
                    f"the submission has more than {MOST_BYTES:,} bytes or {MOST_FILES:,} files or folders "
                    f"(exceeded at {name}); remove data files"
                )
            if stat.S_ISLNK(about.st_mode):
                leads = os.readlink(path)
                if leads.startswith("/") or not _end(path, name).is_relative_to(folder.resolve()):
                    raise SubmissionError(f"{name} links outside the submission; replace the link with the file")
                digest.update(os.fsencode(f"{inside}\0{leads}\0"))
            elif stat.S_ISREG(about.st_mode):
                try:
                    content = path.read_bytes()
                except OSError as error:
                    _closed(error)
                digest.update(os.fsencode(f"{inside}\0{about.st_mode & 0o111}\0{len(content)}\0") + content)
            elif not stat.S_ISDIR(about.st_mode):
                raise SubmissionError(f"{name} is neither a file nor a folder; remove it")
    return digest.hexdigest()


def _end(link: Path, name: str) -> Path:
    """Return where a link ends. Raises SubmissionError for one that has no end."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # RecursionError, too: a chain of many links
        raise SubmissionError(f"{name} links to itself or to too many links; replace it with the file") from None


def _closed(error: OSError) -> NoReturn:
    raise SubmissionError(
        f"{shown(error.filename)} cannot be read ({error.strerror}); make it readable, or remove it"
    ) from error


@dataclass(frozen=True)
class Built:
    """A submission that can run: its folder, the hash of its content, and the programs that it uses."""

    folder: Path
    hash: str
    programs: Programs


def prepare(submission: Submission, cache: Path, seconds: float, tier: int, prefix: str = "checkout-build-") -> Built:
    """Build the submission in the sandbox of a tier, unless the result is cached.

    ``prefix``: the beginning of the names of temporary folders.

    Raises SubmissionError if the build fails or this machine does not have the submission's Python, and UsageError if
    the cache folder cannot be created.
    """
    if submission.folder is None:
        raise ValueError("a system at --url cannot be built")
    mark = content_hash(submission.folder)
    python = find(submission.python) if submission.python else None
    # A virtual environment contains the path of its Python.
    name = (hashlib.sha256(f"{mark} {python}".encode()).hexdigest() if python else mark)[:24]
    home = cache / name
    programs = programs_of(python, home / "python")
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{cache} cannot be created ({error.strerror}); set XDG_CACHE_HOME to a folder that you can write to"
        ) from error
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            remove(home)
            home.mkdir()
            # Links are copied as links, because the copy must contain only files that were checked.
            copy(submission.folder, home / "submission", _SKIP)
            if python is not None:
                wrap(python, home / "python")
            # The home is outside the cache, which may be inside a folder that only root can enter. All commands share
            # this home, so that a command can use what an earlier command installed.
            with temporary(prefix) as own, temporary(prefix) as scratch:
                for command in submission.build:
                    _run(command, home / "submission", own, scratch, seconds, programs, tier)
            _open_up(home / "submission")
            (home / "done").touch()
    return Built(home / "submission", mark, programs)


def _open_up(folder: Path) -> None:
    """Make all files and folders readable by the uid of the sandbox."""
    for level in walk(folder, rights=0o755):
        for entry in level.others:
            if not entry.is_symlink():
                os.chmod(entry.name, stat.S_IMODE(entry.stat().st_mode) | 0o444, dir_fd=level.fd)


def _sandbox(tier: int, scratch: Path, folder: Path, programs: Programs) -> Sandbox:
    """Return the sandbox for a build, whose user owns the folder."""
    box = make(tier, scratch, folder, programs, network=True)
    if box.uid >= 0:
        for level in walk(folder):
            os.fchown(level.fd, box.uid, box.uid)
            for entry in level.others:
                os.chown(entry.name, box.uid, box.uid, dir_fd=level.fd, follow_symlinks=False)
    return box


def _run(
    command: tuple[str, ...], folder: Path, home: Path, scratch: Path, seconds: float, programs: Programs, tier: int
) -> None:
    words = tuple(word.replace("{submission}", str(folder)) for word in command)
    if shutil.which(words[0], path=programs.path) is None and not os.path.exists(folder / words[0]):
        raise SubmissionError(f"build: unknown program {words[0][:200]!r}; install it in an earlier command")
    with contextlib.ExitStack() as ends:
        box = _sandbox(tier, scratch, folder, programs)
        ends.callback(box.close)
        logs = Logs()
        ends.callback(logs.close)
        output = logs.pipe("build")
        try:
            process, tree = box.start(Command("build", words, folder, output, {}, home, (folder,)))
        except OSError as error:
            raise SubmissionError(f"build: {words[0]!r} cannot be started: {error.strerror}") from error
        finally:
            os.close(output)
        ends.callback(process.wait)
        ends.callback(tree.kill)
        code = _waited(process, tree, words, (folder.parent, home), seconds)
    if code:
        raise SubmissionError(f"build: {' '.join(words)!r} exited with {code}:\n{logs.tail('build')}")


def _waited(
    process: subprocess.Popen[bytes], tree: Tree, words: tuple[str, ...], places: tuple[Path, Path], seconds: float
) -> int:
    """Return the exit status of a build command. Raises SubmissionError if it reaches a limit."""
    who = ("build: it uses", "build: its folder contains")
    bounds = Bounds(tree.pids, places[0], Limits.memory, Limits.disk, Limits.files, who, places[1:])
    until = time.monotonic() + seconds
    while True:
        try:
            return process.wait(min(EVERY, max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            bounds.tick()
            if time.monotonic() >= until:
                raise SubmissionError(f"build: {' '.join(words)!r} took longer than {seconds:.0f} s") from None
