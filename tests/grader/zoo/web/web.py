"""HTTP/1.1 with a thread a connection, for the systems that are not about HTTP.

``serve(port, reply)`` answers for ever; reply(method, words of the path) gives a status and what the body says.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Refused(Exception):
    """4xx, without effect."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        self.do("GET")

    def do_POST(self):
        self.do("POST")

    def do(self, method):
        words = self.path.strip("/").split("/")
        status, body = (200, {}) if words == ["health"] else self.server.reply(method, words)
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def serve(port, reply, handler=Handler):
    server = Server(("127.0.0.1", int(port)), handler)
    server.reply = reply
    server.serve_forever()
