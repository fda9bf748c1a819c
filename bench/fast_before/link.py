"""Messages between the coordinator and a ledger: a length, then JSON, over one connection that either side may lose."""

import asyncio
import json

HELLO = b"LEDGER\n"
"""What a coordinator's connection begins with, on the port where a ledger answers HTTP too."""


class Link(asyncio.Protocol):
    def __init__(self, heard, lost):
        """``heard(message)`` and ``lost()``; neither is called after ``cut``."""
        self.heard, self.lost, self.transport, self.buffer = heard, lost, None, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while len(self.buffer) >= 4:
            size = int.from_bytes(self.buffer[:4])
            if len(self.buffer) < 4 + size or self.transport is None:
                return
            message, self.buffer = self.buffer[4 : 4 + size], self.buffer[4 + size :]
            self.heard(json.loads(message))

    def connection_lost(self, error):
        if self.transport is not None:
            self.transport = None
            self.lost()

    def send(self, *message):
        if self.transport is not None:
            data = json.dumps(message, separators=(",", ":")).encode()
            self.transport.write(len(data).to_bytes(4) + data)

    def cut(self):
        """What is still under way on it is never heard."""
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.abort()
