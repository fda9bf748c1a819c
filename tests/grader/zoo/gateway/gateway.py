"""A front before the one-process shop: it answers 201 in chunks, and 503 for whatever it cannot know.

python3 gateway.py PORT SHOP_PORT
"""

import http.client
import json
import sys
import threading

from web import Handler, serve

LINES = threading.local()


def ask(port, method, path):
    """Status and body from the shop, over this thread's connection. Raises OSError or HTTPException."""
    line = getattr(LINES, "one", None) or http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    LINES.one = None
    line.request(method, path)
    answer = line.getresponse()
    body = answer.read()
    LINES.one = line
    return answer.status, body


class Front(Handler):
    def do(self, method):
        if self.path == "/health":
            return self.say(200, b"{}")
        try:
            status, body = ask(int(sys.argv[2]), method, self.path.removeprefix("/api"))
        except (OSError, http.client.HTTPException):
            return self.say(503, b'{"error": "the shop is away"}')
        if status == 200 and "/orders/find/" in self.path:
            order = json.loads(body)
            order["items"] = [{"item_id": item, "quantity": quantity} for item, quantity in order["items"]]
            body = json.dumps(order).encode()
        self.say(201 if (status, method) == (200, "POST") else status, body)

    def say(self, status, body):
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in filter(None, (body[:7], body[7:])):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    serve(sys.argv[1], None, Front)
