"""Asking another service, over a connection a thread; whatever is no 2xx and no 4xx is Away: it may have been done."""

import http.client
import json
import threading

LINES = threading.local()


class Away(Exception):
    """Nobody can say."""


def ask(port, method, path):
    """Whether it was done, and what the answer says. Raises Away."""
    lines = LINES.__dict__
    line = lines.pop(port, None) or http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
    try:
        line.request(method, path)
        answer = line.getresponse()
        body = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        line.close()
        raise Away(str(error)) from error
    lines[port] = line
    if answer.status >= 500:
        raise Away(str(answer.status))
    return answer.status < 300, body
