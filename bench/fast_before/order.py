"""Orders: made, filled, looked at here, and checked out by the coordinator.

    python3 order.py PORT FOLDER STOCK_PORT PAYMENT_PORT

A checkout of an order that is being checked out waits for the same outcome.
"""

import asyncio
import functools
import os
import sys

from coordinator import LEDGERS, Coordinator
from http1 import AWAY, DONE, REFUSED, Connection, listen, message
from journal import Journal

ORDERS = {}
"""Id to [user, the epoch that paid it or 0, lines [item, quantity, price]]."""
STARTS = []


def replay(record):
    match record:
        case ["start"]:
            STARTS.append(record)
        case "order", name, user, lines:
            ORDERS[name] = [user, 0, lines]
        case "line", name, *line:
            ORDERS[name][2].append(line)
        case "many", count, users, items, price:
            for number in range(count):
                ORDERS[str(number)] = [str(number % users), 0, [[str(number % items), 1, price]]]
        case "paid", epoch, names:
            pay(epoch, names)


def pay(epoch, names):
    for name in names:
        ORDERS[name][1] = epoch


def total(lines):
    return sum(quantity * price for _, quantity, price in lines)


def wanted(order):
    """Of stock, and of payment."""
    user, _, lines = ORDERS[order]
    units = {}
    for item, quantity, _ in lines:
        units[item] = units.get(item, 0) + quantity
    return list(units.items()), [(user, total(lines))]


class Orders:
    def __init__(self, folder, ports):
        self.journal = Journal(folder, replay)
        self.waiting, self.prices, self.asked = {}, {}, {}
        self.coordinator = Coordinator(
            ports, len(STARTS) + 1, wanted, self.log, lambda order: ORDERS[order][1], self.over
        )
        self.journal.write(["start"], lambda: None)
        self.journal.flush()  # before the first epoch: two lives never use one number
        self.coordinator.answers["price"] = self.priced
        self.coordinator.parted.append(self.parted)

    def log(self, epoch, orders, then):
        def durable():
            pay(epoch, orders)
            then()

        self.journal.write(["paid", epoch, orders], durable)

    def over(self, orders):
        for order in orders:
            raw = DONE if ORDERS[order][1] else REFUSED
            for connection in self.waiting.pop(order):
                connection.answer(raw)

    def check_out(self, connection, order):
        if ORDERS[order][1] and order not in self.waiting:
            connection.answer(DONE)
        elif order in self.waiting:
            self.waiting[order].append(connection)
        else:
            self.waiting[order] = [connection]
            self.coordinator.gather(order)

    def add_line(self, connection, order, item, quantity):
        price = self.prices.get(item)
        if price is not None:
            ORDERS[order][2].append([item, quantity, price])
            self.journal.write(["line", order, item, quantity, price], functools.partial(connection.answer, DONE))
        elif item in self.asked:
            self.asked[item].append((connection, order, quantity))
        elif self.coordinator.links[0].transport is None:
            connection.answer(AWAY)
        else:
            self.asked[item] = [(connection, order, quantity)]
            self.coordinator.links[0].send("price", item)

    def priced(self, item, price):
        if price is not None:
            self.prices[item] = price
        for connection, order, quantity in self.asked.pop(item):
            if price is None:
                connection.answer(REFUSED)
            else:
                self.add_line(connection, order, item, quantity)

    def parted(self, side):
        """Nobody will say these prices any more."""
        asked, self.asked = ({}, self.asked) if side else (self.asked, {})
        for waiting in asked.values():
            for connection, *_ in waiting:
                connection.answer(AWAY)

    def serve(self, connection, method, path):
        try:
            if path.startswith(b"/checkout/"):
                return self.check_out(connection, path[10:].decode())
            match path[1:].split(b"/"):
                case b"find", name:
                    user, paid, lines = ORDERS[name.decode()]
                    items = [[item, quantity] for item, quantity, _ in lines]
                    said = {"order_id": name.decode(), "user_id": user, "paid": paid > 0}
                    connection.answer(message(200, {**said, "items": items, "total_cost": total(lines)}))
                case b"create", user:
                    name, user = os.urandom(8).hex(), user.decode()
                    ORDERS[name] = [user, 0, []]
                    said = message(200, {"order_id": name})
                    self.journal.write(["order", name, user, []], functools.partial(connection.answer, said))
                case b"addItem", name, item, quantity:
                    order = name.decode()
                    if ORDERS[order][1] or order in self.waiting:
                        return connection.answer(REFUSED)
                    self.add_line(connection, order, item.decode(), int(quantity))
                case b"batch_init", *numbers:
                    count, items, users, price = map(int, numbers)
                    record = ["many", count, users, items, price]
                    replay(record)
                    said = message(200, {"msg": "done"})
                    self.journal.write(record, functools.partial(connection.answer, said))
                case _:
                    connection.answer(REFUSED)
        except (KeyError, ValueError):
            connection.answer(REFUSED)


async def main():
    orders = Orders(sys.argv[2], (int(sys.argv[3]), int(sys.argv[4])))
    keepers = (orders.coordinator.keep(side) for side in LEDGERS)
    await listen(sys.argv[1], lambda: Connection(orders.serve), *keepers)


if __name__ == "__main__":
    asyncio.run(main())
