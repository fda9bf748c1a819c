"""A right system over one PostgreSQL: each request is one transaction; rows are locked in one order, so none deadlocks.

    DATABASE_PORT=... python3 app.py PORT

Whatever the database did not confirm is answered 503: the commit may have happened. So is the first request on each
connection of the pool that a kill of the database has broken.
"""

import json
import os
import queue
import sys
import uuid

import psycopg
from web import Refused, serve

TABLES = """
CREATE TABLE IF NOT EXISTS users (id text PRIMARY KEY, credit bigint NOT NULL CHECK (credit >= 0));
CREATE TABLE IF NOT EXISTS items (id text PRIMARY KEY, stock bigint NOT NULL CHECK (stock >= 0), price bigint NOT NULL);
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, usr text NOT NULL, paid boolean NOT NULL, lines jsonb NOT NULL);
"""
POOL, CONNECTIONS = queue.SimpleQueue(), 120


def connect():
    return psycopg.connect(
        f"host=127.0.0.1 port={os.environ['DATABASE_PORT']} user=shop dbname=postgres", autocommit=False
    )


def one(db, query, *values):
    row = db.execute(query, values).fetchone()
    if row is None:
        raise Refused("unknown")
    return row


def checkout(db, order):
    user, paid, lines = one(db, "SELECT usr, paid, lines FROM orders WHERE id = %s FOR UPDATE", order)
    if paid:
        return {}
    wanted = {}
    for item, quantity, _ in lines:
        wanted[item] = wanted.get(item, 0) + quantity
    for item in sorted(wanted):
        one(db, "UPDATE items SET stock = stock - %s WHERE id = %s RETURNING stock", wanted[item], item)
    cost = sum(quantity * price for _, quantity, price in lines)
    one(db, "UPDATE users SET credit = credit - %s WHERE id = %s RETURNING credit", cost, user)
    db.execute("UPDATE orders SET paid = true WHERE id = %s", (order,))
    return {}


def answer(db, method, words):
    match method, *words:
        case "POST", "orders", "checkout", order:
            return checkout(db, order)
        case "POST", "orders", "create", user:
            one(db, "SELECT 1 FROM users WHERE id = %s", user)
            order = uuid.uuid4().hex
            db.execute("INSERT INTO orders VALUES (%s, %s, false, '[]')", (order, user))
            return {"order_id": order}
        case "POST", "orders", "addItem", order, item, quantity:
            (price,) = one(db, "SELECT price FROM items WHERE id = %s", item)
            line = json.dumps([[item, int(quantity), price]])
            one(db, "UPDATE orders SET lines = lines || %s::jsonb WHERE id = %s RETURNING 1", line, order)
            return {}
        case "GET", "orders", "find", order:
            user, paid, lines = one(db, "SELECT usr, paid, lines FROM orders WHERE id = %s", order)
            items = [[item, quantity] for item, quantity, _ in lines]
            cost = sum(quantity * price for _, quantity, price in lines)
            return {"order_id": order, "paid": paid, "items": items, "user_id": user, "total_cost": cost}
        case "POST", "stock", "item", "create", price:
            item = uuid.uuid4().hex
            db.execute("INSERT INTO items VALUES (%s, 0, %s)", (item, int(price)))
            return {"item_id": item}
        case "GET", "stock", "find", item:
            stock, price = one(db, "SELECT stock, price FROM items WHERE id = %s", item)
            return {"stock": stock, "price": price}
        case "POST", "stock", "add" | "subtract" as what, item, amount:
            more = int(amount) if what == "add" else -int(amount)
            one(db, "UPDATE items SET stock = stock + %s WHERE id = %s RETURNING 1", more, item)
            return {}
        case "POST", "payment", "create_user":
            user = uuid.uuid4().hex
            db.execute("INSERT INTO users VALUES (%s, 0)", (user,))
            return {"user_id": user}
        case "GET", "payment", "find_user", user:
            return {"user_id": user, "credit": one(db, "SELECT credit FROM users WHERE id = %s", user)[0]}
        case "POST", "payment", "add_funds" | "pay" as what, user, amount:
            more = int(amount) if what == "add_funds" else -int(amount)
            one(db, "UPDATE users SET credit = credit + %s WHERE id = %s RETURNING 1", more, user)
            return {}
        case "POST", "payment", "batch_init", n, money:
            made = "INSERT INTO users SELECT i, %s FROM generate_series(0, %s) i ON CONFLICT DO NOTHING"
            db.execute(made, (int(money), int(n) - 1))
            return {"msg": "done"}
        case "POST", "stock", "batch_init", n, stock, price:
            made = "INSERT INTO items SELECT i, %s, %s FROM generate_series(0, %s) i ON CONFLICT DO NOTHING"
            db.execute(made, (int(stock), int(price), int(n) - 1))
            return {"msg": "done"}
        case "POST", "orders", "batch_init", n, n_items, n_users, price:
            for i in range(int(n)):
                lines = json.dumps([[str(i % int(n_items)), 1, int(price)]])
                row = (str(i), str(i % int(n_users)), lines)
                db.execute("INSERT INTO orders VALUES (%s, %s, false, %s) ON CONFLICT DO NOTHING", row)
            return {"msg": "done"}
    raise Refused("there is no such route")


def reply(method, words):
    """Status and body: one transaction, on a connection that is thrown away when anything went wrong with it."""
    try:
        db = POOL.get_nowait()
    except queue.Empty:
        db = None
    try:
        db = db or connect()
        try:
            body = answer(db, method, words)
            db.commit()
            status = 200
        except (Refused, ValueError, psycopg.errors.CheckViolation) as error:
            db.rollback()
            status, body = 400, {"error": str(error)}
        POOL.put(db)
        return status, body
    except psycopg.Error as error:
        if db is not None:
            db.close()
        return 503, {"error": str(error)}


if __name__ == "__main__":
    with connect() as first:
        first.execute(TABLES)
    for _ in range(CONNECTIONS):
        POOL.put(connect())
    serve(sys.argv[1], reply)
