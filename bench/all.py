"""Makes the records of bench/records, one after the other, on a machine that does nothing else.

    python bench/all.py [--only NAME] [--quick] [--anyway] [--out FOLDER]

A name is that of a page (08 runs notebook 08, and keeps the rows of its charts) or of another benchmark,
whose ``--json`` it keeps. Before each, it waits until other processes use less than 0.1 of a core for 5 seconds, at
most 3 minutes. If they do not, that record is not made. ``--anyway`` makes it, and the record says how busy they were.

A record that was made at this commit with this command is not made again, so a run that was stopped continues where it
was. ``--quick`` takes small sizes and writes to build/records, for a try. `python bench/tables.py` then writes
docs/measurements.md and the table of README.md.

A record is {"command", "commit", "date", "machine", "other_cores": {"before", "after"}, "rows": [{"what", "value",
"unit", ...}]}. A page's record also has "scale", the SCALE of its run. Its rows have "of", the chart or table to which
they belong ("sizes": how much was measured), and "at", their place on an axis.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import psutil  # noqa: E402

from bench import measure  # noqa: E402
from sharedstate_lite.lessons.records import CALM, FOLDER, ROWS  # noqa: E402
from sharedstate_lite.show.checks import UNATTENDED  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"05": "small", "07": "full", "08": "full", "09": "full", "10": "full", "12": "small", "13": "full"}
"""Each page, and the SCALE of its record: small where its text names the sizes of that scale."""
BENCHES = {
    "19": ["bench/without.py"],
    "growth": ["bench/growth.py"],
    "price": ["bench/price.py"],
    "views": "bench/views.py --rust --only rate-100 --only rate-1000 --only rate-10000".split(),
}
"""Records that a benchmark makes, and its command."""
NAMES = [*PAGES, *BENCHES]
FOR, AT_MOST = 5.0, 180.0
"""For how many seconds others are watched; how many seconds are waited for them."""
PACKAGES = ["numpy", "pandas", "pyspark", "psycopg", "rocksdict"]


def others(seconds: float = FOR) -> float:
    """Return how many cores other processes use, in the next seconds."""

    def busy() -> float:
        machine = psutil.cpu_times()
        return float(sum(machine) - machine.idle - getattr(machine, "iowait", 0.0)) - time.process_time()

    before = busy()
    time.sleep(seconds)  # the load is a rate, so it takes time to measure
    return round(max(0.0, busy() - before) / seconds, 2)


def settled(load: Callable[[], float] = others, at_most: float = AT_MOST) -> tuple[float, bool]:
    """Wait until others are calm. Return their load when it was last measured, and whether it was calm."""
    for _ in range(int(at_most // FOR)):
        if (last := load()) < CALM:
            return last, True
    return last, False


def page(name: str, quick: bool) -> dict[str, Any]:
    """Run a notebook, and return what it measured as a document. Raises CalledProcessError if the notebook fails."""
    (notebook,) = (ROOT / "notebooks").glob(f"{name}-*.ipynb")
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        copy, rows = Path(folder, notebook.name), Path(folder, "rows.json")
        copy.write_bytes(notebook.read_bytes())
        scale = {"SCALE": "small" if quick else PAGES[name], UNATTENDED: "1", ROWS: str(rows)}
        settings = {**os.environ, **scale, "PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "1"}
        command = [sys.executable, "-m", "jupyter", "execute", "--timeout=3600", str(copy)]
        subprocess.run(command, cwd=folder, env=settings, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
        found = {"scale": scale["SCALE"], "rows": json.loads(rows.read_text("utf-8"))}
        return measure.document([], PACKAGES) | found


def bench(name: str, quick: bool) -> dict[str, Any]:
    """Run a benchmark, and return its document. Raises CalledProcessError if it fails."""
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        found = Path(folder, "rows.json")
        file, *wanted = BENCHES[name]
        command = [sys.executable, str(ROOT / file), *wanted, "--json", str(found), *["--quick"] * quick]
        subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
        return dict(json.loads(found.read_text("utf-8")))


def made(path: Path, command: str) -> bool:
    """Return whether a record was made at this commit by this command."""
    old = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return bool((old.get("commit"), old.get("command")) == (measure.commit(), command))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the wanted records. Return 1 if one could not be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES, action="append", help="one record; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a try")
    parser.add_argument("--anyway", action="store_true", help="even if other processes are busy")
    parser.add_argument("--out", type=Path, help="the folder to write to")
    chosen = parser.parse_args(arguments)
    folder = chosen.out or (ROOT / "build" / "records" if chosen.quick else FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in chosen.only or NAMES:
        command = f"python bench/all.py --only {name}{' --quick' * chosen.quick}"
        path, began = folder / f"{name}.json", time.monotonic()
        if made(path, command):
            print(f"{name}: was made at this commit", flush=True)
            continue
        before, calm = (others(), True) if chosen.anyway else settled()
        if not calm:
            print(f"{name}: void, other processes use {before} cores; try again, or pass --anyway", flush=True)
            failed = True
            continue
        try:
            found = (page if name in PAGES else bench)(name, chosen.quick)
        except subprocess.CalledProcessError as error:
            print(f"{name}: failed\n{(error.stderr or b'').decode(errors='replace')[-2000:]}", flush=True)
            failed = True
            continue
        found |= {"command": command, "other_cores": {"before": before, "after": others()}}
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        part.replace(path)
        print(f"{name}: {measure.span(time.monotonic() - began)}, {len(found['rows'])} rows", flush=True)
    return int(failed)


if __name__ == "__main__":
    measure.command(main)
