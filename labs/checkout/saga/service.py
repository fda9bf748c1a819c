"""Shared by the three services: a Flask application with its own SQLite database.

The variable DATABASE names the file. A committed transaction has been handed to the kernel, so it survives the death of
the process.
"""

import os
import sqlite3
import threading
from contextlib import contextmanager

from flask import Flask

_here = threading.local()


def connection():
    """The connection of this thread."""
    if not hasattr(_here, "db"):
        _here.db = sqlite3.connect(os.environ["DATABASE"], timeout=10, isolation_level=None)
        _here.db.execute("PRAGMA synchronous = NORMAL")
    return _here.db


@contextmanager
def transaction():
    """Commits all statements of the block, or none. Other writers wait."""
    db = connection()
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


STEPS = "CREATE TABLE IF NOT EXISTS steps (id TEXT PRIMARY KEY, effect TEXT NOT NULL);"
"""The effect of each checkout attempt. An empty effect: the step was undone, and must never happen again."""


def done(db, attempt):
    """The effect of a step, "" if it was undone, None if it is unknown."""
    row = db.execute("SELECT effect FROM steps WHERE id = ?", (attempt,)).fetchone()
    return None if row is None else row[0]


def service(name, tables):
    """Creates the tables, and returns the application."""
    app = Flask(name)
    db = connection()
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(tables)

    @app.get("/health")
    def health():
        return {}

    return app
