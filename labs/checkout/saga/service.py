"""What the three services share: a Flask application with a SQLite database of its own.

The file is named by the variable DATABASE. What a transaction has committed is with the kernel, and
so survives the death of the process.
"""

import os
import sqlite3
import threading
from contextlib import contextmanager

from flask import Flask

_here = threading.local()


def connection():
    """This thread's connection."""
    if not hasattr(_here, "db"):
        _here.db = sqlite3.connect(os.environ["DATABASE"], timeout=10, isolation_level=None)
        _here.db.execute("PRAGMA synchronous = NORMAL")
    return _here.db


@contextmanager
def transaction():
    """Everything within happens, or nothing does; whoever else writes waits."""
    db = connection()
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


STEPS = "CREATE TABLE IF NOT EXISTS steps (id TEXT PRIMARY KEY, effect TEXT NOT NULL);"
"""What was done for each attempt at a checkout. An empty effect is a step that is undone, or may never be done."""


def done(db, attempt):
    """The effect of a step, "" if it is undone for good, None if nothing is known of it."""
    row = db.execute("SELECT effect FROM steps WHERE id = ?", (attempt,)).fetchone()
    return None if row is None else row[0]


def service(name, tables):
    """The application, its tables made."""
    app = Flask(name)
    db = connection()
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(tables)

    @app.get("/health")
    def health():
        return {}

    return app
