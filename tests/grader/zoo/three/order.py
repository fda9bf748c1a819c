"""Orders, and a saga for each checkout: stock, then payment; what payment refuses is given back.

    python3 order.py PORT FOLDER STOCK_PORT PAYMENT_PORT

The saga's beginning is in the database, its steps have names, so it is gone through again from the start wherever it
was cut off (Garcia-Molina and Salem, "Sagas"). Its last word is the order's state. A paid order is refused.
"""

import os
import sys
import threading
import time

from orders import PAYMENT, STOCK, STORE, lock_of, look, mark, replying, wants
from peer import Away, ask
from web import Refused, serve

AGAIN = float(os.environ.get("AGAIN", "0.1"))
"""Seconds between two looks for sagas that were cut off."""


def checkout(order):
    with STORE.transaction() as db:
        _, _, state, attempt = look(db, order)
    if state == "paid":
        raise Refused("it is paid already")
    if state == "open":
        attempt += 1
        mark(order, "busy", attempt)
    return finish(order, attempt)


def finish(order, attempt):
    """From the start of the saga, whatever was done of it before. Raises Away."""
    with STORE.transaction() as db:
        user, lines, _, _ = look(db, order)
    step = f"{order}.{attempt}"
    items, money = wants(user, lines)
    if not ask(STOCK, "POST", f"/take/{step}/{items}")[0]:
        mark(order, "open", attempt)
        return 400, {"error": "out of stock"}
    if not ask(PAYMENT, "POST", f"/take/{step}/{money}")[0]:
        ask(STOCK, "POST", f"/give_back/{step}")
        mark(order, "open", attempt)
        return 400, {"error": "out of credit"}
    mark(order, "paid", attempt)
    return 200, {}


def finish_what_was_cut_off():
    while True:
        time.sleep(AGAIN)  # a service that is back announces nothing
        with STORE.transaction() as db:
            busy = db.execute("SELECT id FROM orders WHERE state = 'busy'").fetchall()
        for (order,) in busy:
            with lock_of(order):
                with STORE.transaction() as db:
                    _, _, state, attempt = look(db, order)
                try:
                    if state == "busy":
                        finish(order, attempt)
                except Away:
                    break


if __name__ == "__main__":
    threading.Thread(target=finish_what_was_cut_off, daemon=True).start()
    serve(sys.argv[1], replying(checkout))
