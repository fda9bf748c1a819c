"""Orders, stock and payment with one PostgreSQL: a checkout is one transaction, so it is all or nothing.

A checkout locks rows in a fixed order (the order, its items by id, the user), so two checkouts never deadlock.
If the database does not confirm a commit, the answer is 503, which promises nothing: the commit may have happened.
"""

import random
import uuid
from collections import Counter

import psycopg
from database import make_tables, transaction
from flask import Flask, abort

app = Flask("shop")
make_tables()


@app.errorhandler(psycopg.errors.CheckViolation)
def would_go_below_zero(error):
    return {"error": f"not enough: {error.diag.constraint_name}"}, 400


@app.errorhandler(psycopg.Error)
def not_confirmed(error):
    return {"error": f"the database did not confirm: {error}"}, 503


@app.get("/health")
def health():
    return {}


def one(db, query, *values):
    """The row that a query returns. Aborts with 404 if there is none."""
    row = db.execute(query, values).fetchone()
    if row is None:
        abort(404, "unknown")
    return row


STOCK = "UPDATE items SET stock = stock + %s WHERE id = %s RETURNING 1"
CREDIT = "UPDATE users SET credit = credit + %s WHERE id = %s RETURNING 1"


def change(balance, amount, owner):
    """Add to a stock or a credit. The database refuses a result below zero."""
    with transaction() as db:
        one(db, balance, amount, owner)
    return {}


@app.post("/orders/checkout/<order>")
def checkout(order):
    with transaction() as db:
        user, paid = one(db, "SELECT usr, paid FROM orders WHERE id = %s FOR UPDATE", order)
        if paid:
            return {}
        wanted, cost = Counter(), 0
        for item, quantity, price in db.execute("SELECT item, quantity, price FROM lines WHERE id = %s", (order,)):
            wanted[item] += quantity
            cost += quantity * price
        for item in sorted(wanted):
            one(db, STOCK, -wanted[item], item)
        one(db, CREDIT, -cost, user)
        db.execute("UPDATE orders SET paid = true WHERE id = %s", (order,))
    return {}


@app.post("/orders/create/<user>")
def create_order(user):
    order = uuid.uuid4().hex
    with transaction() as db:
        one(db, "SELECT 1 FROM users WHERE id = %s", user)
        db.execute("INSERT INTO orders VALUES (%s, %s, false)", (order, user))
    return {"order_id": order}


@app.post("/orders/addItem/<order>/<item>/<int:quantity>")
def add_item(order, item, quantity):
    with transaction() as db:
        one(db, "SELECT 1 FROM orders WHERE id = %s FOR UPDATE", order)
        (price,) = one(db, "SELECT price FROM items WHERE id = %s", item)
        row = "INSERT INTO lines (id, item, quantity, price) VALUES (%s, %s, %s, %s)"
        db.execute(row, (order, item, quantity, price))
    return {}


@app.get("/orders/find/<order>")
def find_order(order):
    with transaction() as db:
        user, paid = one(db, "SELECT usr, paid FROM orders WHERE id = %s", order)
        lines = db.execute("SELECT item, quantity, price FROM lines WHERE id = %s ORDER BY number", (order,)).fetchall()
    cost = sum(quantity * price for _, quantity, price in lines)
    items = [[item, quantity] for item, quantity, _ in lines]
    return {"order_id": order, "paid": paid, "items": items, "user_id": user, "total_cost": cost}


@app.post("/orders/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>")
def batch_orders(n, n_items, n_users, price):
    users = ((str(i), str(random.randrange(n_users))) for i in range(n))
    lines = ((str(i), str(random.randrange(n_items)), price) for i in range(n) for _ in range(2))
    made = "INSERT INTO orders VALUES (%s, %s, false) ON CONFLICT (id) DO UPDATE SET usr = EXCLUDED.usr, paid = false"
    with transaction() as db, db.cursor() as cursor:
        cursor.executemany(made, users)
        cursor.execute("DELETE FROM lines WHERE id = ANY(%s)", ([str(i) for i in range(n)],))
        cursor.executemany("INSERT INTO lines (id, item, quantity, price) VALUES (%s, %s, 1, %s)", lines)
    return {"msg": f"{n} orders"}


@app.post("/stock/item/create/<int:price>")
def create_item(price):
    item = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO items VALUES (%s, %s, 0)", (item, price))
    return {"item_id": item}


@app.get("/stock/find/<item>")
def find_item(item):
    with transaction() as db:
        stock, price = one(db, "SELECT stock, price FROM items WHERE id = %s", item)
    return {"stock": stock, "price": price}


@app.post("/stock/add/<item>/<int:amount>")
def add_stock(item, amount):
    return change(STOCK, amount, item)


@app.post("/stock/subtract/<item>/<int:amount>")
def subtract(item, amount):
    return change(STOCK, -amount, item)


@app.post("/stock/batch_init/<int:n>/<int:stock>/<int:price>")
def batch_items(n, stock, price):
    new = "INSERT INTO items SELECT i, %s, %s FROM generate_series(0, %s) i "
    again = "ON CONFLICT (id) DO UPDATE SET price = EXCLUDED.price, stock = EXCLUDED.stock"
    with transaction() as db:
        db.execute(new + again, (price, stock, n - 1))
    return {"msg": f"{n} items"}


@app.post("/payment/create_user")
def create_user():
    user = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO users VALUES (%s, 0)", (user,))
    return {"user_id": user}


@app.get("/payment/find_user/<user>")
def find_user(user):
    with transaction() as db:
        return {"user_id": user, "credit": one(db, "SELECT credit FROM users WHERE id = %s", user)[0]}


@app.post("/payment/add_funds/<user>/<int:amount>")
def add_funds(user, amount):
    return change(CREDIT, amount, user)


@app.post("/payment/pay/<user>/<int:amount>")
def pay(user, amount):
    return change(CREDIT, -amount, user)


@app.post("/payment/batch_init/<int:n>/<int:money>")
def batch_users(n, money):
    new = "INSERT INTO users SELECT i, %s FROM generate_series(0, %s) i "
    with transaction() as db:
        db.execute(new + "ON CONFLICT (id) DO UPDATE SET credit = EXCLUDED.credit", (money, n - 1))
    return {"msg": f"{n} users"}
