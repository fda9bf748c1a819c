"""The order service: orders, and checkouts, which call the two other services.

The assignment starts here. Each service is correct by itself. A checkout spans all three, and no code makes it
all or nothing.
"""

import os
import random
import threading
import uuid

import requests
from flask import abort
from service import connection, service, transaction

STOCK, PAYMENT = os.environ["STOCK"], os.environ["PAYMENT"]
app = service(
    "order",
    """
    CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, user TEXT NOT NULL, paid INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS lines (
        id TEXT NOT NULL, item TEXT NOT NULL, quantity INTEGER NOT NULL, price INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS lines_of_order ON lines (id);
    """,
)
here = threading.local()


def ask(method, url):
    """The answer of another service. Aborts with 503 if there is none: the request may have had its effect or not."""
    if not hasattr(here, "session"):
        here.session = requests.Session()
    try:
        answer = here.session.request(method, url, timeout=5)
    except requests.RequestException:
        abort(503, f"{url} does not answer")
    if answer.status_code >= 500:
        abort(503, f"{url} answered {answer.status_code}")
    return answer


def order_of(order):
    """The user, whether the order is paid, and its lines (item, quantity, price)."""
    row = connection().execute("SELECT user, paid FROM orders WHERE id = ?", (order,)).fetchone()
    if row is None:
        abort(404, f"there is no order {order}")
    lines = connection().execute("SELECT item, quantity, price FROM lines WHERE id = ? ORDER BY rowid", (order,))
    return row[0], bool(row[1]), lines.fetchall()


@app.post("/create/<user>")
def create(user):
    order = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO orders VALUES (?, ?, 0)", (order, user))
    return {"order_id": order}


@app.post("/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>")
def batch_init(n, n_items, n_users, price):
    with transaction() as db:
        for i in range(n):
            db.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, 0)", (str(i), str(random.randrange(n_users))))
            db.execute("DELETE FROM lines WHERE id = ?", (str(i),))
            for item in (random.randrange(n_items), random.randrange(n_items)):
                db.execute("INSERT INTO lines VALUES (?, ?, 1, ?)", (str(i), str(item), price))
    return {"msg": f"{n} orders"}


@app.get("/find/<order>")
def find(order):
    user, paid, lines = order_of(order)
    return {
        "order_id": order,
        "paid": paid,
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
    user, paid, lines = order_of(order)
    if paid:
        return {}
    taken = []
    for item, quantity, _ in lines:
        if not ask("POST", f"{STOCK}/subtract/{item}/{quantity}").ok:
            give_back(taken)
            abort(400, f"item {item} is out of stock")
        taken.append((item, quantity))
    cost = sum(quantity * price for _, quantity, price in lines)
    if not ask("POST", f"{PAYMENT}/pay/{user}/{cost}").ok:
        give_back(taken)
        abort(400, f"user {user} is out of credit")
    with transaction() as db:
        db.execute("UPDATE orders SET paid = 1 WHERE id = ?", (order,))
    return {}


def give_back(taken):
    """Return the items that were taken for a refused order."""
    for item, quantity in taken:
        ask("POST", f"{STOCK}/add/{item}/{quantity}")
