"""The payment service: users, their credit, and the charge of each checkout attempt.

Rows: "user ID" is {credit}; "step ATTEMPT" is what an attempt has charged, [user, amount], or GIVEN_UP.
"""

import uuid

from flask import abort
from service import GIVEN_UP, row, service
from store import ROWS, transaction

app = service("payment")


def change(rows, user, amount):
    """Add to the credit of a user. Aborts if it would be below zero."""
    credit = row(rows, "user", user)["credit"]
    if credit + amount < 0:
        abort(400, f"user {user} has {credit}, not {-amount}")
    rows[f"user {user}"] = {"credit": credit + amount}


@app.post("/create_user")
def create():
    user = uuid.uuid4().hex
    with transaction() as rows:
        rows[f"user {user}"] = {"credit": 0}
    return {"user_id": user}


@app.post("/batch_init/<int:n>/<int:money>")
def batch_init(n, money):
    with transaction() as rows:
        rows.update({f"user {i}": {"credit": money} for i in range(n)})
    return {"msg": f"{n} users"}


@app.get("/find_user/<user>")
def find(user):
    return {"user_id": user, **row(ROWS, "user", user)}


@app.post("/add_funds/<user>/<int:amount>")
def add_funds(user, amount):
    with transaction() as rows:
        change(rows, user, amount)
    return {}


@app.post("/pay/<user>/<int:amount>")
def pay(user, amount):
    with transaction() as rows:
        change(rows, user, -amount)
    return {}


@app.post("/charge/<attempt>/<user>/<int:amount>")
def charge(attempt, user, amount):
    """Charge once for an attempt. A repeated request has no further effect; after a refund the request is refused."""
    with transaction() as rows:
        effect = rows.get(f"step {attempt}")
        if effect == GIVEN_UP:
            abort(409, "this attempt has been given up")
        if effect is None:
            change(rows, user, -amount)
            rows[f"step {attempt}"] = [user, amount]
    return {}


@app.post("/refund/<attempt>")
def refund(attempt):
    """Undo a charge. One that arrives later finds the attempt given up, and does nothing."""
    with transaction() as rows:
        effect = rows.get(f"step {attempt}", GIVEN_UP)
        if effect != GIVEN_UP:
            change(rows, *effect)
        rows[f"step {attempt}"] = GIVEN_UP
    return {}
