"""Defines the six calls of the service for client and server: their paths, requests and responses."""

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
"""The types of each call's request and response, by the name of the call. All calls are unary."""

RECORDS = "SharedStateLite.Records"
"""The name of a second service, which returns the record of a benchmark; see :mod:`.server`.

It is not part of the organisers' protocol.
"""

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""gRPC options that remove the limit of 4 MB per message, because a batch can be larger."""


def stubs(channel: grpc.Channel) -> dict[str, Any]:
    """Return a function for each call, by name. The function's ``future`` method makes the call without waiting."""
    return {
        name: channel.unary_unary(
            f"/{SERVICE}/{name}", request_serializer=asked.SerializeToString, response_deserializer=answered.FromString
        )
        for name, (asked, answered) in CALLS.items()
    }


def handlers(answer: Mapping[str, Callable[[Any, grpc.ServicerContext], Any]]) -> grpc.GenericRpcHandler:
    """Build the service from one function per call, by name.

    A function returns a message, or bytes that contain a serialized message.
    """
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
