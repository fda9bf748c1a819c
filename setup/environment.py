"""Builds .venv from the lock, with uv: ``environment.py run`` for the lab, ``environment.py dev`` for the tests too.

Any Python from 3.8 on runs this script. It needs the standard library alone, neither pip nor venv. uv comes from the
package index, as the wheel whose SHA-256 is below. It finds a Python from 3.11 to 3.14 on this machine, or fetches one,
and installs what setup/requirements*.lock names, each package checked by its hash. ``PYTHON`` names another Python. The
index is UV_DEFAULT_INDEX or UV_INDEX_URL; if neither is set, the one in pip's settings; if there is none, the public
one.

An environment is complete if it has a stamp, which is written last. One without a stamp is built again. On Windows, pip
installs the kit (README.md).
"""

import configparser
import fcntl
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
PYTHON = VENV / "bin" / "python"
CACHE = Path(os.environ.get("SHAREDSTATE_LITE_CACHE") or ROOT / ".cache").expanduser().absolute()
STAMP, LOG = VENV / "sharedstate-setup.json", CACHE / "logs" / "setup.log"
LOCKS = {"run": "setup/requirements.lock", "dev": "setup/requirements-dev.lock"}
NEEDED = {"run": "about 3 GB of disk and two minutes", "dev": "about 3.5 GB of disk and three minutes"}
PYTHONS = "cpython>=3.11,<3.15"
UV, PUBLIC = "0.13.9", "https://pypi.org/simple"
WHEELS = {
    "Linux x86_64": "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "Linux aarch64": "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    "Darwin x86_64": "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
    "Darwin arm64": "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
}
"""System and machine, as Python names them -> the digest of uv's wheel."""
NETWORK = "check the network, the proxy, and the index in UV_DEFAULT_INDEX or in pip's settings"
NAMED = "install a Python from 3.11 to 3.14, or name one with PYTHON=/path/to/python3.12"


class Stop(Exception):
    """The set-up cannot go on. The message says why and what to do."""


def main(purpose):
    """Build what ``purpose`` needs, if it is not there."""
    python = os.environ.get("PYTHON") or stamped().get("python", PYTHONS)
    wanted = {"root": str(ROOT), "python": python, purpose: digest(purpose)}
    if complete(wanted):
        return
    if VENV.is_symlink() or (VENV.exists() and not (VENV / "pyvenv.cfg").exists()):
        raise Stop(f"{VENV} is there and is no virtual environment: move it away, and run this again")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with open(LOG, "a") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another one is at work in this folder; waiting for it")
            fcntl.flock(log, fcntl.LOCK_EX)
        if not complete(wanted):
            log.truncate(0)
            build(purpose, wanted, log)


def digest(purpose):
    """Return a digest of what decides the packages of an environment."""
    files = ("pyproject.toml", LOCKS[purpose])
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in files)).hexdigest()


def complete(wanted):
    """Return whether the environment has what is wanted. One for the tests has all that one for a lesson has."""
    found = stamped()
    if "run" in wanted and found.get("dev") == digest("dev"):
        wanted = {"root": wanted["root"], "python": wanted["python"]}
    return wanted.items() <= found.items()


def build(purpose, wanted, log):
    """Build the environment, and stamp it with ``wanted``. The packages of one with the same Python are kept."""
    say(f"fills .venv and .cache, {NEEDED[purpose]}; log in {LOG}")
    began, uv, found = time.monotonic(), fetched(CACHE / f"uv-{UV}"), stamped()
    if (found.get("root"), found.get("python")) != (wanted["root"], wanted["python"]):
        run([uv, "venv", "--clear", "--no-project", "--python", wanted["python"], VENV], log, NAMED)
    STAMP.unlink(missing_ok=True)
    where = ["--python", PYTHON, "--build-constraints", "setup/requirements-build.lock"]
    run([uv, "pip", "sync", *where, "--require-hashes", LOCKS[purpose]], log, NETWORK)
    run([uv, "pip", "install", *where, "--no-deps", "--editable", "."], log, NETWORK)
    plain_path()
    for room in ["jars", "classes"] if purpose == "dev" else ["jars"]:
        run([PYTHON, "-u", "-m", f"sharedstate_lite.spark.session.{room}"], log)
    STAMP.write_text(json.dumps(wanted))
    say(f"done in {time.monotonic() - began:.0f} s; from now on it is not repeated")


def stamped():
    """Return what the environment was stamped with, or {} if it is not complete or its Python is gone."""
    try:
        return dict(json.loads(STAMP.read_text())) if PYTHON.exists() else {}
    except (OSError, ValueError, TypeError):
        return {}


def say(words, end="\n"):
    """Print a line, over the one before if that had no end."""
    print(f"\r\033[Kset-up: {words}" if sys.stdout.isatty() else f"set-up: {words}", end=end, flush=True)


def index():
    """Return the address of the package index."""
    files = [os.environ.get("PIP_CONFIG_FILE", ""), "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf"]
    files.append("~/Library/Application Support/pip/pip.conf")
    settings = configparser.RawConfigParser(strict=False)
    settings.read([os.path.expanduser(file) for file in files], encoding="utf-8")
    named = [os.environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    named += [settings.get(part, "index-url", fallback=None) for part in ("install", "global")]
    return next(filter(None, named), PUBLIC).rstrip("/")


def fetched(uv):
    """Return the path of uv, which is fetched if it is not in the cache."""
    if uv.exists():
        return uv
    place, page = f"{platform.system()} {platform.machine()}", f"{index()}/uv/"
    if place not in WHEELS:
        raise Stop(f"uv {UV} is not fetched for {place}: pip install -r {LOCKS['run']} into a Python from 3.11 to 3.14")
    try:
        html = urllib.request.urlopen(page, timeout=30).read().decode()
        link = re.search(f'href="([^"#]+)#sha256={WHEELS[place]}', html)
        if not link:
            raise Stop(f"{page} has no uv {UV} for {place}: name another index in UV_DEFAULT_INDEX")
        wheel = urllib.request.urlopen(urllib.parse.urljoin(page, link[1]), timeout=60).read()
    except (OSError, ValueError) as error:
        raise Stop(f"the package index did not answer ({page}: {error}): {NETWORK}") from None
    if hashlib.sha256(wheel).hexdigest() != WHEELS[place]:
        raise Stop(f"{page} sent another file than uv {UV} (its hash differs): run the same command again")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("/scripts/uv"))
        part = uv.with_suffix(".part")
        part.write_bytes(archive.read(member))
    part.chmod(0o755)
    part.replace(uv)
    return uv


def run(command, log, needed=""):
    """Run a command, and show its last line in a terminal. If it fails, raise Stop, which ends with ``needed``.

    Without ``needed``, it may fail. Its input is the log, which is locked: so the lock holds until the last child ends.
    """
    settings = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME")}
    settings.update(UV_DEFAULT_INDEX=index(), UV_NO_PROGRESS="1", UV_SYSTEM_CERTS="1")
    if not os.access(os.path.expanduser("~"), os.W_OK):
        settings["UV_CACHE_DIR"] = str(CACHE / "uv")
    words, out = [str(word) for word in command], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = subprocess.Popen(words, cwd=ROOT, env=settings, stdin=log, text=True, errors="replace", **out)
    said = []
    try:
        for line in child.stdout:
            said.append(line.strip())
            print(said[-1], file=log, flush=True)
            if sys.stdout.isatty():
                say(said[-1][:70], end="")
        status = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if status and needed:
        why = [re.sub(r"^(error|cause): ", "", line) for line in said if re.match("error:|cause:", line)] or said[-1:]
        raise Stop(f"{': '.join(dict.fromkeys([*why[:2], *why[-1:]]))}: {needed}; log in {LOG}")


def plain_path():
    """Name the checkout by a relative path in its .pth file, which Python 3.11 reads in the encoding of the locale."""
    for file in VENV.glob("lib/python*/site-packages/_sharedstate_lite.pth"):
        file.write_text("../../../..\n")


def interrupted(number, frame):
    """Let SIGTERM end the set-up as Ctrl-C does. Sent to the group, it comes from make too: once is enough."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    try:
        main(sys.argv[1])
    except Stop as stop:
        sys.exit(f"set-up: {stop}")
    except OSError as error:
        sys.exit(f"set-up: {error.filename or ROOT}: {error.strerror}: this folder must be writable and not full")
    except KeyboardInterrupt:
        sys.exit("\nset-up: interrupted; run the same command again, and it goes on")
