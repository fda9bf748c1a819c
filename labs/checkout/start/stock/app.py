"""The stock service: items, their prices and quantities."""

import uuid

from flask import abort
from service import connection, service, transaction

app = service(
    "stock",
    "CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, price INTEGER NOT NULL, stock INTEGER NOT NULL)",
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
