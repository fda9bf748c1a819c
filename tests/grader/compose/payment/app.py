"""The payment service: users and their credit in PostgreSQL."""

import os
import threading
import uuid

import psycopg
from flask import Flask, abort, jsonify

app = Flask(__name__)
local = threading.local()


def run(sql, *values):
    """Run one statement in a transaction of its own, on this thread's connection. Returns the rows."""
    for attempt in range(2):
        if getattr(local, "db", None) is None or local.db.closed:
            local.db = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        try:
            done = local.db.execute(sql, values)
            return done.fetchall() if done.description else []
        except psycopg.OperationalError:
            local.db.close()
            if attempt or not sql.startswith("SELECT"):
                raise  # a change may have been made


@app.post("/create_user")
def create():
    user = str(uuid.uuid4())
    run("INSERT INTO users VALUES (%s, 0)", user)
    return jsonify(user_id=user)


@app.post("/batch_init/<int:n>/<int:credit>")
def batch(n, credit):
    run(
        "INSERT INTO users SELECT g::text, %s FROM generate_series(0, %s) g "
        "ON CONFLICT (id) DO UPDATE SET credit = EXCLUDED.credit",
        *(credit, n - 1),
    )
    return jsonify(msg="Batch init for users successful")


@app.get("/find_user/<user>")
def find(user):
    rows = run("SELECT credit FROM users WHERE id = %s", user)
    return jsonify(user_id=user, credit=rows[0][0]) if rows else abort(400, "unknown user")


@app.post("/add_funds/<user>/<int:amount>")
def add(user, amount):
    rows = run("UPDATE users SET credit = credit + %s WHERE id = %s RETURNING credit", amount, user)
    return jsonify(credit=rows[0][0]) if rows else abort(400, "unknown user")


@app.post("/pay/<user>/<int:amount>")
def pay(user, amount):
    rows = run(
        "UPDATE users SET credit = credit - %s WHERE id = %s AND credit >= %s RETURNING credit", amount, user, amount
    )
    return jsonify(credit=rows[0][0]) if rows else abort(400, "unknown user or not enough credit")
