"""Stock: items, their prices and quantities, and what each checkout has taken."""

from fold import Fold, Refused, existing


class Stock(Fold):
    WRITES = {
        "/item/create/<int:price>": "create_item",
        "/batch_init/<int:n>/<int:stock>/<int:price>": "batch_items",
        "/add/<item>/<int:amount>": "add_stock",
        "/subtract/<item>/<int:amount>": "subtract_stock",
    }
    READS = {"/find/<item>": "find"}

    def __init__(self, *tell):
        super().__init__(*tell)
        self.items, self.taken = {}, {}

    def find(self, item):
        return existing(self.items, item)

    def on_create_item(self, at, price):
        self.items[f"item-{at}"] = {"price": price, "stock": 0}
        return {"item_id": f"item-{at}"}

    def on_batch_items(self, at, n, stock, price):
        self.items.update({str(i): {"price": price, "stock": stock} for i in range(n)})
        return {"msg": f"{n} items"}

    def on_add_stock(self, at, item, amount):
        existing(self.items, item)["stock"] += amount
        return {}

    def on_subtract_stock(self, at, item, amount):
        found = existing(self.items, item)
        if found["stock"] < amount:
            raise Refused(f"{item} has {found['stock']} in stock, not {amount}")
        found["stock"] -= amount
        return {}

    def on_wanted(self, at, order, items, **bill):
        """Take all items of a checkout, or none."""
        if any(item not in self.items or self.items[item]["stock"] < items[item] for item in items):
            self.emit("short", at, order=order)
            return
        for item, quantity in items.items():
            self.items[item]["stock"] -= quantity
        self.taken[at] = items
        self.emit("taken", at, order=order, **bill)

    def on_declined(self, at, order):
        """Give back what a checkout has taken."""
        for item, quantity in self.taken[at].items():
            self.items[item]["stock"] += quantity


FOLD = Stock
