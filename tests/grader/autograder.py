"""A likeness of a Gradescope container: bubblewrap, root in a user namespace with 65,536 uids, no network."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grader.lab.gradescope import packed

LANDLOCK, ENOSYS = 444, 38
_HOLDS = """
import ctypes, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
    sys.exit("no user namespaces")
print("ready", flush=True)
sys.stdin.read()
"""
_IDS = "0 0 65536"


def without_landlock() -> int:
    """A descriptor with a seccomp filter: the kernel says that it has no Landlock."""
    load, equal, end = 0x20, 0x15, 0x06
    lines = [(load, 0, 0, 0), (equal, 0, 1, LANDLOCK), (end, 0, 0, 0x0005_0000 | ENOSYS), (end, 0, 0, 0x7FFF_0000)]
    read, write = os.pipe()
    os.write(write, b"".join(struct.pack("HBBI", *line) for line in lines))
    os.close(write)
    return read


class Container:
    """A built image: /autograder/source has what the zip has. It can run submissions."""

    def __init__(self, top: Path, namespace: int) -> None:
        self.top, self._namespace, self.said = top, namespace, ""

    def built(self, bundle: Path) -> None:
        """Unpack the zip of a bundle and run its setup.sh."""
        source = self.top / "source"
        shutil.rmtree(source, ignore_errors=True)
        zipfile.ZipFile(io.BytesIO(packed({path.name: path.read_text() for path in bundle.iterdir()}))).extractall(
            source
        )
        shutil.copy(source / "run_autograder", self.top / "run_autograder")
        done = self._inside("bash", "/autograder/source/setup.sh")
        assert done.returncode == 0, done.stderr

    def graded(self, files: Mapping[str, str], landlock: bool = True) -> tuple[Any, Any]:
        """Hand in files. Returns the result that the autograder prints, and results.json; None for none of these."""
        for name in ("submission", "results"):
            shutil.rmtree(self.top / name, ignore_errors=True)
            (self.top / name).mkdir()
        for name, text in files.items():
            (self.top / "submission" / name).write_text(text)
        done = self._inside("bash", "/autograder/run_autograder", landlock=landlock)
        self.said = done.stderr
        told = self.top / "results" / "results.json"
        found = json.loads(told.read_text()) if told.exists() else None
        return json.loads(done.stdout) if done.stdout else None, found

    def _inside(self, *words: str, landlock: bool = True) -> subprocess.CompletedProcess[str]:
        filters = [] if landlock else [without_landlock()]
        base = Path(sys.base_prefix).resolve()
        bwrap = ["bwrap", "--userns", str(self._namespace), "--unshare-pid", "--unshare-ipc", "--unshare-net"]
        bwrap += ["--unshare-uts", "--die-with-parent", "--cap-add", "ALL", "--ro-bind", "/usr", "/usr"]
        bwrap += ["--ro-bind", "/dev/null", str(shutil.which("bwrap"))]  # Gradescope's images have none
        for name in ("bin", "sbin", "lib", "lib64"):
            bwrap += ["--symlink", f"usr/{name}", f"/{name}"]
        for name in ("passwd", "group", "ld.so.cache"):
            bwrap += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        if not base.is_relative_to("/usr"):
            for parent in list(base.parents)[-2::-1]:
                bwrap += ["--perms", "0755", "--dir", str(parent)]
            bwrap += ["--ro-bind", str(base), str(base)]
        bwrap += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]
        bwrap += ["--bind", str(self.top), "/autograder", "--chdir", "/autograder", "--clearenv"]
        bwrap += ["--setenv", "PATH", f"{base}/bin:/usr/bin:/bin"]
        for number in filters:
            bwrap += ["--seccomp", str(number)]
        passed = (self._namespace, *filters)
        try:
            return subprocess.run([*bwrap, "--", *words], pass_fds=passed, capture_output=True, text=True, timeout=300)
        finally:
            for number in filters:
                os.close(number)


@contextmanager
def container(top: Path) -> Iterator[Container]:
    """A container whose /autograder is the folder ``top``. Skips if this machine cannot have one, with the reason."""
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is missing; install the package bubblewrap, and this runs")
    if os.geteuid() != 0:
        pytest.skip("a user namespace with 65,536 uids needs root; run the tests as root")
    words = [sys.executable, "-c", _HOLDS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            pytest.skip("this machine allows no user namespaces; allow them, and this runs")
        try:
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{holder.pid}/{name}").write_text(_IDS)
        except OSError:
            holder.stdin.close()
            pytest.skip("this machine has fewer than 65,536 uids; run the tests outside of a container")
        namespace = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY)
        try:
            yield Container(top, namespace)
        finally:
            os.close(namespace)
            holder.stdin.close()
