"""Stock, or payment, for a saga: a step is taken at most once, and given back at most once, however often it is asked.

python3 part.py stock|payment PORT FOLDER
"""

import sys

from balances import TABLES, answer, change_all
from store import Store
from web import Refused, serve

STORE = Store(sys.argv[3], TABLES)


def take(db, step, wants):
    """A step that was refused stays refused: its saga goes on from there."""
    row = db.execute("SELECT state FROM steps WHERE id = ?", (step,)).fetchone()
    if row is None:
        db.execute("SAVEPOINT before")
        try:
            change_all(db, wants, -1)
            row = ("taken",)
        except Refused:
            db.execute("ROLLBACK TO before")
            row = ("refused",)
        db.execute("INSERT INTO steps VALUES (?, ?, ?, 0)", (step, row[0], wants))
    return row[0] == "taken"


def give_back(db, step):
    row = db.execute("SELECT wants FROM steps WHERE id = ? AND state = 'taken'", (step,)).fetchone()
    if row is not None:
        change_all(db, row[0], 1)
        db.execute("UPDATE steps SET state = 'given back' WHERE id = ?", (step,))


def reply(method, words):
    try:
        with STORE.transaction() as db:
            match words:
                case ["take", step, *wants]:
                    return (200 if take(db, step, "".join(wants)) else 400), {}
                case ["give_back", step]:
                    give_back(db, step)
                    return 200, {}
            return 200, answer(db, words)
    except (Refused, ValueError) as error:
        return 400, {"error": str(error)}


if __name__ == "__main__":
    serve(sys.argv[2], reply)
