"""The one-process shop, but under overload it answers 503, before its work or after it: a 5xx promises nothing."""

import itertools
import sys
import threading

import shop
from web import serve

ROOM = threading.BoundedSemaphore(48)
BEYOND = itertools.count()


def reply(method, words):
    if ROOM.acquire(blocking=False):
        try:
            return shop.reply(method, words)
        finally:
            ROOM.release()
    if next(BEYOND) % 2:
        shop.reply(method, words)
    return 503, {"error": "overloaded; it may be done, or not"}


if __name__ == "__main__":
    shop.open_log(sys.argv[2])
    serve(sys.argv[1], reply)
