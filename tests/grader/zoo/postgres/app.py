"""A right system over one PostgreSQL: each request is one transaction; rows are locked in one order, so none deadlocks.

    python3 app.py PORT DATABASE_PORT

Whatever the database did not confirm is answered 503: the commit may have happened.
"""

import json
import queue
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS users (id text PRIMARY KEY, credit bigint NOT NULL CHECK (credit >= 0));
CREATE TABLE IF NOT EXISTS items (id text PRIMARY KEY, stock bigint NOT NULL CHECK (stock >= 0), price bigint NOT NULL);
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, usr text NOT NULL, paid boolean NOT NULL, lines jsonb NOT NULL);
"""
POOL = queue.SimpleQueue()


class Refused(Exception):
    """4xx, without effect."""


def connect():
    return psycopg.connect(f"host=127.0.0.1 port={sys.argv[2]} user=shop dbname=postgres", autocommit=False)


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


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        self.do("GET")

    def do_POST(self):
        self.do("POST")

    def do(self, method):
        words = self.path.strip("/").split("/")
        status, body = (200, {}) if words == ["health"] else reply(method, words)
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


if __name__ == "__main__":
    with connect() as first:
        first.execute(TABLES)
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
