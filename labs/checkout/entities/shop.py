"""Orders, stock and payment as three classes. Each request is a transaction: all of it happens, or nothing."""

from sharedstate_lite.entities import Program, Refused, entity, many, new, transactional


@entity
class Item:
    def __init__(self, item_id: str, price: int, stock: int = 0):
        self.item_id, self.price, self.stock = item_id, price, stock

    def __key__(self):
        return self.item_id

    def put(self, amount: int):
        self.stock += amount

    def take(self, amount: int):
        if self.stock < amount:
            raise Refused("out of stock")
        self.stock -= amount

    def find(self):
        return {"stock": self.stock, "price": self.price}


@entity
class User:
    def __init__(self, user_id: str, credit: int = 0):
        self.user_id, self.credit = user_id, credit

    def __key__(self):
        return self.user_id

    def fund(self, amount: int):
        self.credit += amount

    def pay(self, amount: int):
        if self.credit < amount:
            raise Refused("out of credit")
        self.credit -= amount

    def find(self):
        return {"user_id": self.user_id, "credit": self.credit}


@entity
class Order:
    user: User
    lines: list[tuple[Item, int, int]]

    def __init__(self, order_id: str, user: User, item: Item | None = None, price: int = 0):
        self.order_id, self.user, self.paid = order_id, user, False
        self.lines = [(item, 1, price)] if item else []

    def __key__(self):
        return self.order_id

    @transactional
    def add(self, item: Item, quantity: int):
        if self.paid:
            raise Refused("paid already")
        self.lines.append((item, quantity, item.price))

    def cost(self) -> int:
        return sum(quantity * price for item, quantity, price in self.lines)

    @transactional
    def checkout(self):
        if self.paid:
            return
        for item, quantity, _price in self.lines:
            item.take(quantity)
        self.user.pay(self.cost())
        self.paid = True

    def find(self):
        items = [[item.key, quantity] for item, quantity, price in self.lines]
        answer = {"order_id": self.order_id, "paid": self.paid, "items": items, "user_id": self.user.key}
        return answer | {"total_cost": self.cost()}


def order(i, n_items, n_users, price):
    return str(i), User[str(i % n_users)], Item[str(i % n_items)], price


shop = Program(
    Item,
    User,
    Order,
    routes={
        "POST /stock/item/create/{price:int}": new(Item, "item_id"),
        "POST /stock/add/{item}/{amount:int}": Item.put,
        "POST /stock/subtract/{item}/{amount:int}": Item.take,
        "GET /stock/find/{item}": Item.find,
        "POST /stock/batch_init/{n:int}/{stock:int}/{price:int}": many(
            "n", Item, lambda i, stock, price: (str(i), price, stock)
        ),
        "POST /payment/create_user": new(User, "user_id"),
        "POST /payment/add_funds/{user}/{amount:int}": User.fund,
        "POST /payment/pay/{user}/{amount:int}": User.pay,
        "GET /payment/find_user/{user}": User.find,
        "POST /payment/batch_init/{n:int}/{credit:int}": many("n", User, lambda i, credit: (str(i), credit)),
        "POST /orders/create/{user}": new(Order, "order_id"),
        "POST /orders/addItem/{order}/{item}/{quantity:int}": Order.add,
        "POST /orders/checkout/{order}": Order.checkout,
        "GET /orders/find/{order}": Order.find,
        "POST /orders/batch_init/{n:int}/{n_items:int}/{n_users:int}/{price:int}": many("n", Order, order),
    },
)
