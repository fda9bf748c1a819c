"""Orders in a database: made, filled and looked at; what a checkout is, is another file's matter."""

import json
import random
import sys
import threading
import uuid

from peer import Away, ask
from store import Store
from web import Refused

TABLES = """
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, usr TEXT NOT NULL, lines TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL
);
"""
STORE = Store(sys.argv[2], TABLES)
STOCK, PAYMENT = sys.argv[3:5]
LOCKS, MANY = {}, threading.Lock()


def lock_of(order):
    """One checkout of an order at a time."""
    with MANY:
        return LOCKS.setdefault(order, threading.Lock())


def look(db, order):
    """User, lines, state, attempt. Raises Refused."""
    row = db.execute("SELECT usr, lines, state, attempt FROM orders WHERE id = ?", (order,)).fetchone()
    if row is None:
        raise Refused("unknown")
    return row[0], json.loads(row[1]), row[2], row[3]


def wants(user, lines):
    """What stock is asked for, and payment."""
    units = {}
    for item, quantity, _ in lines:
        units[item] = units.get(item, 0) + quantity
    cost = sum(quantity * price for _, quantity, price in lines)
    return ",".join(f"{item}:{units[item]}" for item in sorted(units)), f"{user}:{cost}"


def mark(order, state, attempt):
    with STORE.transaction() as db:
        db.execute("UPDATE orders SET state = ?, attempt = ? WHERE id = ?", (state, attempt, order))


def create(user, count=1, items=0, users=0, price=0):
    """One order of a user, or batch_init's."""
    row = "INSERT OR REPLACE INTO orders VALUES (?, ?, ?, 'open', 0)"
    with STORE.transaction() as db:
        if user is not None:
            order = uuid.uuid4().hex
            db.execute(row, (order, user, "[]"))
            return {"order_id": order}
        for i in range(count):
            lines = [[str(random.randrange(items)), 1, price] for _ in range(2)]
            db.execute(row, (str(i), str(random.randrange(users)), json.dumps(lines)))
    return {"msg": "done"}


def answer(words):
    match words:
        case ["create", user]:
            return create(user)
        case ["addItem", order, item, quantity]:
            known, said = ask(STOCK, "GET", f"/find/{item}")
            if not known:
                raise Refused("unknown item")
            with STORE.transaction() as db:
                _, lines, state, _ = look(db, order)
                if state != "open":
                    raise Refused("it is being checked out")
                lines.append([item, int(quantity), said["price"]])
                db.execute("UPDATE orders SET lines = ? WHERE id = ?", (json.dumps(lines), order))
            return {}
        case ["find", order]:
            with STORE.transaction() as db:
                user, lines, state, _ = look(db, order)
            cost = sum(quantity * price for _, quantity, price in lines)
            items = [[item, quantity] for item, quantity, _ in lines]
            return {"order_id": order, "paid": state == "paid", "items": items, "user_id": user, "total_cost": cost}
        case ["batch_init", *numbers]:
            return create(None, *map(int, numbers))
    raise Refused("there is no such route")


def replying(checkout):
    """A reply for every route, with this checkout."""

    def reply(method, words):
        try:
            if words[0] == "checkout":
                with lock_of(words[1]):
                    return checkout(words[1])
            return 200, answer(words)
        except (Refused, ValueError) as error:
            return 400, {"error": str(error)}
        except Away as error:
            return 503, {"error": str(error)}

    return reply
