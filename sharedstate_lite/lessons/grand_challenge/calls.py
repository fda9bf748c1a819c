"""The six calls of the service, for both sides: path, request, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from .challenger_pb2 import Batch, Benchmark, BenchmarkConfiguration, ResultQ1, ResultQ2

SERVICE = "Challenger.Challenger"
CALLS: dict[str, tuple[type[Message], type[Message]]] = {
    "createNewBenchmark": (BenchmarkConfiguration, Benchmark),
    "startBenchmark": (Benchmark, Empty),
    "nextBatch": (Benchmark, Batch),
    "resultQ1": (ResultQ1, Empty),
    "resultQ2": (ResultQ2, Empty),
    "endBenchmark": (Benchmark, Empty),
}
"""Name -> (request, answer); all unary."""

RECORDS = "SharedStateLite.Records"
"""A second service, not in the organisers' protocol: the record of a benchmark; see :mod:`.server`."""

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""A batch may exceed gRPC's limit of 4 MB."""


def stubs(channel: grpc.Channel) -> dict[str, Any]:
    """A function for each call; ``.future`` calls without waiting."""
    return {
        name: channel.unary_unary(
            f"/{SERVICE}/{name}", request_serializer=asked.SerializeToString, response_deserializer=answered.FromString
        )
        for name, (asked, answered) in CALLS.items()
    }


def handlers(answer: Mapping[str, Callable[[Any, grpc.ServicerContext], Any]]) -> grpc.GenericRpcHandler:
    """The service, from a function a call. One may answer with bytes, which are a message already."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            name: grpc.unary_unary_rpc_method_handler(
                answer[name],
                request_deserializer=asked.FromString,
                response_serializer=lambda out: out if isinstance(out, bytes) else out.SerializeToString(),
            )
            for name, (asked, _) in CALLS.items()
        },
    )
