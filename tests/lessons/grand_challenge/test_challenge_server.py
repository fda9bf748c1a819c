"""The challenger implements the organisers' protocol, and refuses calls that break it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf.descriptor import FieldDescriptor
from ticksdrawn import check, expected

from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.grand_challenge import Challenger, by_thread, protoc
from sharedstate_lite.lessons.grand_challenge import challenger_pb2 as messages
from sharedstate_lite.lessons.grand_challenge.calls import stubs
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import (
    Q1,
    Q2,
    Batch,
    Benchmark,
    BenchmarkConfiguration,
    ResultQ1,
    ResultQ2,
)
from sharedstate_lite.lessons.grand_challenge.run import Run

ROOT = Path(__file__).resolve().parents[3]

FIELDS = {
    "BenchmarkConfiguration": "1 string token, 2 string benchmark_name, 3 string benchmark_type, 4 Query queries *",
    "Benchmark": "1 int64 id",
    "Event": "1 string symbol, 2 SecurityType security_type, 3 float last_trade_price, 4 Timestamp last_trade",
    "Batch": "1 int64 seq_id, 2 bool last, 3 string lookup_symbols *, 4 Event events *",
    "Indicator": "1 string symbol, 2 float ema_38, 3 float ema_100",
    "ResultQ1": "1 int64 benchmark_id, 2 int64 batch_seq_id, 3 Indicator indicators *",
    "CrossoverEvent": "1 Timestamp ts, 2 string symbol, 3 SecurityType security_type, 4 SignalType signal_type",
    "ResultQ2": "1 int64 benchmark_id, 2 int64 batch_seq_id, 3 CrossoverEvent crossover_events *",
}
"""The organisers' messages: number, type, name, and a star for repeated fields."""
PLAIN = {
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_FLOAT: "float",
}
ENUMS = {"Query": {"Q1": 0, "Q2": 1}, "SecurityType": {"Equity": 0, "Index": 1}}


def written(descriptor: Any) -> str:
    """A message's fields as in ``FIELDS``."""
    out = []
    for field in descriptor.fields:
        kind = field.message_type or field.enum_type
        out.append(f"{field.number} {kind.name if kind else PLAIN[field.type]} {field.name}{' *' * field.is_repeated}")
    return ", ".join(out)


def test_messages_are_the_organisers() -> None:
    """Names, numbers and types of every message, of the enumerations and of the service's calls."""
    file = messages.DESCRIPTOR
    assert file.package == "Challenger"
    assert {name: written(message) for name, message in file.message_types_by_name.items()} == FIELDS
    found = {name: {v.name: v.number for v in enum.values} for name, enum in file.enum_types_by_name.items()}
    assert found == ENUMS
    signal_type = file.message_types_by_name["CrossoverEvent"].enum_types_by_name["SignalType"]
    assert {v.name: v.number for v in signal_type.values} == {"Buy": 0, "Sell": 1}
    calls = file.services_by_name["Challenger"].methods
    assert [(c.name, c.input_type.name, c.output_type.name) for c in calls] == [
        ("createNewBenchmark", "BenchmarkConfiguration", "Benchmark"),
        ("startBenchmark", "Benchmark", "Empty"),
        ("nextBatch", "Benchmark", "Batch"),
        ("resultQ1", "ResultQ1", "Empty"),
        ("resultQ2", "ResultQ2", "Empty"),
        ("endBenchmark", "Benchmark", "Empty"),
    ]


def test_made_code_is_that_of_the_messages(tmp_path: Path) -> None:
    """challenger_pb2.py and .pyi are the compiler's output for challenger.proto."""
    protoc.make(tmp_path)
    for name in ("challenger_pb2.py", "challenger_pb2.pyi"):
        assert (tmp_path / name).read_text() == (protoc.HERE / name).read_text(), "make them again"


class Client:
    """The calls as functions."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self.calls = stubs(self._channel)

    def begun(self, *queries: Any) -> int:
        """A benchmark that was started."""
        number: int = self.calls["createNewBenchmark"](BenchmarkConfiguration(queries=queries or [Q1, Q2])).id
        self.calls["startBenchmark"](Benchmark(id=number))
        return number


def next_after_the_last(client: Client) -> None:
    """Ask for one batch too many."""
    number = Benchmark(id=client.begun())
    while not client.calls["nextBatch"](number).last:
        continue
    client.calls["nextBatch"](number)


def twice(client: Client) -> None:
    """The same answer again."""
    number = client.begun()
    client.calls["nextBatch"](Benchmark(id=number))
    for _ in range(2):
        client.calls["resultQ2"](ResultQ2(benchmark_id=number))


def not_asked(client: Client) -> None:
    """Answer Q2 in a benchmark of Q1."""
    number = client.begun(Q1)
    client.calls["nextBatch"](Benchmark(id=number))
    client.calls["resultQ2"](ResultQ2(benchmark_id=number))


def ended(client: Client) -> None:
    """Ask for a batch after the last one."""
    number = Benchmark(id=client.begun())
    client.calls["endBenchmark"](number)
    client.calls["nextBatch"](number)


@pytest.mark.parametrize(
    ("breach", "code"),
    [
        (lambda c: c.calls["createNewBenchmark"](BenchmarkConfiguration()), "INVALID_ARGUMENT"),
        (lambda c: c.calls["nextBatch"](Benchmark(id=10**6)), "NOT_FOUND"),
        (
            lambda c: c.calls["nextBatch"](c.calls["createNewBenchmark"](BenchmarkConfiguration(queries=[Q1]))),
            "FAILED_PRECONDITION",
        ),
        (lambda c: c.calls["startBenchmark"](Benchmark(id=c.begun())), "FAILED_PRECONDITION"),
        (lambda c: c.calls["resultQ1"](ResultQ1(benchmark_id=c.begun())), "FAILED_PRECONDITION"),
        (ended, "FAILED_PRECONDITION"),
        (not_asked, "INVALID_ARGUMENT"),
        (twice, "ALREADY_EXISTS"),
        (next_after_the_last, "OUT_OF_RANGE"),
    ],
    ids=["no query", "no benchmark", "not started", "started twice", "an answer before its batch", "ended"]
    + ["a query not asked", "answered twice", "after the last"],
)
def test_what_breaks_the_protocol_is_refused(
    challenger: Challenger, breach: Callable[[Client], object], code: str
) -> None:
    """A call that breaks the protocol gets a status with the rule."""
    with pytest.raises(grpc.RpcError) as refused:
        breach(Client(challenger.address))
    assert isinstance(refused.value, grpc.Call) and refused.value.code().name == code


def test_batches_come_in_order_and_whole(challenger: Challenger, handed_out: list[Batch]) -> None:
    """Batches are numbered from 0, the last one is marked, and two benchmarks at once each get all batches."""
    client = Client(challenger.address)
    one, other = Benchmark(id=client.begun()), Benchmark(id=client.begun())
    got = [[client.calls["nextBatch"](number) for number in (one, other)] for _ in handed_out]
    assert [list(pair) for pair in zip(handed_out, handed_out, strict=True)] == got
    assert [batch.seq_id for batch in handed_out] == list(range(len(handed_out)))
    assert [batch.last for batch in handed_out] == [False] * (len(handed_out) - 1) + [True]


@pytest.mark.parametrize("ahead", [1, 5])
def test_a_whole_benchmark(challenger: Challenger, handed_out: list[Batch], ahead: int) -> None:
    """All answers equal the single pass's, and at most ``ahead`` batches are unanswered at once."""
    number = by_thread(challenger.address, ahead=ahead)
    record = challenger.record(number)
    check(record, handed_out, number)
    by = record.calls.groupby("batch")
    sent, came = by["sent"].first(), by["came"].max()
    most = max(int(((sent <= at) & (came > at)).sum()) for at in sent)
    assert most <= ahead
    line = record.line()
    assert line["batches"] == len(handed_out) and line["p50 ms"] <= line["p95 ms"] <= line["max ms"]


def test_one_query_alone(challenger: Challenger, handed_out: list[Batch]) -> None:
    """A benchmark of Q2 alone expects and accepts answers to Q2 only."""
    number = by_thread(challenger.address, queries=["Q2"])
    record = challenger.record(number)
    assert record.missing == 0 and set(record.calls["query"]) == {"Q2"}
    assert [answer for _, answer in record.answers] == [answer for _, answer in expected(handed_out, number)]


def test_a_record_says_what_is_missing(challenger: Challenger) -> None:
    """Missing answers are counted; a running benchmark has no record."""
    client = Client(challenger.address)
    number = client.begun()
    client.calls["nextBatch"](Benchmark(id=number))
    client.calls["resultQ1"](ResultQ1(benchmark_id=number))
    with pytest.raises(Error, match="has not been ended"):
        challenger.record(number)
    client.calls["endBenchmark"](Benchmark(id=number))
    assert challenger.record(number).missing == 1


def test_a_challenger_that_is_not_there_is_named() -> None:
    """A run without a challenger raises with the address; invalid options raise too."""
    with pytest.raises(Error, match=r"challenger at 127.0.0.1:1 .*UNAVAILABLE"):
        by_thread("127.0.0.1:1")
    for wrong in ({"ahead": 0}, {"queries": ["Q3"]}):
        with pytest.raises(Error, match=next(iter(wrong))):
            Run("127.0.0.1:1", **wrong)  # type: ignore[arg-type]


def test_a_challenger_ends_with_its_owner(tmp_path: Path) -> None:
    """A killed owner leaves no challenger process."""
    code = (
        "import sys\n"
        "from sharedstate_lite.lessons.grand_challenge import Challenger\n"
        "from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch\n"
        "challenger = Challenger([Batch(last=True)])\n"
        "print(challenger._process.pid, flush=True)\n"
        "sys.stdin.read()\n"  # blocks until it is killed
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert owner.stdin is not None and owner.stdout is not None
    server = psutil.Process(int(owner.stdout.readline()))
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    gone, alive = psutil.wait_procs([server], timeout=120)
    assert gone == [server] and not alive
