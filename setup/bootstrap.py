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
import fcntl
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "sharedstate-setup.json"
BEGUN = ENVIRONMENT / "sharedstate-setup.begun"
CACHE = Path(os.environ.get("SHAREDSTATE_LITE_CACHE") or ROOT / ".cache").expanduser().absolute()
LOG = CACHE / "logs" / "setup.log"
BUILD, RUN, DEV = "requirements-build.txt", "requirements.txt", "requirements-dev.txt"
LOCKS = {"run": [BUILD, RUN], "dev": [BUILD, RUN, DEV]}
ONLY_AS_SOURCE = "pyspark"
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
            build(options.purpose)
    except OSError as error:
        raise Stop(f"{error.filename or ROOT}: {error.strerror}: this folder must be writable and not full") from None
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


def build(purpose):
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
                make_environment()
            else:
                BEGUN.touch()
                STAMP.unlink()
            for name in todo:
                install(["-r", f"setup/{name}"], log, packages=pins(name))
            if fresh:
                install(["--editable", "."], log, packages=1)
        part = STAMP.with_suffix(".part")
        part.write_text(json.dumps(expected(purpose), indent=1))
        part.replace(STAMP)
        BEGUN.unlink()
        done = True
    finally:
        if not done:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    if fresh:
        kit("jars", "jars: fetching")
    if DEV in todo:
        # Tests start fifty sessions; a reader who starts three is not kept waiting for this.
        kit("classes", "classes: archiving")
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


def make_environment():
    """An empty virtual environment with pip, in the place of the one that was there."""
    if ENVIRONMENT.exists():
        shutil.rmtree(ENVIRONMENT)
    ENVIRONMENT.mkdir()
    BEGUN.touch()
    made = subprocess.run(
        [sys.executable, "-I", "-m", "venv", str(ENVIRONMENT)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if made.returncode:
        LOG.write_text(made.stdout)
        version = "%d.%d" % sys.version_info[:2]
        raise Stop(
            f"Python {version} could not make an environment: apt install python{version}-venv (Debian, Ubuntu), "
            f"or use conda: conda env create -f environment.yml; its words are in {LOG}"
        )


def pins(name):
    """How many packages a lock names (a few are for other platforms, so this is an upper bound)."""
    return len(re.findall(r"^[A-Za-z0-9].*==", (ROOT / "setup" / name).read_text(), re.MULTILINE))


def install(what, log, packages):
    """Run pip, with one line of progress on the terminal and its own words in the log."""
    command = [str(ENVIRONMENT / "bin" / "python"), "-I", "-u", "-m", "pip", "install", *what]
    command += ["--no-deps", "--no-build-isolation", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    if what[0] == "-r":
        # Newer pips build PySpark by PEP 517 only; older ones are told to, so that all do the same.
        command += ["--require-hashes", "--only-binary=:all:", f"--no-binary={ONLY_AS_SOURCE}", "--use-pep517"]
    names = [name for name in os.environ if name not in ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONHOME")]
    settings = {**{name: os.environ[name] for name in names}, "PIP_USER": "0", "PYTHONNOUSERSITE": "1"}
    pip = subprocess.Popen(
        command,
        cwd=ROOT,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = follow(pip, log, packages)
        status = pip.wait()
    except BaseException:
        os.killpg(pip.pid, signal.SIGKILL)
        pip.wait()
        raise
    if status:
        raise Stop(reason(said))


def kit(room, telling):
    """Have a room of the kit's spark/ do its part of the set-up; lines that start with `telling` are shown.

    Without it all but a few things work, or are slower, so nothing stops.
    """
    # sharedstate_lite/spark/ivy.py reads a program's output much like this; the set-up imports nothing of the kit,
    # which needs packages that may not be there yet, and a Python that this one may not be.
    command = [str(ENVIRONMENT / "bin" / "python"), "-u", "-m", f"sharedstate_lite.spark.{room}"]
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    late = threading.Timer(KIT_SECONDS, os.killpg, [child.pid, signal.SIGKILL])
    late.start()
    try:
        with open(LOG, "a") as log:
            for line in child.stdout:
                log.write(line)
                if line.startswith(telling):
                    print(f"set-up: {line}", end="", flush=True)
        child.wait()
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    finally:
        late.cancel()


def follow(pip, log, packages):
    """Copy pip's output to the log and show how far it is, until it closes. Returns the output."""
    progress, said, rest = Progress(packages), [], b""
    while True:
        if select.select([pip.stdout], [], [], 1.0)[0]:
            chunk = os.read(pip.stdout.fileno(), 65536)
            if not chunk:
                progress.end()
                return "".join(said)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace") + "\n"
                said.append(text)
                log.write(text)
                log.flush()
                progress.heard(text)
        progress.show()


class Progress:
    """One line on a terminal, rewritten; elsewhere a line every ten seconds."""

    def __init__(self, packages):
        self.packages, self.fetched, self.phrase = packages, 0, "pip starts"
        self.placing, self.before = False, 0
        self.started = self.shown = time.monotonic()

    def heard(self, line):
        """Take in one line of pip's."""
        if line.startswith("Collecting "):
            self.fetched += 1
            self.phrase = line.split()[1].split("==")[0]
        size = re.search(r"Downloading .*\(([\d.]+ [kMG]B)\)", line)
        if size:
            self.phrase = f"{self.phrase.split(' ')[0]} {size[1]}"
        if "Building wheel" in line and "started" in line:
            self.phrase = "building " + line.split("for ")[1].split()[0]
        if line.startswith("Installing collected packages"):
            self.placing, self.before = True, self.placed()

    @staticmethod
    def placed():
        """How many packages stand in the environment."""
        return sum(1 for _ in ENVIRONMENT.glob("lib*/python*/site-packages/*.dist-info"))

    def show(self, every=10.0):
        """Say how far we are."""
        terminal, now = sys.stdout.isatty(), time.monotonic()
        if not terminal and now - self.shown < every:
            return
        self.shown = now
        if self.packages == 1:
            phrase = "installing the kit itself"
        elif self.placing:
            phrase = f"installing {min(self.placed() - self.before, self.fetched)} of {self.fetched}"
        else:
            phrase = f"fetching {self.fetched} of {max(self.packages, self.fetched)}: {self.phrase}"
        line = f"set-up: {now - self.started:4.0f} s  {phrase}"
        print(f"\r{line[:78]:<78}" if terminal else line, end="" if terminal else "\n", flush=True)

    def end(self):
        """Clear the line."""
        if sys.stdout.isatty():
            print("\r" + " " * 78 + "\r", end="", flush=True)


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
