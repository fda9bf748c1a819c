"""The power cut on real processes: who syncs loses nothing, who does not is told what it lost, and nothing stays."""

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

__all__ = ["mounted"]
ROOT = Path(__file__).resolve().parent.parent.parent


def start(folder: Path, out: Path, **variables: str) -> subprocess.Popen[str]:
    """A run of the contract phase, and the power cut after it."""
    options = ["--quick", "--phases", "contract", "--power-cut", "--seed", "1", "--convergence", "3"]
    command = [sys.executable, "-m", "grader", "checkout", str(folder), *options, "--report", str(out)]
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def cut(folder: Path, out: Path, **variables: str) -> tuple[dict[str, Any], str]:
    """report.json of such a run, and everything printed; its verdict is a pass."""
    process = start(folder, out, **variables)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 0, printed + err
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "pass" and report["violations"] == []
    return report, printed + err


def synced(folder: Path, when: str = "True") -> Path:
    """The zoo's `single`, which writes its log without syncing it, with a sync after a line, or some lines."""
    zoo.right("single", folder)
    shop = folder / "shop.py"
    text = shop.read_text()
    write, sync = "    os.write(log, line)\n", f"    if {when}:\n        os.fsync(log)\n"
    assert text.count(write) == 1
    shop.write_text(text.replace(write, f"{write}{sync}"))
    return folder


def test_who_writes_without_a_sync_loses_acknowledged_orders_and_is_told(mounted: Mounted, tmp_path: Path) -> None:
    """A right system by all rules, `kill -9` included: named orders are lost, and it passes. Replay says the same."""
    mounted().close()
    report, printed = cut(zoo.right("single", tmp_path / "single"), tmp_path / "out")
    found = report["power_cut"]
    assert found["tested"] and found["came_back"] and found["cuts"] == 3 and found["dropped"] > 0
    assert found["lost"] == found["acknowledged"] > 0
    assert found["examples"][0]["label"].startswith("powercut-") and found["examples"][0]["cut"] == 1
    assert f"{found['lost']} of {found['lost']} acknowledged orders were lost" in printed
    again = [sys.executable, "-m", "grader", "replay", str(tmp_path / "out"), "--report", str(tmp_path / "again")]
    subprocess.run(again, cwd=ROOT, check=True, capture_output=True)
    for name in ("report.json", "report.html"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_who_syncs_now_and_then_loses_what_came_after_the_last_sync(mounted: Mounted, tmp_path: Path) -> None:
    """A sync every 16 lines: some orders are lost, at most 15 a cut, and everything else adds up."""
    mounted().close()
    count = "LOG.append(0) or len(LOG) % 16 == 0"  # of LOG the shop uses the first alone
    found = cut(synced(tmp_path / "seldom", count), tmp_path / "out")[0]["power_cut"]
    assert 0 < found["lost"] <= 3 * 15 and found["lost"] < found["acknowledged"]
    assert (found["half_there"], found["other"]) == (0, 0)
    assert all(each["detail"] == "lost" for each in found["examples"])


@pytest.mark.parametrize("which", ["single, synced", "labs/checkout/one-database"])
def test_who_syncs_before_the_answer_loses_nothing(mounted: Mounted, tmp_path: Path, which: str) -> None:
    """The same log with one fsync, and PostgreSQL with its own."""
    mounted().close()
    folder = synced(tmp_path / "synced") if which.startswith("single") else ROOT / which
    report, printed = cut(folder, tmp_path / "out")
    found = report["power_cut"]
    assert (found["lost"], found["half_there"], found["other"]) == (0, 0, 0), printed
    assert found["cuts"] == 3 and found["acknowledged"] > 0
    assert "no acknowledged order was lost" in printed


def test_a_machine_without_it_says_so_and_grades_as_ever(tmp_path: Path) -> None:
    """No fusermount3 to be found: not tested, why, and the mend; the verdict is what it was."""
    report, _ = cut(zoo.right("single", tmp_path / "single"), tmp_path / "out", PATH=str(tmp_path))
    (why,) = [left["why"] for left in report["not_tested"] if left["what"] == "power cut"]
    assert "; install Debian's package fuse3" in why or "; load the kernel's module" in why
    assert not report["power_cut"]["tested"]


def _mounts(place: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]


def test_interrupted_among_the_cuts_it_leaves_no_mount(mounted: Mounted, tmp_path: Path) -> None:
    """Ctrl-C while the folder is mounted: exit 130, no mount, no scratch folder, no process of it."""
    mounted().close()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = start(zoo.right("single", tmp_path / "single"), tmp_path / "out", TMPDIR=str(scratch))
    until = time.monotonic() + 60
    while not _mounts(scratch) and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            break  # it has ended, and there is nothing to wait for
    assert _mounts(scratch)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert _mounts(scratch) == [] and list(scratch.iterdir()) == []
