"""The order service: orders in PostgreSQL. It asks the other services through the gateway, as their clients do."""

import json
import os
import random
import threading
import uuid

import psycopg
import requests
from flask import Flask, abort, jsonify

app = Flask(__name__)
local = threading.local()
GATEWAY = os.environ["GATEWAY_URL"]


def run(sql, *values):
    """Run one statement in a transaction of its own, on this thread's connection. Returns the rows."""
    for attempt in range(2):
        if getattr(local, "db", None) is None or local.db.closed:
            local.db = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        try:
            done = local.db.execute(sql, values)
            return done.fetchall() if done.description else []
        except psycopg.OperationalError:
            local.db.close()
            if attempt or not sql.startswith("SELECT"):
                raise  # a change may have been made


def ask(method, path):
    """Ask another service. A refusal is None; no answer at all ends the request with 503."""
    try:
        answer = requests.request(method, f"{GATEWAY}{path}", timeout=8)
    except requests.RequestException:
        abort(503, "a service does not answer")
    if answer.status_code >= 500:
        abort(503, "a service does not answer")
    return answer.json() if answer.ok else None


@app.post("/create/<user>")
def create(user):
    order = str(uuid.uuid4())
    run("INSERT INTO orders (id, user_id) VALUES (%s, %s)", order, user)
    return jsonify(order_id=order)


@app.post("/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>")
def batch(n, n_items, n_users, price):
    for order in range(n):
        items = [[str(random.randrange(n_items)), 1] for _ in range(2)]
        run(
            "INSERT INTO orders VALUES (%s, %s, FALSE, %s, %s) ON CONFLICT (id) DO UPDATE SET user_id = "
            "EXCLUDED.user_id, paid = FALSE, items = EXCLUDED.items, total = EXCLUDED.total",
            *(str(order), str(random.randrange(n_users)), json.dumps(items), 2 * price),
        )
    return jsonify(msg="Batch init for orders successful")


@app.get("/find/<order>")
def find(order):
    rows = run("SELECT user_id, paid, items, total FROM orders WHERE id = %s", order)
    if not rows:
        abort(400, "unknown order")
    user, paid, items, total = rows[0]
    return jsonify(order_id=order, paid=paid, items=items, user_id=user, total_cost=total)


@app.post("/addItem/<order>/<item>/<int:quantity>")
def add(order, item, quantity):
    found = ask("GET", f"/stock/find/{item}")
    if found is None:
        abort(400, "unknown item")
    rows = run(
        "UPDATE orders SET items = items || %s::jsonb, total = total + %s WHERE id = %s RETURNING total",
        *(json.dumps([[item, quantity]]), quantity * found["price"], order),
    )
    return jsonify(total_cost=rows[0][0]) if rows else abort(400, "unknown order")


@app.post("/checkout/<order>")
def checkout(order):
    """Take the stock, charge the user, set paid: three steps that a kill can separate."""
    rows = run("SELECT user_id, paid, items, total FROM orders WHERE id = %s", order)
    if not rows:
        abort(400, "unknown order")
    user, paid, items, total = rows[0]
    if paid:
        return jsonify(msg="already paid")
    taken = []
    for item, quantity in items:
        if ask("POST", f"/stock/subtract/{item}/{quantity}") is None:
            give_back(taken)
            abort(400, "out of stock")
        taken.append((item, quantity))
    if ask("POST", f"/payment/pay/{user}/{total}") is None:
        give_back(taken)
        abort(400, "out of credit")
    run("UPDATE orders SET paid = TRUE WHERE id = %s", order)
    return jsonify(msg="paid")


def give_back(taken):
    for item, quantity in taken:
        ask("POST", f"/stock/add/{item}/{quantity}")
