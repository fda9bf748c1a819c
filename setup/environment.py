"""Builds .venv from the lock, with uv: ``environment.py run`` for the lab, ``environment.py dev`` for the tests too.

Any Python from 3.8 on runs this script. It needs the standard library alone, neither pip nor venv. uv comes from the
package index, as the wheel whose SHA-256 is below. It finds a Python from 3.11 to 3.14 on this machine, or fetches one,
and installs what setup/requirements*.lock names, each package checked by its hash. ``PYTHON`` names another Python. The
index is UV_DEFAULT_INDEX or UV_INDEX_URL; if neither is set, the one in pip's settings; if there is none, the public
one.

An environment is complete if it has a stamp, which is written last. One without a stamp is built again.
"""

import configparser
import hashlib
import io
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
CACHE = Path(os.environ.get("SHAREDSTATE_LITE_CACHE") or ROOT / ".cache").expanduser().absolute()
STAMP, LOG = VENV / "sharedstate-setup.json", CACHE / "logs" / "setup.log"
LOCKS = {"run": "setup/requirements.lock", "dev": "setup/requirements-dev.lock"}
NEEDED = {"run": "about 2.5 GB of disk and two minutes", "dev": "about 3 GB of disk and three minutes"}
PYTHONS = "cpython>=3.11,<3.15"
UV, PUBLIC = "0.13.9", "https://pypi.org/simple"
WHEELS = {
    "Linux x86_64": "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "Linux aarch64": "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    "Darwin x86_64": "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
    "Darwin arm64": "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
    "Windows AMD64": "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
}
"""System and machine, as Python names them -> the digest of uv's wheel."""
REASONS = {
    "No space left": "the disk is full: make room, and run the same command again",
    "[Hh]ash mismatch": "a package is not the one that was locked (its hash differs): run the same command again",
    "No interpreter|inspect Python|download for|interpreter at path": "no Python from 3.11 to 3.14 was found or could "
    "be fetched: install one, or name one with PYTHON=/path/to/python3.12",
    "error sending request|dns error|timed out|onnect": "the package index did not answer: check the network, the "
    "proxy, and the index in UV_DEFAULT_INDEX or in pip's settings",
}


class Stop(Exception):
    """The set-up cannot go on. The message says why and what to do."""


def main(purpose):
    """Build what ``purpose`` needs. Returns the exit status."""
    digest = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", LOCKS[purpose])))
    found = stamped()
    python = os.environ.get("PYTHON") or found.get("python", PYTHONS)
    wanted = {"root": str(ROOT), "python": python, purpose: digest.hexdigest()}
    if wanted.items() <= found.items():
        return 0
    if VENV.is_symlink() or (VENV.exists() and not (VENV / "pyvenv.cfg").exists()):
        raise Stop(f"{VENV} is there and is no virtual environment: move it away, and run this again")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "setup.lock", "w") as lock, open(LOG, "w") as log:
        alone(lock)
        say(f"fills .venv and .cache, {NEEDED[purpose]}; log in {LOG}")
        began, uv = time.monotonic(), fetched(CACHE / f"uv-{UV}")
        if (found.get("root"), found.get("python")) != (str(ROOT), python):
            run([uv, "venv", "--clear", "--no-project", "--python", python, VENV], log)
        STAMP.unlink(missing_ok=True)
        where = ["--python", PYTHON, "--build-constraints", "setup/requirements-build.lock"]
        run([uv, "pip", "sync", *where, "--require-hashes", LOCKS[purpose]], log)
        run([uv, "pip", "install", *where, "--no-deps", "--editable", "."], log)
        plain_paths()
        for room in ["jars", "classes"] if purpose == "dev" else ["jars"]:
            run([PYTHON, "-u", "-m", f"sharedstate_lite.spark.session.{room}"], log, needed=False)
        STAMP.write_text(json.dumps(wanted))
    say(f"done in {time.monotonic() - began:.0f} s; from now on it is not repeated")
    return 0


def stamped():
    """Return what the environment was stamped with, or {} if it is not complete or its Python is gone."""
    try:
        return dict(json.loads(STAMP.read_text())) if PYTHON.exists() else {}
    except (OSError, ValueError, TypeError):
        return {}


def say(words, end="\n"):
    """Print a line, over the one before if that had no end."""
    print(f"\r\033[Kset-up: {words}" if sys.stdout.isatty() else f"set-up: {words}", end=end, flush=True)


def alone(lock):
    """Wait until no other set-up works in this folder. The lock is inherited, so it holds until the last child ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    os.set_inheritable(lock.fileno(), True)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another one is at work in this folder; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def index():
    """Return the address of the package index."""
    files = [os.environ.get("PIP_CONFIG_FILE", ""), "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf"]
    files += ["~/Library/Application Support/pip/pip.conf", "~/pip/pip.ini", "~/AppData/Roaming/pip/pip.ini"]
    settings = configparser.RawConfigParser(strict=False)
    settings.read([Path(file).expanduser() for file in files if file], encoding="utf-8")
    named = [os.environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    named += [settings.get(part, "index-url", fallback=None) for part in ("install", "global")]
    return next(filter(None, named), PUBLIC).rstrip("/")


def fetched(uv):
    """Return the path of uv, which is fetched if it is not in the cache."""
    if uv.exists():
        return uv
    place = f"{platform.system()} {platform.machine()}"
    if place not in WHEELS:
        raise Stop(f"uv {UV} is not fetched for {place}: pip install -r {LOCKS['run']} into a Python from 3.11 to 3.14")
    page = f"{index()}/uv/"
    try:
        html = urllib.request.urlopen(page, timeout=30).read().decode()
        link = re.search(f'href="([^"#]+)#sha256={WHEELS[place]}', html)
        if not link:
            raise Stop(f"{page} has no uv {UV} for {place}: name another index in UV_DEFAULT_INDEX")
        wheel = urllib.request.urlopen(urllib.parse.urljoin(page, link[1]), timeout=60).read()
    except (OSError, ValueError) as error:
        raise Stop(f"{list(REASONS.values())[-1]} ({page}: {error})") from None
    if hashlib.sha256(wheel).hexdigest() != WHEELS[place]:
        raise Stop(REASONS["[Hh]ash mismatch"])
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        (member,) = (name for name in archive.namelist() if re.search(r"/scripts/uv(\.exe)?$", name))
        part = uv.with_suffix(".part")
        part.write_bytes(archive.read(member))
    part.chmod(0o755)
    part.replace(uv)
    return uv


def run(command, log, needed=True):
    """Run a command, and show the last line of its output. Raises Stop if it fails and is needed."""
    settings = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME")}
    settings.update(UV_DEFAULT_INDEX=index(), UV_NO_PROGRESS="1", UV_SYSTEM_CERTS="1")
    if not os.access(os.path.expanduser("~"), os.W_OK):
        settings["UV_CACHE_DIR"] = str(CACHE / "uv")
    began = shown = time.monotonic()
    child = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        close_fds=False,
    )
    try:
        said = []
        for line in child.stdout:
            said.append(line)
            log.write(line)
            log.flush()
            now = time.monotonic()
            if line[:3] not in (" + ", " - ", " ~ ") and (sys.stdout.isatty() or now - shown > 10):
                shown = now
                say(f"{now - began:3.0f} s  {line.strip()[:60]}", end="" if sys.stdout.isatty() else "\n")
        status = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if status and needed:
        text = "".join(said)
        errors = [line.strip() for line in said if line.startswith("error")] or said[-1:] or ["uv failed"]
        why = next((why for pattern, why in REASONS.items() if re.search(pattern, text)), errors[0])
        raise Stop(f"{why}; log in {LOG}")


def plain_paths():
    """Write the checkout's folder into .pth files in ASCII: before 3.13, Python reads them in the locale's encoding."""
    for file in VENV.glob("lib/python*/site-packages/*.pth"):
        lines = file.read_text(encoding="utf-8").splitlines()
        plain = [line if line.isascii() else f"import sys; sys.path.append({line!a})" for line in lines]
        file.write_text("\n".join(plain) + "\n", encoding="ascii")


def interrupted(number, frame):
    """Let SIGTERM and SIGHUP end the set-up as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    try:
        sys.exit(main(sys.argv[1]))
    except Stop as stop:
        sys.exit(f"set-up: {stop}")
    except OSError as error:
        sys.exit(f"set-up: {error.filename or ROOT}: {error.strerror}: this folder must be writable and not full")
    except KeyboardInterrupt:
        sys.exit("\nset-up: interrupted; run the same command again, and it goes on")
