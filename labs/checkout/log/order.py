"""Orders, and the first and the last step of a checkout.

A checkout that can be paid has four records: `checkout` (a client), `wanted` (order), `taken` (stock) and `charged`
(payment). It may also end with `short` (stock) or `declined` (payment). Nothing has to be undone after a kill: a
service that starts again finds the last record of each checkout, and goes on.
"""

import random
from collections import Counter

from fold import Fold, Refused, existing

OPEN, TRYING, PAID = "open", "trying", "paid"


class Orders(Fold):
    WRITES = {
        "/create/<user>": "create_order",
        "/batch_init/<int:n>/<int:n_items>/<int:n_users>/<int:price>": "batch_orders",
        "/addItem/<order>/<item>/<int:quantity>": "add_line",
        "/checkout/<order>": "checkout",
    }
    READS = {"/find/<order>": "find"}

    def __init__(self, *tell):
        super().__init__(*tell)
        self.orders, self.prices = {}, {}

    def new(self, user, lines=()):
        """An order without a checkout. ``waiting`` has the offsets of the checkouts without an answer."""
        return {"user": user, "state": OPEN, "lines": list(lines), "waiting": []}

    def find(self, order):
        found = existing(self.orders, order)
        return {
            "order_id": order,
            "paid": found["state"] == PAID,
            "items": [[item, quantity] for item, quantity, _ in found["lines"]],
            "user_id": found["user"],
            "total_cost": sum(quantity * price for _, quantity, price in found["lines"]),
        }

    def on_create_order(self, at, user):
        self.orders[f"order-{at}"] = self.new(user)
        return {"order_id": f"order-{at}"}

    def on_batch_orders(self, at, n, n_items, n_users, price):
        draw = random.Random(at)  # a replay draws the same numbers
        for i in range(n):
            lines = [[str(draw.randrange(n_items)), 1, price] for _ in range(2)]
            self.orders[str(i)] = self.new(str(draw.randrange(n_users)), lines)
        return {"msg": f"{n} orders"}

    def on_create_item(self, at, price):
        """The order service does not ask for prices: it also reads the records of new items."""
        self.prices[f"item-{at}"] = price

    def on_batch_items(self, at, n, stock, price):
        self.prices.update({str(i): price for i in range(n)})

    def on_add_line(self, at, order, item, quantity):
        found, price = existing(self.orders, order), existing(self.prices, item)
        if found["state"] != OPEN:
            raise Refused(f"{order} is {found['state']}")
        found["lines"].append([item, quantity, price])
        return {}

    def on_checkout(self, at, order):
        """Start a checkout, unless there is one. The answer comes with its last record."""
        found = existing(self.orders, order)
        if found["state"] == PAID:
            return {}
        found["waiting"].append(at)
        if found["state"] == OPEN:
            found["state"] = TRYING
            items = Counter()
            for item, quantity, _ in found["lines"]:
                items[item] += quantity
            cost = sum(quantity * price for _, quantity, price in found["lines"])
            self.emit("wanted", at, order=order, items=items, user=found["user"], cost=cost)
        return None

    def on_charged(self, at, order):
        self.end(order, PAID, 200, {})

    def on_short(self, at, order):
        self.end(order, OPEN, 400, {"error": "out of stock"})

    def on_declined(self, at, order):
        self.end(order, OPEN, 400, {"error": "out of credit"})

    def end(self, order, state, status, answer):
        """Answer all who wait for this checkout."""
        found = self.orders[order]
        found["state"] = state
        waiting, found["waiting"] = found["waiting"], []
        for at in waiting:
            self.tell(at, status, answer)


FOLD = Orders
