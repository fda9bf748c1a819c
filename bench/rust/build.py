"""Builds the programs in Rust: ``python bench/rust/build.py``, once; bench/views.py --rust does it too.

    build.py            build them where they are missing or their sources have changed
    build.py --check    exit 0 if they are there, else 1 and why; changes nothing

Cargo.toml pins the versions of the engines. What these need is resolved by cargo, and the lock stays in the caches
folder with the programs: about 1 GB, a quarter of an hour of one core.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench import child, measure  # noqa: E402
from sharedstate_lite.errors import Error  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402

HERE = Path(__file__).parent
SOURCES = ("Cargo.toml", "src/lib.rs", "src/bin/dbsp.rs", "src/bin/differential.rs")
PROGRAMS = ("dbsp", "differential")
COMMAND = "python bench/rust/build.py"


def folder() -> Path:
    """Where the sources are copied to and built."""
    return cache_dir("rust")


def program(name: str) -> Path:
    """A program that was built."""
    return folder() / "target" / "release" / name


def cargo() -> str | None:
    """Cargo, from the PATH or from where rustup puts it; None where there is none."""
    home = Path("~/.cargo/bin/cargo").expanduser()
    return shutil.which("cargo") or (str(home) if home.is_file() else None)


def expected() -> str:
    """A digest of the sources, with which a complete build is stamped."""
    return hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest() + "\n"


def missing() -> str | None:
    """Why the programs cannot be run, with the way out; None where they can."""
    stamp = folder() / "complete"
    if stamp.is_file() and stamp.read_text() == expected():
        return None
    if cargo() is None:
        return "there is no cargo; install Rust from https://rustup.rs"
    return f"{COMMAND} builds its program" if not stamp.is_file() else f"its sources have changed; run {COMMAND}"


def build(tell: Callable[[str], None]) -> None:
    """Build the programs. Raises Error, with cargo's last words, where that fails."""
    found = cargo()
    if found is None:
        raise Error("the engines in Rust cannot be built without cargo; install Rust from https://rustup.rs")
    tell(f"building the engines in Rust in {folder()} (about 1 GB and a quarter of an hour of one core, once)")
    (folder() / "complete").unlink(missing_ok=True)
    for name in SOURCES:
        (folder() / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / name, folder() / name)
    log = cache_dir("logs") / "rust.log"
    manifest: list[str | Path] = ["--manifest-path", folder() / "Cargo.toml", "--target-dir", folder() / "target"]
    for name in PROGRAMS:
        try:
            child.run(
                [found, "build", "--release", "--features", name, "--bin", name, *manifest], log, lambda line: None
            )
        except child.Failed as failure:
            words = [line for line in str(failure).splitlines() if line.strip()]
            raise Error(f"the engines in Rust: cargo failed: {words[-1]}; all its words are in {log}") from None
    (folder() / "complete").write_text(expected())


def main() -> int:
    """Check or build, as the arguments say; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    why = missing()
    if why and not chosen.check:
        build(lambda words: print(words, flush=True))
        why = missing()
    print(f"engines in Rust: absent: {why}" if why else f"engines in Rust: {program('dbsp').parent}")
    return 1 if why else 0


if __name__ == "__main__":
    measure.command(main)
