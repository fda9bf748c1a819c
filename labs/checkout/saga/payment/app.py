"""The payment service: users, their credit, and the charge of each checkout attempt."""

import json
import uuid

from flask import abort
from service import STEPS, connection, done, service, transaction

app = service("payment", "CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, credit INTEGER NOT NULL);" + STEPS)


@app.post("/create_user")
def create():
    user = uuid.uuid4().hex
    with transaction() as db:
        db.execute("INSERT INTO users VALUES (?, 0)", (user,))
    return {"user_id": user}


@app.post("/batch_init/<int:n>/<int:money>")
def batch_init(n, money):
    with transaction() as db:
        db.executemany("INSERT OR REPLACE INTO users VALUES (?, ?)", ((str(i), money) for i in range(n)))
    return {"msg": f"{n} users"}


@app.get("/find_user/<user>")
def find(user):
    row = connection().execute("SELECT credit FROM users WHERE id = ?", (user,)).fetchone()
    if row is None:
        abort(404, f"there is no user {user}")
    return {"user_id": user, "credit": row[0]}


@app.post("/add_funds/<user>/<int:amount>")
def add_funds(user, amount):
    with transaction() as db:
        if not db.execute("UPDATE users SET credit = credit + ? WHERE id = ?", (amount, user)).rowcount:
            abort(404, f"there is no user {user}")
    return {}


@app.post("/pay/<user>/<int:amount>")
def pay(user, amount):
    with transaction() as db:
        row = db.execute("SELECT credit FROM users WHERE id = ?", (user,)).fetchone()
        if row is None:
            abort(404, f"there is no user {user}")
        if row[0] < amount:
            abort(400, f"user {user} has {row[0]}, not {amount}")
        db.execute("UPDATE users SET credit = credit - ? WHERE id = ?", (amount, user))
    return {}


@app.post("/charge/<attempt>/<user>/<int:amount>")
def charge(attempt, user, amount):
    """Charge once for an attempt. A repeated request has no further effect; after a refund the request is refused."""
    with transaction() as db:
        effect = done(db, attempt)
        if effect == "":
            abort(409, "this attempt has been given up")
        if effect is None:
            made = "UPDATE users SET credit = credit - ? WHERE id = ? AND credit >= ?"
            if not db.execute(made, (amount, user, amount)).rowcount:
                abort(400, f"user {user} is out of credit")
            db.execute("INSERT INTO steps VALUES (?, ?)", (attempt, json.dumps([user, amount])))
    return {}


@app.post("/refund/<attempt>")
def refund(attempt):
    """Undo a charge. One that arrives later finds the attempt given up, and does nothing."""
    with transaction() as db:
        if effect := done(db, attempt):
            user, amount = json.loads(effect)
            db.execute("UPDATE users SET credit = credit + ? WHERE id = ?", (amount, user))
        db.execute("INSERT OR REPLACE INTO steps VALUES (?, '')", (attempt,))
    return {}
