"""The copy of the submission that runs, and its build commands: with the network, inside limits, once a content.

What was built is kept under the content's hash, at a path that stays the same, since a virtual environment holds
its own path. A build writes to the copy and its own home, where the kernel has Landlock; everywhere its time,
memory, disk and output are limited, and what it leaves running is ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import NoReturn

from ..errors import SubmissionError, UsageError, VoidError
from ..sandbox import Command, Locked, Plain, search_path
from ..submission import Submission
from ..submission.archive import MOST_BYTES, MOST_FILES
from ..terms import Limits
from .bounds import EVERY, Bounds
from .logs import Logs

_SKIP = {".git", "__pycache__", ".venv", "node_modules"}


def content_hash(folder: Path) -> str:
    """Of the files that are copied, with their names and modes. Raises SubmissionError for what cannot be copied."""
    digest, total, count = hashlib.sha256(), 0, 0
    for root, folders, files in os.walk(folder, onerror=_closed):
        folders[:] = sorted(set(folders) - _SKIP)
        for name in sorted(files + [name for name in folders if Path(root, name).is_symlink()]):
            path = Path(root, name)
            inside = str(path.relative_to(folder))
            if path.is_symlink():
                leads = os.readlink(path)
                if leads.startswith("/") or not path.resolve().is_relative_to(folder.resolve()):
                    raise SubmissionError(f"{inside}: a link that leaves the submission; put the file itself there")
                digest.update(f"{inside}\0{leads}\0".encode())
                continue
            if not path.is_file():
                raise SubmissionError(f"{inside}: neither a file nor a folder; take it out")
            total, count = total + path.stat().st_size, count + 1
            if total > MOST_BYTES or count > MOST_FILES:
                raise SubmissionError(
                    f"{inside}: with it, more than {MOST_BYTES:,} bytes or {MOST_FILES:,} files; "
                    "data does not belong in a submission"
                )
            try:
                content = path.read_bytes()
            except OSError as error:
                _closed(error)
            mode = path.stat().st_mode & 0o111
            digest.update(f"{inside}\0{mode}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _closed(error: OSError) -> NoReturn:
    raise SubmissionError(f"{error.filename} cannot be read ({error.strerror}); allow it, or take it out") from error


def prepare(submission: Submission, cache: Path, seconds: float) -> tuple[Path, str]:
    """The folder to run from, and its hash; built if it is not there yet.

    Raises SubmissionError, and UsageError where the cache cannot be.
    """
    if submission.folder is None:
        raise ValueError("a system that runs elsewhere is not built")
    mark = content_hash(submission.folder)
    home = cache / mark[:24]
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{cache} cannot be made ({error.strerror}); set XDG_CACHE_HOME to a folder of yours"
        ) from error
    with open(cache / f"{mark[:24]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            # A link stays a link: the copy must hold nothing that the check has not seen.
            skip = shutil.ignore_patterns(*_SKIP)
            shutil.copytree(submission.folder, home / "submission", symlinks=True, ignore=skip)
            # The build's home is not in the cache: below one that is root's alone, compilers find no folder
            # that they may write to. All its commands share it: what one installs there, the next one uses.
            with tempfile.TemporaryDirectory(prefix="checkout-build-", ignore_cleanup_errors=True) as own:
                for command in submission.build:
                    _run(command, home / "submission", Path(own), seconds)
            _open_up(home / "submission")
            (home / "done").touch()
    return home / "submission", mark


def _open_up(folder: Path) -> None:
    """Readable by the uid that a sandbox gives it, whatever the modes were that it came with."""
    for root, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))


def _sandbox(folder: Path) -> Plain:
    """What a build runs in: locked in where that can be had, in limits everywhere."""
    run = uuid.uuid4().hex
    try:
        locked = Locked(run, folder, network=True)
    except VoidError:
        return Plain(run)
    if locked.uid >= 0:
        for root, folders, files in os.walk(folder):
            for name in (".", *folders, *files):
                os.chown(Path(root, name), locked.uid, locked.uid, follow_symlinks=False)
    return locked


def _run(command: tuple[str, ...], folder: Path, home: Path, seconds: float) -> None:
    words = tuple(word.replace("{submission}", str(folder)) for word in command)
    if shutil.which(words[0], path=search_path()) is None and not (folder / words[0]).exists():
        raise SubmissionError(f"build: there is no program {words[0]!r}")
    logs = Logs()
    output = logs.pipe("build")
    try:
        process, tree = _sandbox(folder).start(Command("build", words, folder, output, {}, home, (folder,)))
    finally:
        os.close(output)
    who = ("build: it takes", "build: its folder holds")
    bounds = Bounds(tree.pids, folder.parent, Limits.memory, Limits.disk, Limits.files, who, (home,))
    until, code = time.monotonic() + seconds, None
    try:
        while code is None:
            try:
                code = process.wait(min(EVERY, max(0.0, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                bounds.tick()
                if time.monotonic() >= until:
                    raise SubmissionError(f"build: {' '.join(words)!r} took longer than {seconds:.0f} s") from None
    finally:
        tree.kill()
        process.wait()
        logs.close()
    if code:
        raise SubmissionError(f"build: {' '.join(words)!r} ended with {code}:\n{logs.tail('build')}")
