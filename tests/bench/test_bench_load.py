"""bench/load.py: what generators print becomes numbers, an open loop sees a freeze, an absent peer is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import load
from bench.generators import ours, tools

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the generator needs epoll: run this on Linux")

HEY = """
Summary:
  Total:	4.0007 secs
  Requests/sec:	15353.2
Latency distribution:
  50% in 0.0040 secs
  99% in 0.0101 secs
Status code distribution:
  [200]	60000 responses
  [503]	7 responses

Error distribution:
  [3]	Post "http://127.0.0.1:1/": EOF
"""
WRK = """
  Latency Distribution
     50%    1.13ms
     99%    1.20s
  90000 requests in 4.00s, 8.00MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 5
Requests/sec:  22500.10
"""


def test_what_hey_and_wrk_print() -> None:
    """Rate, 99th percentile in milliseconds, requests, and everything that was no 200, from their own words."""
    assert tools.hey_told(HEY, 2.0) == tools.Told(60_007, 15_353.2, pytest.approx(10.1), 2.0, 10)
    assert tools.wrk_told(WRK, 1.8) == tools.Told(90_000, 22_500.1, 1200.0, 1.8, 8)
    assert tools.wrk_told(WRK, 1.8).cpu_us == pytest.approx(20.0)
    for told in (tools.hey_told, tools.wrk_told):
        with pytest.raises(ValueError, match="printed no"):
            told("error: unable to connect", 0.1)


def test_an_open_loop_sees_a_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server frozen for a third of the time makes the 99th percentile most of the freeze; all is answered."""
    monkeypatch.setattr(load, "FROZEN", 0.5)
    monkeypatch.setattr(load, "FREEZE_AFTER", 0.6)
    bench = load.Bench(quick=True)
    with load.Server() as server:
        calm, met = bench.ours(server, 500, 1.5), bench.ours(server, 500, 1.5, freeze=True)
    assert calm.answered == calm.requests == met.answered == met.requests == 750
    assert met.p99 > 400 and calm.cpu > 0


def test_a_million_is_judged_as_right_and_one_more_effect_as_wrong() -> None:
    """What the audit's row measures is the audit: the same columns with one order charged twice are not clean."""
    view, subject, status = ours.million(40_000)
    assert ours.clean(view) and len(subject) == len(status) >= 40_000
    view.credit[7] -= 1000
    assert not ours.clean(view)


def test_an_absent_peer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Without Locust's environment, hey and wrk the rows say so, have no ratio, and the rest is measured."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(load, "MOST", 3_000)
    assert load.main(["--quick", "--only", "rate", "--json", str(tmp_path / "rows.json")]) == 0
    first, second = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert set(first["peers"].values()) == {None} and first["ratio"] is None and second["holds"] is None
    assert any("bench/generators/env.py makes its environment" in name for name in first["peers"])
    assert first["equal"] and first["value"] > 0 and "hey (not installed)" in capsys.readouterr().out
