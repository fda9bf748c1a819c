"""bench/architectures.py: what strace wrote is read, counted and ordered; a small system is started and counted."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bench import architectures
from bench.architectures import calls, label, steps, totals

HEAD = r'"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"'


def traces(folder: Path, **threads: list[str]) -> Path:
    """A file for each thread, as strace -ff writes it."""
    for thread, lines in threads.items():
        (folder / thread.replace("_", ".")).write_text("\n".join(lines) + "\n+++ exited with 0 +++\n")
    return folder


def sent(at: float, here: int, there: int, text: str, call: str = "sendto") -> str:
    return f"{at:.6f} {call}(7<TCP:[127.0.0.1:{here}->127.0.0.1:{there}]>, {text}, 85, 0, NULL, 0) = 85"


def test_calls_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    """Messages have their processes, whichever end of a connection sends; a body after its head is no message."""
    folder = traces(
        tmp_path,
        order_1=[
            sent(1.0, 4001, 5001, r'"POST /take/a1 HTTP/1.1\r\n\r\n"'),
            sent(1.1, 4001, 5001, r'"{\"apple\": 1}"'),
            sent(5.0, 5000, 4000, HEAD),
            sent(5.1, 5000, 4000, r'"{}\n"'),
        ],
        stock_2=[
            '2.0 pwrite64(5</tmp/checkouts-x/stock/stock.db-wal>, "...", 24, 0) = 24',
            '2.1 pwrite64(5</tmp/checkouts-x/stock/stock.db-wal>, "...", 4096, 24) = 4096',
            "2.2 fdatasync(5</tmp/checkouts-x/stock/stock.db-wal>) = 0",
            '2.3 write(2</dev/null<char 1:3>>, "a log", 5) = 5',
            sent(3.0, 5001, 4001, HEAD),
        ],
    )
    found = calls(folder, {"order": 5000, "stock": 5001})
    assert [(each.process, each.kind, each.peer, each.text) for each in found] == [
        ("order", "message", "stock", "take"),
        ("stock", "write", "", ""),
        ("stock", "sync", "", ""),
        ("stock", "message", "order", "200"),
        ("order", "message", "client", "200"),
    ]
    assert totals(found, 1) == {"checkouts": 1, "message": 4.0, "write": 1.0, "sync": 1.0}
    assert steps(found)[:3] == [["client", "order", "checkout"], ["order", "stock", "take"], ["stock", "write"]]


def test_a_link_that_began_with_http_has_messages(tmp_path: Path) -> None:
    """On a connection without answers to each message, every line after the first answer counts."""
    order = [sent(at, 4001, 5001, text) for at, text in ((1, r'"GET /link HTTP/1.1\r\n"'), (3, r'"[\"epoch\",1]\n"'))]
    order.append(sent(4, 4001, 5001, r'"[\"epoch\",2]\n"'))
    folder = traces(tmp_path, order_1=order, stock_2=[sent(2, 5001, 4001, r'"[\"voted\",0]\n"')])
    found = calls(folder, {"order": 5000, "stock": 5001})
    assert [each.text for each in found] == ["link", "voted", "epoch", "epoch"]


def test_writes_are_joined_until_something_happens(tmp_path: Path) -> None:
    """Writes with a message of the process between them are two; those of two processes are not joined."""
    write = 'write(5</tmp/checkouts-x/{}/log>, "...", 9) = 9'
    folder = traces(
        tmp_path,
        order_1=["1.0 " + write.format("order"), "1.5 " + write.format("order"), sent(2, 5000, 4000, HEAD)],
        stock_2=["1.2 " + write.format("stock")],
        order_3=["3.0 " + write.format("order")],
    )
    found = calls(folder, {"order": 5000, "stock": 5001})
    assert [(each.process, each.kind) for each in found] == [
        ("order", "write"),
        ("stock", "write"),
        ("order", "message"),
        ("order", "write"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'"POST /charge/a1/7/12 HTTP/1.1\r\n', "charge"),
        (r'"HTTP/1.1 200 OK\r\n', "200"),
        (r'"{\"kind\": \"wanted\", \"of\": 3', "wanted"),
        (r'"P\0\0\0A\0SELECT usr, paid FROM orders WHERE id = $1', "SELECT orders"),
        (r'"P\0\0\0M\0UPDATE items SET stock = stock + $1', "UPDATE items"),
        (r'"Q\0\0\0\vCOMMIT\0"', "COMMIT"),
        (r'"C\0\0\0\vSELECT 1\0"', ""),
        ('"...', ""),
    ],
)
def test_what_a_message_is_about(text: str, said: str) -> None:
    """A route, a status, a record's kind or a statement; nothing for a database's answer."""
    assert label(text) == said


def structure() -> ModuleType:
    """tests/project/test_structure.py, which counts lines for docs/architecture.md."""
    path = Path(__file__).resolve().parents[1] / "project" / "test_structure.py"
    spec = importlib.util.spec_from_file_location("structure", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["structure"] = found
    spec.loader.exec_module(found)
    return found


def test_lines_of_code_are_counted_as_for_the_rooms() -> None:
    """A folder's lines are those of its files."""
    folder, count = architectures.LABS / "fast", structure().lines_of_code
    assert architectures.lines_of_code(folder) == sum(count(path.read_text()) for path in folder.rglob("*.py"))


def test_every_system_can_be_planted(tmp_path: Path) -> None:
    """Each folder has a checkout.toml; a variant differs from its base in one file; the record names HTTP layers."""
    found = {name: each.plant(tmp_path / str(n)) for n, (name, each) in enumerate(architectures.SYSTEMS.items())}
    assert all((folder / "checkout.toml").exists() for folder in found.values())
    for base, variant in (
        ("embedded", "embedded, no log"),
        ("log", "log, no offsets"),
        ("entities", "entities, a sync each"),
    ):
        files = [path.relative_to(found[base]) for path in found[base].rglob("*.*") if path.is_file()]
        changed = [f for f in files if (found[base] / f).read_bytes() != (found[variant] / f).read_bytes()]
        assert len(changed) == 1
    recorded = json.loads(architectures.RECORD.read_text())["systems"]
    layers = {name: architectures.http_layer(folder) for name, folder in found.items()}
    assert layers == {name: row["http"] for name, row in recorded.items()}
    assert [layers[name] for name in ("saga", "twophase", "fast")] == ["Flask, gunicorn", "http.server", "its own"]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What is written is JSON, and equal."""
    record = {"command": "c", "seed": 7, "machine": {"cores": 2}, "systems": {"a": {"lines": 1, "time": {"x": 1.5}}}}
    architectures.write(tmp_path / "new" / "record.json", record)
    assert architectures.read(tmp_path / "new" / "record.json") == record
    assert architectures.read(tmp_path / "none.json") == {"systems": {}}


def test_the_committed_record_has_every_system() -> None:
    """Verdict, counts and time of each; no file is larger than 200 kB."""
    record = json.loads(architectures.RECORD.read_text())
    assert list(record["systems"]) == list(architectures.SYSTEMS)
    assert all({"verdict", "counts", "time"} <= row.keys() for row in record["systems"].values())
    assert architectures.RECORD.stat().st_size < 200_000


@pytest.mark.skipif(sys.platform != "linux", reason="the systems need epoll: run this on Linux")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts messages: apt install strace")
def test_a_small_system_is_counted(tmp_path: Path) -> None:
    """One process with one log: a request, an answer and a write for each checkout, and no sync."""
    found = architectures.counts(architectures.SYSTEMS["single"].plant(tmp_path / "system"), quick=True)
    assert found["one after the other"] == {"checkouts": 4, "message": 2.0, "write": 1.0, "sync": 0.0}
    assert found["36 at once"]["answered"] == 36 and found["36 at once"]["message"] == 2.0
    assert found["steps"] == [["client", "shop", "checkout"], ["shop", "write"], ["shop", "client", "200"]]


def test_without_strace_the_record_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is counted, and the reason names the program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "strace" in architectures.counts(tmp_path, quick=True)["missing"]
