"""A right system in one process: every effect is one line of a log, written before the answer; a start replays it.

    python3 shop.py PORT FOLDER

One lock, so that a checkout is one step. os.write reaches the kernel: what it wrote survives kill -9.
"""

import json
import os
import sys
import threading
from pathlib import Path

from web import Refused, serve

LOCK = threading.Lock()
LOG: list[int] = []
USERS: dict[str, int] = {}
ITEMS: dict[str, list[int]] = {}
ORDERS: dict[str, dict] = {}
FRESH: set[str] = set()
PENDING: list[bytes] = []


def apply(change):
    """One line of the log: set what it names."""
    for user, credit in change.get("users", {}).items():
        USERS[user] = credit
    for item, stock_price in change.get("items", {}).items():
        ITEMS[item] = stock_price
    for order, value in change.get("orders", {}).items():
        ORDERS[order] = value


def commit(log, change):
    """Durable first, then visible."""
    line = json.dumps(change).encode() + b"\n"
    os.write(log, line)
    apply(change)


def look(table, key):
    if key not in table:
        raise Refused(f"{key} is unknown")
    return table[key]


def checkout(log, order_id):
    order = look(ORDERS, order_id)
    if order["paid"]:
        return {}
    credit = look(USERS, order["user"]) - sum(quantity * price for _, quantity, price in order["items"])
    items = {}
    for item, quantity, _ in order["items"]:
        stock, price = items.get(item) or look(ITEMS, item)
        items[item] = [stock - quantity, price]
        if stock < quantity:
            raise Refused("out of stock")
    if credit < 0:
        raise Refused("out of credit")
    commit(log, {"users": {order["user"]: credit}, "items": items, "orders": {order_id: {**order, "paid": True}}})
    return {}


def fresh(table):
    return f"{len(table):x}-{os.urandom(4).hex()}"


def answer(log, method, words):
    """What a request asks for. Raises Refused."""
    match method, *words:
        case "POST", "orders", "checkout", order:
            return checkout(log, order)
        case "POST", "orders", "create", user:
            look(USERS, user)
            order = fresh(ORDERS)
            commit(log, {"orders": {order: {"user": user, "paid": False, "items": []}}})
            return {"order_id": order}
        case "POST", "orders", "addItem", order, item, quantity:
            value, (_, price) = look(ORDERS, order), look(ITEMS, item)
            commit(log, {"orders": {order: {**value, "items": [*value["items"], [item, int(quantity), price]]}}})
            return {}
        case "GET", "orders", "find", order:
            value = look(ORDERS, order)
            total = sum(quantity * price for _, quantity, price in value["items"])
            items = [[item, quantity] for item, quantity, _ in value["items"]]
            return {
                "order_id": order,
                "paid": value["paid"],
                "items": items,
                "user_id": value["user"],
                "total_cost": total,
            }
        case "POST", "stock", "item", "create", price:
            item = fresh(ITEMS)
            commit(log, {"items": {item: [0, int(price)]}})
            return {"item_id": item}
        case "GET", "stock", "find", item:
            stock, price = look(ITEMS, item)
            return {"stock": stock, "price": price}
        case "POST", "stock", "add" | "subtract" as what, item, amount:
            stock, price = look(ITEMS, item)
            stock += int(amount) if what == "add" else -int(amount)
            if stock < 0:
                raise Refused("out of stock")
            commit(log, {"items": {item: [stock, price]}})
            return {}
        case "POST", "payment", "create_user":
            user = fresh(USERS)
            commit(log, {"users": {user: 0}})
            return {"user_id": user}
        case "GET", "payment", "find_user", user:
            return {"user_id": user, "credit": look(USERS, user)}
        case "POST", "payment", "add_funds" | "pay" as what, user, amount:
            credit = look(USERS, user) + (int(amount) if what == "add_funds" else -int(amount))
            if credit < 0:
                raise Refused("out of credit")
            commit(log, {"users": {user: credit}})
            return {}
        case "POST", "payment", "batch_init", n, money:
            commit(log, {"users": {str(i): int(money) for i in range(int(n))}})
            return {"msg": "done"}
        case "POST", "stock", "batch_init", n, stock, price:
            commit(log, {"items": {str(i): [int(stock), int(price)] for i in range(int(n))}})
            return {"msg": "done"}
        case "POST", "orders", "batch_init", n, n_items, n_users, price:
            pick = [os.urandom(4) for _ in range(int(n))]
            orders = {}
            for i, dice in enumerate(pick):
                user, *two = (int.from_bytes(dice[:2]) % int(n_users), dice[2] % int(n_items), dice[3] % int(n_items))
                items = [[str(item), 1, int(price)] for item in two]
                orders[str(i)] = {"user": str(user), "paid": False, "items": items}
            commit(log, {"orders": orders})
            return {"msg": "done"}
    raise Refused("there is no such route")


def reply(method, words):
    """Status and body."""
    try:
        with LOCK:
            return 200, answer(LOG[0], method, words)
    except (Refused, ValueError) as error:
        return 400, {"error": str(error)}


def open_log(folder):
    """Replay what is there, without a line that was cut off, and go on behind it."""
    path = Path(folder) / "log"
    if path.exists():
        whole, end, torn = path.read_bytes().rpartition(b"\n")
        for line in whole.splitlines():
            apply(json.loads(line))
        if torn:
            os.truncate(path, len(whole) + len(end))
    LOG.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))


if __name__ == "__main__":
    open_log(sys.argv[2])
    serve(sys.argv[1], reply)
