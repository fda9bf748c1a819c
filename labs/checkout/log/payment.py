"""Payment: users and their credit."""

from fold import Fold, Refused, existing


class Payment(Fold):
    WRITES = {
        "/create_user": "create_user",
        "/batch_init/<int:n>/<int:money>": "batch_users",
        "/add_funds/<user>/<int:amount>": "add_funds",
        "/pay/<user>/<int:amount>": "pay",
    }
    READS = {"/find_user/<user>": "find"}

    def __init__(self, *tell):
        super().__init__(*tell)
        self.credit = {}

    def find(self, user):
        return {"user_id": user, "credit": existing(self.credit, user)}

    def on_create_user(self, at):
        self.credit[f"user-{at}"] = 0
        return {"user_id": f"user-{at}"}

    def on_batch_users(self, at, n, money):
        self.credit.update({str(i): money for i in range(n)})
        return {"msg": f"{n} users"}

    def on_add_funds(self, at, user, amount):
        self.credit[user] = existing(self.credit, user) + amount
        return {}

    def on_pay(self, at, user, amount):
        if existing(self.credit, user) < amount:
            raise Refused(f"{user} has {self.credit[user]}, not {amount}")
        self.credit[user] -= amount
        return {}

    def on_taken(self, at, order, user, cost):
        """Charge the user, or decline. This record decides whether the order is paid."""
        if self.credit.get(user, -1) < cost:
            self.emit("declined", at, order=order)
            return
        self.credit[user] -= cost
        self.emit("charged", at, order=order)


FOLD = Payment
