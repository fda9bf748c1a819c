"""Orders are created, filled and read here, and the coordinator checks them out.

    python3 order.py PORT FOLDER STOCK_PORT PAYMENT_PORT

A second checkout of an order that is in an epoch waits for the same fate. An item keeps its price, so the order service
asks stock for the price of an item only once.
"""

import os
import sys
from functools import partial

from coordinator import STOCK, Coordinator
from journal import Journal
from loop import Loop
from wire import AWAY, BATCH_DONE, DONE, MANY, REFUSED, Client, amount_in, answer

CHECKOUT = b"POST /checkout/"


class Order:
    __slots__ = ("cost", "lines", "paid", "user")

    def __init__(self, user):
        self.user, self.paid, self.cost = user, False, 0
        self.lines = []
        """[item, quantity, item, quantity, ...], which is what the order wants of stock."""

    def add(self, item, quantity, price):
        self.lines += [item, quantity]
        self.cost += quantity * price


class Orders:
    def __init__(self, loop, folder, ports):
        self.orders, self.prices, self.starts, self.last = {}, {}, 0, (0, "")
        self.waiting, self.asked = {}, {}
        """The clients that wait for each order's fate, and the lines that wait for each item's price."""
        self.journal = Journal(loop, folder, self.apply)
        self.apply("start")
        self.journal.write(["start"])
        self.journal.flush()  # before the first epoch has a number
        self.coordinator = Coordinator(loop, ports, self, self.starts)

    def apply(self, what, *values):
        """Apply a record of the log."""
        if what == "fate":
            number, fate, paid = values
            self.last = number, fate
            for name in paid:
                self.orders[name].paid = True
        elif what == "order":
            name, user = values
            self.orders[name] = Order(user)
        elif what == "line":
            name, *line = values
            self.orders[name].add(*line)
        elif what == "many":
            count, items, users, price = values
            for number in range(count):
                order = self.orders[str(number)] = Order(str(number % users))
                order.add(str(number % items), 1, price)
        elif what == "start":
            self.starts += 1

    # The coordinator calls these five.

    def wants(self, name):
        """What an order wants of each ledger, as [id, amount, ...]."""
        order = self.orders[name]
        return order.lines, (order.user, order.cost)

    def log(self, number, fate, paid, then):
        """Write the fate of an epoch to the log. On the disk, it takes effect."""

        def durable():
            self.apply("fate", number, fate, paid)
            then()

        self.journal.write(["fate", number, fate, paid], durable)

    def settled(self, names, paid):
        """Answer those who wait for these orders."""
        for name in names:
            for client in self.waiting.pop(name):
                client.answer(DONE if paid else REFUSED)

    def told(self, message):
        """Stock answers with the price of an item, or None."""
        _, item, price = message
        if price is not None:
            self.prices[item] = price
        for client, name, quantity in self.asked.pop(item):
            if price is None:
                client.answer(REFUSED)
            else:
                self.add_line(client, name, item, quantity)

    def lost(self, ledger):
        """Stock has ended, and will not answer."""
        if ledger == STOCK:
            asked, self.asked = self.asked, {}
            for lines in asked.values():
                for client, *_ in lines:
                    client.answer(AWAY)

    # Clients ask for these.

    def serve(self, client, request):
        """Handle a request of a client."""
        try:
            if request.startswith(CHECKOUT):
                self.check_out(client, request[len(CHECKOUT) :].decode())
            else:
                self.route(client, request.decode().split("/"))
        except (KeyError, ValueError):  # an unknown id, or not a number
            client.answer(REFUSED)

    def route(self, client, words):
        match words:
            case "GET ", "find", name:
                order = self.orders[name]
                items = list(zip(order.lines[::2], order.lines[1::2], strict=True))
                found = {"order_id": name, "paid": order.paid, "items": items}
                found |= {"user_id": order.user, "total_cost": order.cost}
                self.journal.then(partial(client.answer, answer(200, found)))
            case "POST ", "create", user:
                name = os.urandom(8).hex()
                self.change(client, answer(200, {"order_id": name}), "order", name, user)
            case "POST ", "addItem", name, item, quantity:
                self.add_line(client, name, item, amount_in(quantity))
            case "POST ", "batch_init", *numbers:
                count, items, users, price = map(amount_in, numbers)
                if not items or not users or count > MANY:
                    raise ValueError("orders need items and users")
                self.change(client, BATCH_DONE, "many", count, items, users, price)
            case _:
                client.answer(REFUSED)

    def check_out(self, client, name):
        order = self.orders[name]
        if name in self.waiting:
            self.waiting[name].append(client)
        elif order.paid:
            client.answer(DONE)
        else:
            self.waiting[name] = [client]
            self.coordinator.gather(name)

    def add_line(self, client, name, item, quantity):
        """Add a line to an order, now or when its price is known."""
        if self.orders[name].paid or name in self.waiting:
            client.answer(REFUSED)
        elif item in self.prices:
            self.change(client, DONE, "line", name, item, quantity, self.prices[item])
        elif item in self.asked:
            self.asked[item].append((client, name, quantity))
        elif self.coordinator.tell(STOCK, "price", item):
            self.asked[item] = [(client, name, quantity)]
        else:
            client.answer(AWAY)

    def change(self, client, done, *record):
        """Apply a record, and answer once it is on the disk."""
        self.apply(*record)
        self.journal.write(record, partial(client.answer, done))


if __name__ == "__main__":
    loop = Loop()
    orders = Orders(loop, sys.argv[2], (int(sys.argv[3]), int(sys.argv[4])))
    loop.listen(int(sys.argv[1]), lambda sock: Client(loop, sock, orders.serve))
    loop.run()
