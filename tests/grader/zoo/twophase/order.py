"""Orders, and the coordinator of a two-phase commit: it tells each fate once, and answers who asks for it later.

    python3 order.py PORT FOLDER STOCK_PORT PAYMENT_PORT

An attempt is decided by the order's state alone: paid by it, or not (presumed abort; Mohan, Lindsay and Obermarck).
"""

import contextlib
import sys

from orders import PAYMENT, STOCK, STORE, lock_of, look, mark, replying, wants
from peer import Away, ask
from web import Refused, serve


def checkout(order):
    with STORE.transaction() as db:
        user, lines, state, attempt = look(db, order)
    if state == "paid":
        return 200, {}
    attempt += 1
    mark(order, "open", attempt)
    step, votes = f"{order}.{attempt}", []
    for port, want in zip((STOCK, PAYMENT), wants(user, lines), strict=True):
        try:
            votes.append(ask(port, "POST", f"/hold/{step}/{want}")[0])
        except Away:
            votes.append(None)
    fate = "yes" if all(votes) else "no"
    if fate == "yes":
        mark(order, "paid", attempt)
    for port in (STOCK, PAYMENT):
        with contextlib.suppress(Away):  # it asks by itself
            ask(port, "POST", f"/settle/{step}/{fate}")
    if None in votes:
        return 503, {"error": "a participant is away"}
    return (200 if fate == "yes" else 400), {}


def fate_of(step):
    """Known once no checkout of the order is under way."""
    order, _, number = step.rpartition(".")
    with lock_of(order), STORE.transaction() as db:
        _, _, state, attempt = look(db, order)
    return "yes" if state == "paid" and attempt == int(number) else "no"


OTHERS = replying(checkout)


def reply(method, words):
    try:
        return (200, {"fate": fate_of(words[1])}) if words[0] == "fate" else OTHERS(method, words)
    except Refused:
        return 200, {"fate": "no"}


if __name__ == "__main__":
    serve(sys.argv[1], reply)
