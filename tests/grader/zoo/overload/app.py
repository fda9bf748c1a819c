"""The one-process shop, but with more checkouts than places it answers 503, before its work or after, as it may."""

import itertools
import sys
import threading
import time

import shop
from web import serve

ROOM = threading.BoundedSemaphore(40)
WORK = 0.05
"""Seconds that a checkout takes of its place."""
BEYOND = itertools.count()


def reply(method, words):
    if words[:2] != ["orders", "checkout"]:
        return shop.reply(method, words)
    if ROOM.acquire(blocking=False):
        try:
            time.sleep(WORK)
            return shop.reply(method, words)
        finally:
            ROOM.release()
    if next(BEYOND) % 2:
        shop.reply(method, words)
    return 503, {"error": "overloaded; it may be done, or not"}


if __name__ == "__main__":
    shop.open_log(sys.argv[2])
    serve(sys.argv[1], reply)
