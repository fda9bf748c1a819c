"""One transaction per request, on a connection per thread that is replaced after an error."""

import os
import threading
from contextlib import contextmanager

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS users (id text PRIMARY KEY, credit bigint NOT NULL CHECK (credit >= 0));
CREATE TABLE IF NOT EXISTS items (id text PRIMARY KEY, price bigint NOT NULL, stock bigint NOT NULL CHECK (stock >= 0));
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, usr text NOT NULL, paid boolean NOT NULL);
CREATE TABLE IF NOT EXISTS lines (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL, item text NOT NULL, quantity bigint NOT NULL, price bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS lines_of_order ON lines (id);
"""
_here = threading.local()


def make_tables():
    """Create the tables. A lock makes the workers take turns."""
    with psycopg.connect(os.environ["DSN"]) as db:
        db.execute("SELECT pg_advisory_xact_lock(1)")
        db.execute(TABLES)


@contextmanager
def transaction():
    """Commits all statements of the block, or none. Raises psycopg.Error, also if a commit was not confirmed."""
    db = getattr(_here, "db", None)
    if db is None:
        db = _here.db = psycopg.connect(os.environ["DSN"])
    try:
        with db.transaction():
            yield db
    except psycopg.OperationalError:
        _here.db = None
        db.close()
        raise
