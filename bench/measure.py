"""What every benchmark shares: options, timing, medians, progress, the printed table, the JSON.

    options(...)    --quick, --only ROW, --json FILE, checked before anything is measured
    times(...)      seconds of repeated calls, the warm-up left out
    compared(...)   a Row: a value, its peers, and the ratio to the one that counts
    Progress        one line on standard error: what runs, how far, how long it may take
    finish(...)     prints the rows, writes the JSON, gives the exit status
    command(...)    runs a main and turns Ctrl-C and SIGTERM into one tidy end

A ratio is always told so that more is better: "ours over theirs" for a rate, "theirs
over ours" for seconds and bytes. A row holds where its ratio reaches its target. Where
the peer is absent there is no ratio, and ``holds`` is null: never a guess.

Only the standard library is used, so that a peer in an environment of its own can
import it too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, TextIO

clock = time.perf_counter
"""The clock of every measurement, in seconds."""


@dataclass(frozen=True)
class Row:
    """One measured line.

    ``peers`` are in the row's unit, None where a peer is absent (its name says why).
    ``ladder`` has a step for each value of a growing parameter, and is left out of the JSON where there is none.
    """

    what: str
    value: float | None
    unit: str
    peers: Mapping[str, float | None] = field(default_factory=dict)
    ratio: float | None = None
    target: float | None = None
    holds: bool | None = None
    equal: bool | None = None
    ladder: Sequence[Mapping[str, float | None]] | None = None


def compared(
    what: str,
    value: float | None,
    unit: str,
    peers: Mapping[str, float | None],
    *,
    against: str | None = None,
    target: float | None = None,
    less: bool = False,
    equal: bool | None = None,
) -> Row:
    """A row whose ratio is that of ``value`` to the peer named ``against``; ``less`` where less is better."""
    other = peers[against] if against is not None else None
    ratio = None
    if value is not None and other is not None and min(value, other) > 0:
        ratio = other / value if less else value / other
    holds = None if ratio is None or target is None else ratio >= target
    return Row(what, value, unit, dict(peers), ratio, target, holds, equal)


def times(action: Callable[[], object], *, runs: int, warm: int = 1) -> list[float]:
    """Seconds of each of ``runs`` calls, after ``warm`` calls that are not counted."""
    if runs < 1 or warm < 0:
        raise ValueError(
            f"times: {runs} runs after {warm} warm-up calls: take one run or more, and no negative warm-up"
        )
    for _ in range(warm):
        action()
    seconds = []
    for _ in range(runs):
        start = clock()
        action()
        seconds.append(clock() - start)
    return seconds


def median(values: Sequence[float | None]) -> float | None:
    """The median of what was measured; None where nothing was, or where a run has no value."""
    known = [v for v in values if v is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def options(
    about: str, rows: Sequence[str], arguments: Sequence[str] | None = None, switches: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """The command line of every benchmark: ``quick``, ``only`` (a list, empty for all), ``json`` (a path or None).

    ``switches`` are more options without a value, with what they do.

    Ends with status 2, before anything is measured, where a row is unknown or the file cannot be written.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small version of everything, within three minutes")
    one_of = ", ".join(rows)
    parser.add_argument("--only", metavar="ROW", action="append", default=[], help=f"{one_of}; may be repeated")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to write the rows")
    for switch, does in (switches or {}).items():
        parser.add_argument(switch, action="store_true", help=does)
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.only if name not in rows]
    if unknown:
        parser.error(f"--only {unknown[0]}: no such row; it is one of {one_of}")
    if chosen.json is not None:
        refusal = unwritable(chosen.json)
        if refusal:
            parser.error(f"--json {chosen.json}: {refusal}; name a file in a folder that exists and may be written")
    return chosen


def unwritable(path: Path) -> str | None:
    """Why a file cannot be written there, or None; what is there already is not touched."""
    if path.is_dir():
        return "is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "may not be written"
    return None


def machine(packages: Sequence[str] = ()) -> dict[str, Any]:
    """What was measured on: system, processor, cores, memory in GiB, Python, versions of ``packages``."""
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "packages": {},
    }
    for name in packages:
        try:
            found["packages"][name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found["packages"][name] = None
    return found


def commit() -> str:
    """The commit of this checkout, with a + if something but records has changed since; "unknown" without Git."""
    at = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(at)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout[:12]
        changed = [*git, "status", "--porcelain", "--", ".", ":!bench/records"]
        return head + "+" * bool(subprocess.run(changed, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def today() -> str:
    """The date, as in 2026-11-30."""
    return time.strftime("%Y-%m-%d")


def processor() -> str:
    """The processor's name as the system gives it; the architecture where it gives none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


class Progress:
    """How far a list of tasks is, on one line of standard error.

    ``tasks`` are names with expected weights; the time left is what the weight done so
    far took, carried over to the rest. On a terminal the line is rewritten; elsewhere a
    line is written as each task begins.
    """

    def __init__(
        self,
        tasks: Sequence[tuple[str, float]],
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tasks, self.stream, self.now = list(tasks), stream or sys.stderr, now
        self.started = now()
        self._told = -1

    def at(self, task: int, fraction: float) -> None:
        """Task number ``task`` is done to ``fraction`` (0 to 1), those before it wholly."""
        fresh = task != self._told
        self._told = task
        if fresh or self.stream.isatty():
            end = "" if self.stream.isatty() else "\n"
            begin = "\r\033[K" if self.stream.isatty() else ""
            self.stream.write(f"{begin}{self.line(task, fraction)}{end}")
            self.stream.flush()

    def line(self, task: int, fraction: float) -> str:
        """The line itself."""
        gone = self.now() - self.started
        done = sum(weight for _, weight in self.tasks[:task]) + self.tasks[task][1] * fraction
        whole = sum(weight for _, weight in self.tasks)
        left = f", about {span(gone * (whole - done) / done)} left" if done > whole / 50 else ""
        return f"[{task + 1}/{len(self.tasks)}] {self.tasks[task][0]}: {fraction:4.0%} · {span(gone)} gone{left}"

    def clear(self) -> None:
        """Leave the terminal's line empty for what is printed next."""
        if self.stream.isatty():
            self.stream.write("\r\033[K")
            self.stream.flush()


def span(seconds: float) -> str:
    """Seconds for a reader: 42 s, 3 min 05 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def number(value: float | None) -> str:
    """A number for a reader: three digits below 1,000, whole with commas above."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """The rows as text: value, ratio, target; then a line for each peer, once for rows in a row that share them."""
    lines = []
    width = max([len(row.what) for row in rows] + [len(name) + 4 for row in rows for name in row.peers], default=0)
    for place, row in enumerate(rows):
        told = [f"{row.what:<{width}}  {number(row.value):>12} {row.unit}"]
        if row.ratio is not None:
            told.append(f"ratio {number(row.ratio)}")
        if row.target is not None:
            verdict = {None: "not known", True: "holds", False: "MISSED"}[row.holds]
            told.append(f"target {number(row.target)}: {verdict}")
        if row.equal is not None:
            told.append("answers equal" if row.equal else "ANSWERS DIFFER")
        lines.append("   ".join(told))
        if place + 1 == len(rows) or row.ladder or rows[place + 1].peers != row.peers:
            lines.extend(f"    {name:<{width - 4}}  {number(value):>12}" for name, value in row.peers.items())
        for step in row.ladder or ():
            lines.append("    " + "   ".join(f"{name} {number(value)}" for name, value in step.items()))
    return "\n".join(lines)


def document(rows: Sequence[Row], packages: Sequence[str] = ()) -> dict[str, Any]:
    """What is written as JSON: command, commit, date, machine, rows. Raises ValueError where a number is not finite."""
    told: dict[str, Any] = {"command": " ".join(["python", *sys.argv]), "commit": commit(), "date": today()}
    told |= {"machine": machine(packages), "rows": []}
    for row in rows:
        numbers = [row.value, row.ratio, row.target, *row.peers.values()]
        if any(v is not None and not math.isfinite(v) for v in numbers):
            raise ValueError(f"row {row.what!r}: a number in it is not finite: {numbers}")
        fields = asdict(row)
        if row.ladder is None:
            del fields["ladder"]
        told["rows"].append(fields)
    return told


def finish(rows: Sequence[Row], path: Path | None, packages: Sequence[str] = ()) -> int:
    """Print the rows and write them to ``path``, if any; 1 where answers differ or a value is missing, else 0."""
    print(table(rows), flush=True)
    if path is not None:
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(document(rows, packages), indent=1, allow_nan=False) + "\n")
        part.replace(path)
    missed = [row.what for row in rows if row.holds is False]
    if missed:
        print("\n    ".join([f"{len(missed)} rows are short of their targets:", *missed]), flush=True)
    return 0 if rows and all(row.equal is not False and row.value is not None for row in rows) else 1


def command(main: Callable[[], int]) -> NoReturn:
    """Run ``main`` and end with its status; Ctrl-C, SIGTERM and SIGHUP end it as Ctrl-C does, with status 130."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, interrupt)
    try:
        status = main()
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        status = 130
    sys.exit(status)
