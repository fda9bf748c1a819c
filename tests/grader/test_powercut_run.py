"""The power cut on real processes: a system that syncs loses nothing, another sees its losses, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zoo
from boxes import Mounted, mounted

from grader.report import write

__all__ = ["mounted"]
ROOT = Path(__file__).resolve().parent.parent.parent


def start(folder: Path, out: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a run of the contract phase, with the power cut after it."""
    options = ["--quick", "--phases", "contract", "--power-cut", "--seed", "1", "--convergence", "3"]
    command = [sys.executable, "-m", "grader", "checkout", str(folder), *options, "--report", str(out)]
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def cut(folder: Path, out: Path, **variables: str) -> tuple[dict[str, Any], str]:
    """report.json of such a run, which must pass, and everything it printed."""
    process = start(folder, out, **variables)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 0, printed + err
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "pass" and report["violations"] == []
    return report, printed + err


def synced(folder: Path, when: str = "True") -> Path:
    """The zoo's `single`, which never syncs its log, with a sync added after each line, or where ``when`` is true."""
    zoo.right("single", folder)
    shop = folder / "shop.py"
    text = shop.read_text()
    write, sync = "    os.write(log, line)\n", f"    if {when}:\n        os.fsync(log)\n"
    assert text.count(write) == 1
    shop.write_text(text.replace(write, f"{write}{sync}"))
    return folder


def test_a_system_without_a_sync_loses_orders_and_the_report_names_them(mounted: Mounted, tmp_path: Path) -> None:
    """It survives `kill -9`, so it passes; the report names lost orders. A replay writes the same bytes."""
    mounted().close()
    report, printed = cut(zoo.right("single", tmp_path / "single"), tmp_path / "out")
    found = report["power_cut"]
    assert found["tested"] and found["came_back"] and found["cuts"] == 3 and found["dropped"] > 0
    assert found["lost"] == found["acknowledged"] > 0
    assert found["examples"][0]["label"].startswith("powercut-") and found["examples"][0]["cut"] == 1
    assert f"{found['lost']} of {found['lost']} acknowledged orders were lost" in printed
    write(tmp_path / "out", tmp_path / "again")
    for name in ("report.json", "report.html"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.slow
def test_a_system_that_syncs_rarely_loses_what_came_after_its_last_sync(mounted: Mounted, tmp_path: Path) -> None:
    """A sync every 16 lines: some orders are lost, at most 15 a cut, and everything else adds up."""
    mounted().close()
    count = "LOG.append(0) or len(LOG) % 16 == 0"  # the shop uses only the first entry of LOG
    found = cut(synced(tmp_path / "seldom", count), tmp_path / "out")[0]["power_cut"]
    assert 0 < found["lost"] <= 3 * 15 and found["lost"] < found["acknowledged"]
    assert (found["half_there"], found["other"]) == (0, 0)
    assert all(each["detail"] == "lost" for each in found["examples"])


@pytest.mark.parametrize(
    "which", ["single, synced", pytest.param("labs/checkout/one-database", marks=pytest.mark.slow)]
)
def test_a_system_that_syncs_before_it_answers_loses_nothing(mounted: Mounted, tmp_path: Path, which: str) -> None:
    """The same log with an fsync after each line, and PostgreSQL with its own."""
    mounted().close()
    folder = synced(tmp_path / "synced") if which.startswith("single") else ROOT / which
    report, printed = cut(folder, tmp_path / "out")
    found = report["power_cut"]
    assert (found["lost"], found["half_there"], found["other"]) == (0, 0, 0), printed
    assert found["cuts"] == 3 and found["acknowledged"] > 0
    assert f"none of {found['acknowledged']} acknowledged orders was lost" in printed


def test_without_fuse_the_power_cut_is_not_tested_and_the_verdict_stays(tmp_path: Path) -> None:
    """If fusermount3 is missing, the report gives the reason and the remedy, and the verdict is the same."""
    report, _ = cut(zoo.right("single", tmp_path / "single"), tmp_path / "out", PATH=str(tmp_path))
    (why,) = [left["why"] for left in report["not_tested"] if left["what"] == "power cut"]
    assert "; install the Debian package fuse3" in why or "; load the kernel module" in why
    assert not report["power_cut"]["tested"]


def _mounts(place: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]


def test_an_interrupted_power_cut_leaves_no_mount(mounted: Mounted, tmp_path: Path) -> None:
    """Ctrl-C while the folder is mounted: exit 130, and no mount and no scratch folder is left."""
    mounted().close()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = start(zoo.right("single", tmp_path / "single"), tmp_path / "out", TMPDIR=str(scratch))
    until = time.monotonic() + 60
    while not _mounts(scratch) and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            break  # it has ended: nothing will be mounted
    assert _mounts(scratch)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert _mounts(scratch) == [] and list(scratch.iterdir()) == []
