"""The order service: orders, and checkouts as a saga over the two other services.

This service's rows alone decide whether an order is paid. Each checkout attempt has an id, which every request for
it carries: a repeated request has no further effect, and each can be undone. The service records an attempt before it
sends the first request. After a restart it undoes the attempts that were not finished.

Rows: "order ID" is {user, state, attempt, lines}, and a line is [item, quantity, price].
"""

import os
import random
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from queue import SimpleQueue

import requests
from flask import abort
from service import row, service
from store import ROWS, transaction
from werkzeug.exceptions import HTTPException

STOCK, PAYMENT = os.environ["STOCK"], os.environ["PAYMENT"]
OPEN, TRYING, PAID = "open", "trying", "paid"
BUSY, LOCK, LEFT = set(), threading.Lock(), SimpleQueue()
app = service("order")
here = threading.local()


class Away(Exception):
    """A service gave no answer: the request may have had its effect or not."""


def ask(method, url, body=None):
    """The answer of another service. Raises Away."""
    if not hasattr(here, "session"):
        here.session = requests.Session()
    try:
        answer = here.session.request(method, url, json=body, timeout=5)
    except requests.RequestException:
        raise Away(f"{url} does not answer") from None
    if answer.status_code >= 500:
        raise Away(f"{url} answered {answer.status_code}")
    return answer


@app.errorhandler(Away)
def is_away(away):
    return {"error": str(away)}, 503


def change(order, **values):
    """Replace values of an order. Returns the row."""
    with transaction() as rows:
        rows[f"order {order}"] = {**row(rows, "order", order), **values}
        return rows[f"order {order}"]


def new(user, lines=()):
    """The row of an order without a checkout."""
    return {"user": user, "state": OPEN, "attempt": "", "lines": list(lines)}


@app.post("/create/<user>")
def create(user):
    order = uuid.uuid4().hex
    with transaction() as rows:
        rows[f"order {order}"] = new(user)
    return {"order_id": order}


@app.post("/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>")
def batch_init(n, n_items, n_users, price):
    with transaction() as rows:
        for i in range(n):
            lines = [[str(random.randrange(n_items)), 1, price] for _ in range(2)]
            rows[f"order {i}"] = new(str(random.randrange(n_users)), lines)
    return {"msg": f"{n} orders"}


@app.get("/find/<order>")
def find(order):
    found = row(ROWS, "order", order)
    return {
        "order_id": order,
        "paid": found["state"] == PAID,
        "items": [[item, quantity] for item, quantity, _ in found["lines"]],
        "user_id": found["user"],
        "total_cost": sum(quantity * price for _, quantity, price in found["lines"]),
    }


@app.post("/addItem/<order>/<item>/<int:quantity>")
def add_item(order, item, quantity):
    row(ROWS, "order", order)
    found = ask("GET", f"{STOCK}/find/{item}")
    if not found.ok:
        abort(404, f"there is no item {item}")
    with transaction() as rows:
        before = row(rows, "order", order)
        if before["state"] != OPEN:
            abort(400, f"order {order} is {before['state']}")
        line = [item, quantity, found.json()["price"]]
        rows[f"order {order}"] = {**before, "lines": [*before["lines"], line]}
    return {}


@app.post("/checkout/<order>")
def checkout(order):
    """One attempt: record it, take, charge, and record that the order is paid; or undo, and record that."""
    with claimed(order):
        state = row(ROWS, "order", order)["state"]
        if state == PAID:
            return {}
        if state == TRYING:
            abort(409, "an earlier attempt is being undone")
        attempt = uuid.uuid4().hex
        found = change(order, state=TRYING, attempt=attempt)
        wanted = Counter()
        for item, quantity, _ in found["lines"]:
            wanted[item] += quantity
        cost = sum(quantity * price for _, quantity, price in found["lines"])
        try:
            refused = not (
                ask("POST", f"{STOCK}/take/{attempt}", wanted).ok
                and ask("POST", f"{PAYMENT}/charge/{attempt}/{found['user']}/{cost}").ok
            )
            if refused:
                undo(order)
        except Away as away:
            LEFT.put(order)
            abort(503, f"{away}; the attempt will be undone")
        if refused:
            abort(400, "out of stock, or out of credit")
        # The decision: once this is in the log the order is paid, whatever dies afterwards.
        change(order, state=PAID)
    return {}


@contextmanager
def claimed(order):
    """Gives one thread an order to work on: a request or the recovery. The others get 409."""
    with LOCK:
        if order in BUSY:
            abort(409, "a checkout of this order is in progress")
        BUSY.add(order)
    try:
        yield
    finally:
        with LOCK:
            BUSY.discard(order)


def undo(order):
    """Undo the current attempt, including requests that have not arrived yet. Raises Away."""
    attempt = row(ROWS, "order", order)["attempt"]
    for url in (f"{PAYMENT}/refund/{attempt}", f"{STOCK}/give_back/{attempt}"):
        if not ask("POST", url).ok:
            raise Away(f"{url} refuses")
    change(order, state=OPEN)


def undo_what_is_left():
    """Recovery, in a loop: undo attempts that were left because a process died or a service was down."""
    while True:
        order = LEFT.get()
        try:
            with claimed(order):
                if row(ROWS, "order", order)["state"] == TRYING:
                    undo(order)
        except (Away, HTTPException):  # a service is down, or a request works on the order
            LEFT.put(order)
            time.sleep(0.1)  # a service does not announce that it is back, so ask ten times a second


for key, found in ROWS.items():
    if found["state"] == TRYING:
        LEFT.put(key.removeprefix("order "))
threading.Thread(target=undo_what_is_left, daemon=True).start()
