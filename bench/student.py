"""How much memory a student needs: the peak of a lesson's kernel and of all processes that it starts.

    python bench/student.py 00 05 12

Runs each notebook without a browser, and prints the largest sum of its processes' memory (PSS, so shared pages count
once), the number of processes at that moment, and what share the JVM had. JupyterLab's server is not in it. Linux only.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
MARK = "SHAREDSTATE_LITE_MEASURED"
"""A variable that all processes of one lesson inherit, those of daemons too."""
EVERY = 0.2
"""Seconds between two samples."""


def sample(mark: str) -> list[tuple[str, int]]:
    """Return the name and the PSS, in bytes, of each process that has the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append((process.name(), int(process.memory_full_info().pss)))
        except psutil.Error:
            continue  # it has ended, or is another user's
    return found


def peak(notebook: Path) -> list[tuple[str, int]]:
    """Run a notebook, and return the sample with the largest sum. Raises CalledProcessError if the notebook fails."""
    mark, most = secrets.token_hex(8), list[tuple[str, int]]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / notebook.name
        copy.write_bytes(notebook.read_bytes())
        settings = {**os.environ, MARK: mark, "PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "1"}
        command = [sys.executable, "-m", "jupyter", "execute", "--timeout=600", str(copy)]
        child = subprocess.Popen(command, cwd=folder, env=settings, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while True:
            most = max(most, sample(mark), key=lambda each: sum(size for _, size in each))
            try:
                _, said = child.communicate(timeout=EVERY)
            except subprocess.TimeoutExpired:
                continue
            if child.returncode:
                raise subprocess.CalledProcessError(child.returncode, command, stderr=said)
            return most


def main(numbers: list[str]) -> int:
    """Print one line for each notebook. Returns the exit status."""
    for number in numbers:
        (notebook,) = (ROOT / "notebooks").glob(f"{number}-*.ipynb")
        try:
            parts = peak(notebook)
        except subprocess.CalledProcessError as error:
            print(f"{notebook.name} failed:\n{error.stderr.decode(errors='replace')[-1000:]}", file=sys.stderr)
            return 1
        total, java = (sum(size for name, size in parts if word in name) >> 20 for word in ("", "java"))
        print(f"{notebook.name}: {total:,} MiB in {len(parts)} processes, of which {java:,} MiB in Java", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["00", "05", "12"]))
