"""Stock, or payment: balances that are never negative, and the epochs that the coordinator has not decided yet.

    python3 ledger.py stock|payment PORT FOLDER

A vote takes the amounts at once and is on the disk before it is sent; a fate gives back what was not committed. When a
coordinator comes (back), it is told of every undecided epoch, and says what became of each.
"""

import asyncio
import functools
import os
import sys

from http1 import DONE, REFUSED, Connection, listen, message
from journal import Journal
from link import HELLO, Link

BALANCES = {}
"""Id to [amount, price]; a user's price is 0."""
EPOCHS = {}
"""Undecided: epoch to [[order, [[id, amount], ...]], ...], those voted yes."""
FIND, CREATE, ADD, TAKE = {
    "stock": (b"find", b"item", b"add", b"subtract"),
    "payment": (b"find_user", b"create_user", b"add_funds", b"pay"),
}[sys.argv[1]]


def replay(record):
    match record:
        case "new", name, price:
            BALANCES[name] = [0, price]
        case "add", name, amount:
            BALANCES[name][0] += amount
        case "many", count, amount, price:
            BALANCES.update({str(number): [amount, price] for number in range(count)})
        case "vote", epoch, yes:
            EPOCHS[epoch] = yes
            for _, wants in yes:
                give(wants, -1)
        case "fate", epoch, committed:
            settle(epoch, committed)


def give(wants, times):
    for name, amount in wants:
        BALANCES[name][0] += times * amount


def settle(epoch, committed):
    for order, wants in EPOCHS.pop(epoch, ()):
        if order not in committed:
            give(wants, 1)


def vote(orders):
    """Those of an epoch's orders for which there is enough, each after the ones before it; taken now."""
    yes = []
    for order, wants in orders:
        if all(name in BALANCES and BALANCES[name][0] >= amount for name, amount in wants):
            give(wants, -1)
            yes.append([order, wants])
    return yes


class Ledger:
    def __init__(self, folder):
        self.journal = Journal(folder, replay)
        self.coordinator = Link(None, None)

    def met(self, transport, rest):
        """A coordinator: an older one's messages are heard no more, and its epochs are this one's to decide."""
        self.coordinator.cut()
        self.journal.flush()
        link = self.coordinator = Link(self.heard, lambda: None)
        transport.set_protocol(link)
        link.connection_made(transport)
        link.send("undecided", [[epoch, [order for order, _ in yes]] for epoch, yes in EPOCHS.items()])
        link.data_received(rest)

    def heard(self, told):
        link = self.coordinator
        match told:
            case "prepare", epoch, orders:
                yes = EPOCHS[epoch] = vote(orders)
                names = [order for order, _ in yes]
                self.journal.write(["vote", epoch, yes], lambda: link.send("voted", epoch, names))
            case "fate", epoch, committed:
                settle(epoch, set(committed))
                self.journal.write(["fate", epoch, committed], lambda: link.send("settled", epoch))
            case "price", name:
                link.send("price", name, BALANCES[name][1] if name in BALANCES else None)

    def serve(self, connection, method, path):
        words = path[1:].split(b"/")
        name = words[1].decode() if len(words) > 1 else ""
        try:
            if words[0] == FIND:
                amount, price = BALANCES[name]
                said = {"stock": amount, "price": price} if FIND == b"find" else {"user_id": name, "credit": amount}
                connection.answer(message(200, said))
            elif words[0] in (ADD, TAKE):
                amount = int(words[2]) if words[0] == ADD else -int(words[2])
                if BALANCES[name][0] + amount < 0:
                    return connection.answer(REFUSED)
                BALANCES[name][0] += amount
                self.journal.write(["add", name, amount], functools.partial(connection.answer, DONE))
            elif words[0] == CREATE:
                name, price = os.urandom(8).hex(), int(words[2]) if CREATE == b"item" else 0
                BALANCES[name] = [0, price]
                said = message(200, {"item_id" if CREATE == b"item" else "user_id": name})
                self.journal.write(["new", name, price], functools.partial(connection.answer, said))
            elif words[0] == b"batch_init":
                record = ["many", *map(int, words[1:]), 0][:4]
                replay(record)
                said = message(200, {"msg": "done"})
                self.journal.write(record, functools.partial(connection.answer, said))
            else:
                connection.answer(REFUSED)
        except (KeyError, IndexError, ValueError):
            connection.answer(REFUSED)


async def main():
    ledger = Ledger(sys.argv[3])
    await listen(sys.argv[2], lambda: Connection(ledger.serve, HELLO, ledger.met))


if __name__ == "__main__":
    asyncio.run(main())
