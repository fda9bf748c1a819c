"""What stock and payment have in common: balances that are never negative, and the assignment's routes to them."""

import sys
import uuid

from web import Refused

TABLES = """
CREATE TABLE IF NOT EXISTS balances (id TEXT PRIMARY KEY, amount INTEGER NOT NULL, price INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS steps (id TEXT PRIMARY KEY, state TEXT NOT NULL, wants TEXT NOT NULL, at REAL NOT NULL);
"""
STOCK = sys.argv[1] == "stock"


def change(db, name, amount):
    """Raises Refused where there is no such thing, or not enough."""
    row = db.execute("UPDATE balances SET amount = amount + ? WHERE id = ? RETURNING amount", (amount, name)).fetchone()
    if row is None or row[0] < 0:
        raise Refused("unknown, or not enough")


def change_all(db, wants, sign):
    """Of NAME:AMOUNT,NAME:AMOUNT."""
    for want in filter(None, wants.split(",")):
        name, amount = want.split(":")
        change(db, name, sign * int(amount))


def answer(db, words):
    match words:
        case ["find" | "find_user", name]:
            row = db.execute("SELECT amount, price FROM balances WHERE id = ?", (name,)).fetchone()
            if row is None:
                raise Refused("unknown")
            return {"stock": row[0], "price": row[1]} if STOCK else {"user_id": name, "credit": row[0]}
        case ["item", "create", _] | ["create_user"]:
            name = uuid.uuid4().hex
            db.execute("INSERT INTO balances VALUES (?, 0, ?)", (name, int(words[2]) if STOCK else 0))
            return {"item_id" if STOCK else "user_id": name}
        case ["add" | "add_funds", name, amount]:
            change(db, name, int(amount))
            return {}
        case ["subtract" | "pay", name, amount]:
            change(db, name, -int(amount))
            return {}
        case ["batch_init", n, amount, *price]:
            rows = [(str(i), int(amount), int(price[0]) if price else 0) for i in range(int(n))]
            db.executemany("INSERT OR REPLACE INTO balances VALUES (?, ?, ?)", rows)
            return {"msg": "done"}
    raise Refused("there is no such route")
