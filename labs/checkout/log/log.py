"""The log: one process with one file. All changes of all services are its lines, in one order.

    python3 log.py PORT FILE

The offset of a line is its number, from 0. A service connects and sends an offset. The log answers with the number of
its lines, and then sends all lines from this offset on, and each new one. Each line that it receives is appended.

A line has been handed to the kernel before anybody can read it, so it survives the death of the process.
"""

import os
import sys
import threading
import traceback
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer


class Log:
    def __init__(self, path):
        """Read the file. A kill can tear the last line. No client has read that line, so it is removed."""
        self.file = open(path, "ab+")
        self.file.seek(0)
        self.lines = self.file.readlines()
        if self.lines and not self.lines[-1].endswith(b"\n"):
            self.file.truncate(self.file.tell() - len(self.lines.pop()))
        self.changed = threading.Condition()

    def append(self, line):
        """Write a line, then show it to readers. If that fails, the process ends: file and memory may differ."""
        with self.changed:
            try:
                self.file.write(line)
                self.file.flush()
            except OSError:
                traceback.print_exc()
                os._exit(70)
            self.lines.append(line)
            self.changed.notify_all()

    def read(self, offset):
        """All lines from this offset on. Waits until there is one."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.lines) > offset)
            return self.lines[offset:]


class Reader(StreamRequestHandler):
    """The connection of a service."""

    disable_nagle_algorithm = True

    def handle(self):
        offset = self.rfile.readline()
        if not offset.endswith(b"\n"):
            return  # it only wanted to know whether the log accepts connections
        self.wfile.write(b"%d\n" % len(self.server.log.lines))
        threading.Thread(target=self.send, args=[int(offset)], daemon=True).start()
        with suppress(ConnectionError):  # the service is gone; a kill can tear its last line
            for line in self.rfile:
                if line.endswith(b"\n"):
                    self.server.log.append(line)

    def send(self, offset):
        with suppress(OSError):
            while True:
                lines = self.server.log.read(offset)
                self.wfile.write(b"".join(lines))
                offset += len(lines)


class Server(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1])), Reader)
    server.log = Log(sys.argv[2])
    server.serve_forever()
