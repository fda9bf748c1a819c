"""The stock service: items, their prices and quantities, and the items taken by each checkout attempt."""

import json
import uuid

from flask import abort, request
from service import STEPS, connection, done, service, transaction

app = service(
    "stock",
    "CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, price INTEGER NOT NULL, stock INTEGER NOT NULL);" + STEPS,
)


@app.post("/item/create/<int:price>")
def create(price):
    item = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO items VALUES (?, ?, 0)", (item, price))
    return {"item_id": item}


@app.post("/batch_init/<int:n>/<int:stock>/<int:price>")
def batch_init(n, stock, price):
    with transaction() as db:
        db.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", ((str(i), price, stock) for i in range(n)))
    return {"msg": f"{n} items"}


@app.get("/find/<item>")
def find(item):
    row = connection().execute("SELECT stock, price FROM items WHERE id = ?", (item,)).fetchone()
    if row is None:
        abort(404, f"there is no item {item}")
    return {"stock": row[0], "price": row[1]}


@app.post("/add/<item>/<int:amount>")
def add(item, amount):
    with transaction() as db:
        if not db.execute("UPDATE items SET stock = stock + ? WHERE id = ?", (amount, item)).rowcount:
            abort(404, f"there is no item {item}")
    return {}


@app.post("/subtract/<item>/<int:amount>")
def subtract(item, amount):
    with transaction() as db:
        row = db.execute("SELECT stock FROM items WHERE id = ?", (item,)).fetchone()
        if row is None:
            abort(404, f"there is no item {item}")
        if row[0] < amount:
            abort(400, f"item {item} has {row[0]} in stock, not {amount}")
        db.execute("UPDATE items SET stock = stock - ? WHERE id = ?", (amount, item))
    return {}


@app.post("/take/<attempt>")
def take(attempt):
    """Take all items of an order, {item: quantity}, or none.

    A repeated request has no further effect; after give_back the request is refused.
    """
    wanted = request.get_json()
    with transaction() as db:
        effect = done(db, attempt)
        if effect == "":
            abort(409, "this attempt has been given up")
        if effect is None:
            for item, quantity in wanted.items():
                made = "UPDATE items SET stock = stock - ? WHERE id = ? AND stock >= ?"
                if not db.execute(made, (quantity, item, quantity)).rowcount:
                    abort(400, f"item {item} is out of stock")
            db.execute("INSERT INTO steps VALUES (?, ?)", (attempt, json.dumps(wanted)))
    return {}


@app.post("/give_back/<attempt>")
def give_back(attempt):
    """Undo a take. One that arrives later finds the attempt given up, and does nothing."""
    with transaction() as db:
        for item, quantity in json.loads(done(db, attempt) or "{}").items():
            db.execute("UPDATE items SET stock = stock + ? WHERE id = ?", (quantity, item))
        db.execute("INSERT OR REPLACE INTO steps VALUES (?, '')", (attempt,))
    return {}
