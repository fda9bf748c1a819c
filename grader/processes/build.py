"""The copy of the submission that runs, and its build commands: with the network, with a time limit, once a content.

What was built is kept under the content's hash, at a path that stays the same, since a virtual environment holds
its own path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from ..errors import SubmissionError
from ..sandbox import search_path
from ..submission import Submission

_SKIP = {".git", "__pycache__", ".venv", "node_modules"}
MOST_BYTES, MOST_FILES = 200_000_000, 20_000


def content_hash(folder: Path) -> str:
    """Of the files that are copied, with their names and modes. Raises SubmissionError for what cannot be copied."""
    digest, total, count = hashlib.sha256(), 0, 0
    for root, folders, files in os.walk(folder):
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
            content = path.read_bytes()
            total, count = total + len(content), count + 1
            if total > MOST_BYTES or count > MOST_FILES:
                raise SubmissionError(
                    f"more than {MOST_BYTES:,} bytes or {MOST_FILES:,} files; data does not belong in it"
                )
            mode = path.stat().st_mode & 0o111
            digest.update(f"{inside}\0{mode}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def prepare(submission: Submission, cache: Path, seconds: float) -> tuple[Path, str]:
    """The folder to run from, and its hash; built if it is not there yet. Raises SubmissionError."""
    if submission.folder is None:
        raise ValueError("a system that runs elsewhere is not built")
    mark = content_hash(submission.folder)
    home = cache / mark[:24]
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{mark[:24]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            # A link stays a link: the copy must hold nothing that the check has not seen.
            skip = shutil.ignore_patterns(*_SKIP)
            shutil.copytree(submission.folder, home / "submission", symlinks=True, ignore=skip)
            for command in submission.build:
                _run(command, home / "submission", seconds)
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


def _run(command: tuple[str, ...], folder: Path, seconds: float) -> None:
    env = {"PATH": search_path(), "HOME": str(folder), "LANG": "C.UTF-8"}
    words = [word.replace("{submission}", str(folder)) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise SubmissionError(f"build: there is no program {words[0]!r}") from error
    except subprocess.TimeoutExpired as error:
        raise SubmissionError(f"build: {' '.join(words)!r} took longer than {seconds:.0f} s") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SubmissionError(f"build: {' '.join(words)!r} ended with {done.returncode}:\n{tail}")
