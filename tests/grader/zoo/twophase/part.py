"""Stock, or payment, in a two-phase commit: what is held for ten seconds without a fate makes it ask for that.

python3 part.py stock|payment PORT FOLDER ORDER_PORT
"""

import sys
import threading
import time

from balances import TABLES, answer, change_all
from peer import Away, ask
from store import Store
from web import Refused, serve

STORE = Store(sys.argv[3], TABLES)
PATIENCE, LOOK = 10.0, 0.5
"""Seconds until the coordinator is asked, and between two looks at the clock."""


def hold(db, step, wants):
    change_all(db, wants, -1)
    db.execute("INSERT INTO steps VALUES (?, 'held', ?, ?)", (step, wants, time.time()))


def settle(db, step, fate):
    row = db.execute("SELECT wants FROM steps WHERE id = ? AND state = 'held'", (step,)).fetchone()
    if row is not None:
        db.execute("UPDATE steps SET state = ? WHERE id = ?", (fate, step))
        if fate == "no":
            change_all(db, row[0], 1)


def reply(method, words):
    try:
        with STORE.transaction() as db:
            match words:
                case ["hold", step, *wants]:
                    hold(db, step, "".join(wants))
                    return 200, {}
                case ["settle", step, fate]:
                    settle(db, step, fate)
                    return 200, {}
            return 200, answer(db, words)
    except (Refused, ValueError) as error:
        return 400, {"error": str(error)}


def recover():
    while True:
        with STORE.transaction() as db:
            late = "SELECT id FROM steps WHERE state = 'held' AND at < ?"
            steps = [step for (step,) in db.execute(late, (time.time() - PATIENCE,))]
        for step in steps:
            try:
                known, said = ask(sys.argv[4], "GET", f"/fate/{step}")
            except Away:
                break
            if known:
                with STORE.transaction() as db:
                    settle(db, step, said["fate"])
        time.sleep(LOOK)  # a timer is what this participant recovers by


if __name__ == "__main__":
    threading.Thread(target=recover, daemon=True).start()
    serve(sys.argv[2], reply)
