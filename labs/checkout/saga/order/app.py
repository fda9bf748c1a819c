"""The order service: orders, and checkouts as a saga over the two other services.

This service's database alone decides whether an order is paid. Each checkout attempt has an id, which every request for
it carries: a repeated request has no further effect, and each can be undone. The service records an attempt before it
sends the first request. After a restart it undoes the attempts that were not finished.
"""

import os
import random
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager

import requests
from flask import abort
from service import connection, service, transaction
from werkzeug.exceptions import HTTPException

STOCK, PAYMENT = os.environ["STOCK"], os.environ["PAYMENT"]
app = service(
    "order",
    """
    CREATE TABLE IF NOT EXISTS orders (
        id TEXT PRIMARY KEY, user TEXT NOT NULL, state TEXT NOT NULL, attempt TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS orders_under_way ON orders (state) WHERE state = 'trying';
    CREATE TABLE IF NOT EXISTS lines (
        id TEXT NOT NULL, item TEXT NOT NULL, quantity INTEGER NOT NULL, price INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS lines_of_order ON lines (id);
    """,
)
OPEN, TRYING, PAID = "open", "trying", "paid"
BUSY, LOCK, LEFT = set(), threading.Lock(), threading.Event()
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


def order_of(order):
    """The user, the state, and the lines (item, quantity, price) of an order."""
    row = connection().execute("SELECT user, state FROM orders WHERE id = ?", (order,)).fetchone()
    if row is None:
        abort(404, f"there is no order {order}")
    lines = connection().execute("SELECT item, quantity, price FROM lines WHERE id = ? ORDER BY rowid", (order,))
    return *row, lines.fetchall()


@app.post("/create/<user>")
def create(user):
    order = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO orders VALUES (?, ?, ?, '')", (order, user, OPEN))
    return {"order_id": order}


@app.post("/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>")
def batch_init(n, n_items, n_users, price):
    with transaction() as db:
        for i in range(n):
            row = (str(i), str(random.randrange(n_users)), OPEN)
            db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, '')", row)
            db.execute("DELETE FROM lines WHERE id = ?", (str(i),))
            for item in (random.randrange(n_items), random.randrange(n_items)):
                db.execute("INSERT INTO lines VALUES (?, ?, 1, ?)", (str(i), str(item), price))
    return {"msg": f"{n} orders"}


@app.get("/find/<order>")
def find(order):
    user, state, lines = order_of(order)
    return {
        "order_id": order,
        "paid": state == PAID,
        "items": [[item, quantity] for item, quantity, _ in lines],
        "user_id": user,
        "total_cost": sum(quantity * price for _, quantity, price in lines),
    }


@app.post("/addItem/<order>/<item>/<int:quantity>")
def add_item(order, item, quantity):
    order_of(order)
    found = ask("GET", f"{STOCK}/find/{item}")
    if not found.ok:
        abort(404, f"there is no item {item}")
    with transaction() as db:
        db.execute("INSERT INTO lines VALUES (?, ?, ?, ?)", (order, item, quantity, found.json()["price"]))
    return {}


@app.post("/checkout/<order>")
def checkout(order):
    """One attempt: record it, take, charge, and record that the order is paid; or undo, and record that."""
    with claimed(order):
        user, state, lines = order_of(order)
        if state == PAID:
            return {}
        if state == TRYING:
            abort(409, "an earlier attempt is being undone")
        with transaction() as db:
            attempt = uuid.uuid4().hex
            db.execute("UPDATE orders SET state = ?, attempt = ? WHERE id = ?", (TRYING, attempt, order))
        wanted = Counter()
        for item, quantity, _ in lines:
            wanted[item] += quantity
        cost = sum(quantity * price for _, quantity, price in lines)
        try:
            refused = not (
                ask("POST", f"{STOCK}/take/{attempt}", wanted).ok
                and ask("POST", f"{PAYMENT}/charge/{attempt}/{user}/{cost}").ok
            )
            if refused:
                undo(order)
        except Away as away:
            LEFT.set()
            abort(503, f"{away}; the attempt will be undone")
        if refused:
            abort(400, "out of stock, or out of credit")
        # The decision: once this is committed the order is paid, whatever dies afterwards.
        with transaction() as db:
            db.execute("UPDATE orders SET state = ? WHERE id = ?", (PAID, order))
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
    (attempt,) = connection().execute("SELECT attempt FROM orders WHERE id = ?", (order,)).fetchone()
    for url in (f"{PAYMENT}/refund/{attempt}", f"{STOCK}/give_back/{attempt}"):
        if not ask("POST", url).ok:
            raise Away(f"{url} refuses")
    with transaction() as db:
        db.execute("UPDATE orders SET state = ? WHERE id = ?", (OPEN, order))


def undo_what_is_left():
    """Recovery, in a loop: undo attempts that were left because a process died or a service was down."""
    while True:
        left = connection().execute("SELECT id FROM orders WHERE state = ?", (TRYING,)).fetchall()
        for (order,) in left:
            try:
                with claimed(order):
                    if order_of(order)[1] == TRYING:
                        undo(order)
            except (Away, HTTPException):
                LEFT.set()  # a service is down, or a request works on the order
        if not left:
            LEFT.clear()
        LEFT.wait(timeout=1.0)
        time.sleep(0.1)  # a service does not announce that it is back, so ask ten times a second


threading.Thread(target=undo_what_is_left, daemon=True).start()
