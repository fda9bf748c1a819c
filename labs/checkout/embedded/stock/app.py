"""The stock service: items, their prices and quantities, and the items taken by each checkout attempt.

Rows: "item ID" is {price, stock}; "step ATTEMPT" is what an attempt has taken, {item: quantity}, or GIVEN_UP.
"""

import uuid

from flask import abort, request
from service import GIVEN_UP, row, service
from store import ROWS, transaction

app = service("stock")


def change(rows, item, amount):
    """Add to the stock of an item. Aborts if it would be below zero."""
    found = row(rows, "item", item)
    if found["stock"] + amount < 0:
        abort(400, f"item {item} has {found['stock']} in stock, not {-amount}")
    rows[f"item {item}"] = {**found, "stock": found["stock"] + amount}


@app.post("/item/create/<int:price>")
def create(price):
    item = uuid.uuid4().hex
    with transaction() as rows:
        rows[f"item {item}"] = {"price": price, "stock": 0}
    return {"item_id": item}


@app.post("/batch_init/<int:n>/<int:stock>/<int:price>")
def batch_init(n, stock, price):
    with transaction() as rows:
        rows.update({f"item {i}": {"price": price, "stock": stock} for i in range(n)})
    return {"msg": f"{n} items"}


@app.get("/find/<item>")
def find(item):
    return row(ROWS, "item", item)


@app.post("/add/<item>/<int:amount>")
def add(item, amount):
    with transaction() as rows:
        change(rows, item, amount)
    return {}


@app.post("/subtract/<item>/<int:amount>")
def subtract(item, amount):
    with transaction() as rows:
        change(rows, item, -amount)
    return {}


@app.post("/take/<attempt>")
def take(attempt):
    """Take all items of an order, {item: quantity}, or none.

    A repeated request has no further effect; after give_back the request is refused.
    """
    wanted = request.get_json()
    with transaction() as rows:
        effect = rows.get(f"step {attempt}")
        if effect == GIVEN_UP:
            abort(409, "this attempt has been given up")
        if effect is None:
            for item, quantity in wanted.items():
                change(rows, item, -quantity)
            rows[f"step {attempt}"] = wanted
    return {}


@app.post("/give_back/<attempt>")
def give_back(attempt):
    """Undo a take. One that arrives later finds the attempt given up, and does nothing."""
    with transaction() as rows:
        effect = rows.get(f"step {attempt}", GIVEN_UP)
        if effect != GIVEN_UP:
            for item, quantity in effect.items():
                change(rows, item, quantity)
        rows[f"step {attempt}"] = GIVEN_UP
    return {}
