"""The environment that Pathway runs in: ``python bench/pathway/env.py`` makes it, once.

    env.py            make it where it is missing or was locked anew; says where it is
    env.py --check    exit 0 if it is there and complete, else 1 and why; changes nothing

It lies in the caches folder (``make clean`` removes it), is built with the Python that
runs this, and holds exactly what requirements.txt locks, by hash: about 1.5 GB, a minute
or two with a fast network. A stamp is written last; what has none is built anew. Where
the environment cannot be made, measurements run without the peer and say why.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench import child, measure  # noqa: E402
from sharedstate_lite.cache import cache_dir  # noqa: E402
from sharedstate_lite.errors import Error  # noqa: E402

LOCK = Path(__file__).with_name("requirements.txt")
COMMAND = "python bench/pathway/env.py"
PYTHONS = ((3, 11), (3, 14))
"""The first and the last Python that the lock has wheels for."""


def folder() -> Path:
    """Where the environment is, or would be."""
    return cache_dir() / "pathway-venv"


def python() -> Path:
    """Its interpreter."""
    return folder() / "bin" / "python"


def expected() -> str:
    """What a complete environment is stamped with: the lock and the Python that went in."""
    return f"{hashlib.sha256(LOCK.read_bytes()).hexdigest()} {sys.version_info[0]}.{sys.version_info[1]}\n"


def missing() -> str | None:
    """Why there is no environment to run in, with the way out; None where there is one."""
    stamp = folder() / "complete"
    if not stamp.is_file():
        return f"{COMMAND} makes its environment"
    if stamp.read_text() != expected():
        return f"its environment is of another lock or Python; {COMMAND} makes it anew"
    ran = subprocess.run([python(), "-c", ""], capture_output=True, stdin=subprocess.DEVNULL)
    return f"its environment does not start; {COMMAND} makes it anew" if ran.returncode else None


def make(tell: Callable[[str], None]) -> None:
    """Make the environment. Raises Error, with pip's last words, where that fails; leaves no stamp then."""
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        first, last = (".".join(map(str, p)) for p in PYTHONS)
        raise Error(
            f"Pathway's environment is locked for Python {first} to {last}, and this is {sys.version.split()[0]}"
        )
    tell(f"making Pathway's environment in {folder()} (about 1.5 GB, once)")
    stamp = folder() / "complete"
    stamp.unlink(missing_ok=True)
    log = cache_dir("logs") / "pathway-venv.log"
    try:
        venv.create(folder(), with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Error(f"Pathway's environment: {folder()} cannot be made: {error}; is venv installed?") from None
    pip = ["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    locked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(LOCK)]
    try:
        child.run([python(), *pip, *locked], log, lambda line: None)
    except child.Failed as failure:
        words = [line for line in str(failure).splitlines() if line.strip()]
        raise Error(f"Pathway's environment: pip could not fill it: {words[-1]}; all its words are in {log}") from None
    stamp.write_text(expected())


def main() -> int:
    """Check or make. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    try:
        why = missing()
        if why and not chosen.check:
            make(lambda words: print(words, flush=True))
            why = missing()
    except Error as error:
        why = str(error)
    print(f"Pathway: absent: {why}" if why else f"Pathway: {python()}")
    return 1 if why else 0


if __name__ == "__main__":
    measure.command(main)
