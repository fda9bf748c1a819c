"""One SQLite database a service: a transaction at a time, each in the file before it ends."""

import contextlib
import sqlite3
import threading
from pathlib import Path


class Store:
    def __init__(self, folder, tables):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(Path(folder) / "data.db", check_same_thread=False, isolation_level=None)
        self.db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + tables)

    @contextlib.contextmanager
    def transaction(self):
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")
