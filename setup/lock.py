"""Rewrites the lock: ``make lock`` after a change of pyproject.toml or of requirements-build.in.

The three files hold exact versions and hashes of every package, transitive ones
too, resolved once for all of Python 3.11 to 3.14 and every platform (markers say
what is for whom), so that two machines with the same checkout have the same
packages. The resolver is uv, in an environment of its own in the caches folder;
the set-up itself needs only pip. ``make lock UPGRADE=1`` takes the newest versions
that pyproject.toml allows; without it, what is locked stays unless it must move.

Universal resolution does not ask whether a version has a wheel for each platform. So
every lock is then resolved once more for each platform and Python, from wheels alone,
as the set-up installs it. setup/wheels.json records which locks passed.
"""

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from bootstrap import ONLY_AS_SOURCE

RESOLVER = "uv==0.13.9"
ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--quiet"]
BUILD = ["-c", "setup/requirements-build.txt"]
JOBS = [
    ("requirements-build.txt", ["setup/requirements-build.in"]),
    ("requirements.txt", ["pyproject.toml", *BUILD]),
    ("requirements-dev.txt", ["pyproject.toml", "--extra", "dev", "-c", "setup/requirements.txt", *BUILD]),
]


PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PLATFORMS = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
]
WHEELS = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
WHEELS += [word for name in ONLY_AS_SOURCE.split(",") for word in ("--no-binary", name)]


def main() -> int:
    """Resolve and write the three lock files. Returns the exit status."""
    tools = Path(os.environ.get("SHAREDSTATE_LITE_CACHE") or ROOT / ".cache").absolute() / "lock"
    python = tools / "bin" / "python"
    if subprocess.run([python, "-c", ""], capture_output=True).returncode if python.exists() else True:
        venv.create(tools, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", RESOLVER], check=True)
    for name, sources in JOBS:
        print(f"lock: setup/{name}", flush=True)
        command = [tools / "bin" / "uv", "pip", "compile", *OPTIONS, *sources, "-o", f"setup/{name}"]
        if os.environ.get("UPGRADE"):
            command.append("--upgrade")
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make lock"})
    passed = {name: check(tools, name) for name, _ in JOBS}
    (ROOT / "setup" / "wheels.json").write_text(json.dumps(passed, indent=1) + "\n")
    return 0


def check(tools: Path, name: str) -> dict[str, object]:
    """Resolve a lock for each platform and Python from wheels alone. Returns its record for setup/wheels.json."""
    places = [f"{platform} {python}" for platform in PLATFORMS for python in PYTHONS]
    for place in places:
        platform, python = place.split()
        command = [tools / "bin" / "uv", "pip", "install", "--dry-run", "--quiet", "--target", tools / "nothing"]
        command += ["--python", tools / "bin" / "python", "--python-version", python, "--python-platform", platform]
        if subprocess.run([*command, *WHEELS, "-r", f"setup/{name}"], cwd=ROOT).returncode:
            sys.exit(f"lock: setup/{name} cannot be installed on {place}: pin a version with a wheel in pyproject.toml")
    return {"sha256": hashlib.sha256((ROOT / "setup" / name).read_bytes()).hexdigest(), "installs on": places}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"lock: {error}: nothing else was changed; see what was printed above, and run make lock again")
