"""The one-process shop, but slow: a checkout and a batch_init wait before and after, and every answer closes its
connection."""

import sys
import time

import shop
from web import Handler, serve

SECONDS = 0.25


def reply(method, words):
    slow = words[:2] == ["orders", "checkout"] or "batch_init" in words
    time.sleep(SECONDS * slow)
    said = shop.reply(method, words)
    time.sleep(SECONDS * slow)
    return said


class Closing(Handler):
    def end_headers(self):
        self.send_header("Connection", "close")
        super().end_headers()


if __name__ == "__main__":
    shop.open_log(sys.argv[2])
    serve(sys.argv[1], reply, Closing)
