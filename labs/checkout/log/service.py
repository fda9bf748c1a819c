"""A service: a fold that follows the log, and a Flask application that answers clients.

A request goes to the log as a record. When the record comes back, the fold applies it, and what the fold returns is the
answer. The variable LOG is the port of the log, DATA is the folder of the snapshot.
"""

import json
import os
import pickle
import socket
import threading
import time
import traceback
import uuid
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from pathlib import Path

from flask import Flask
from fold import Refused

LONGEST = 5.0
"""Seconds until a client is told that there is no answer."""
EVERY = 2000
"""Records from one snapshot to the next."""


class Service:
    def __init__(self, name):
        """Create the fold of this module, and follow the log. Returns when the fold has read what the log has."""
        self.fold, self.path = import_module(name).FOLD(self.tell), Path(os.environ["DATA"], "snapshot")
        if self.path.exists():
            vars(self.fold).update(pickle.loads(self.path.read_bytes()))
        self.saved, self.log = self.fold.offset, None
        self.lock, self.sending, self.ready = threading.Lock(), threading.Lock(), threading.Event()
        self.waiting, self.asked = {}, {}
        """The clients that have no answer, by what `ask` drew for them, and by the offset of their record."""
        self.app = Flask(name)
        self.app.add_url_rule("/health", "health", dict)
        for path, kind in self.fold.WRITES.items():
            self.app.add_url_rule(path, kind, partial(self.ask, kind), methods=["POST"])
        for path, method in self.fold.READS.items():
            self.app.add_url_rule(path, method, partial(self.look, getattr(self.fold, method)))
        threading.Thread(target=self.run, daemon=True).start()
        self.ready.wait()

    def run(self):
        """Follow the log for ever. If a record cannot be applied, the process ends."""
        try:
            while True:
                try:
                    self.follow()
                except OSError:
                    time.sleep(0.1)  # the log does not announce that it is back, so ask ten times a second
        except BaseException:
            traceback.print_exc()
            os._exit(70)

    def follow(self):
        """Connect, send the results that have not come back, and apply records until the connection is lost."""
        address = "127.0.0.1", int(os.environ["LOG"])
        with socket.create_connection(address) as log, log.makefile("rb") as lines:
            log.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            log.sendall(b"%d\n" % self.fold.offset)
            end = int(lines.readline() or -1)
            self.log = log
            self.send(self.fold.pending.values())
            while True:
                if self.fold.offset >= end >= 0:
                    self.ready.set()
                line = lines.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionError("the log is gone")
                self.send(self.apply(json.loads(line)))
                if self.fold.offset >= self.saved + EVERY:
                    self.save()

    def apply(self, record):
        """Apply the next record. Returns the results that the fold concludes from it."""
        with self.lock:
            if client := self.waiting.pop(record.get("asker"), None):
                self.asked[self.fold.offset] = client
            return self.fold.apply(record)

    def save(self):
        """Write a snapshot: the state with its offset, and the results that have not come back."""
        state = {name: value for name, value in vars(self.fold).items() if name != "tell"}
        new = self.path.with_suffix(".new")
        new.write_bytes(pickle.dumps(state))
        new.replace(self.path)
        self.saved = self.fold.offset

    def send(self, records):
        """Send records to the log. Raises OSError: the log may have them or not."""
        if records:
            with self.sending:
                self.log.sendall(b"".join(json.dumps(record).encode() + b"\n" for record in records))

    def tell(self, at, status, answer):
        """Answer the client whose record has this offset, unless it asked an earlier process."""
        if client := self.asked.pop(at, None):
            client.set_result((answer, status))

    def ask(self, kind, **values):
        """Append a request to the log, and wait for the answer of the fold."""
        asker, client = uuid.uuid4().hex, Future()
        self.waiting[asker] = client
        try:
            self.send([{"kind": kind, "asker": asker, **values}])
            return client.result(timeout=LONGEST)
        except (OSError, TimeoutError):
            return {"error": "no answer; the request may still take effect"}, 503
        finally:
            self.waiting.pop(asker, None)

    def look(self, method, **values):
        """Answer a read."""
        try:
            with self.lock:
                return {**method(**values)}
        except Refused as refused:
            return {"error": str(refused)}, refused.status


def serve(name):
    return Service(name).app
