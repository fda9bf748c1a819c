"""A ledger keeps balances, which never become negative. The same program is stock and payment: a user has no price.

    python3 ledger.py PORT FOLDER

The ledger logs a message of the coordinator as it arrived, without its votes. A vote depends only on the balances, and
they depend only on the earlier records. So a replay votes in the same way again.
"""

import json
import os
import sys
from functools import partial

from journal import Journal
from loop import Loop
from wire import BATCH_DONE, DONE, MANY, REFUSED, Client, Link, amount_in, answer


class Ledger:
    def __init__(self, loop, folder):
        self.balances, self.prices = {}, {}
        self.undecided = 0, [], ""
        """The epoch that has no fate yet: its number, what each of its orders wants, and the votes."""
        self.loop, self.coordinator = loop, None
        self.journal = Journal(loop, folder, self.apply)

    def apply(self, what, *values):
        """Apply a record of the log."""
        if what == "epoch":
            self.vote(*values)
        elif what == "add":
            name, amount = values
            self.balances[name] += amount
        elif what == "new":
            name, price = values
            self.balances[name], self.prices[name] = 0, price
        elif what == "many":
            count, balance, price = values
            for name in map(str, range(count)):
                self.balances[name], self.prices[name] = balance, price

    def vote(self, fate, number, wants):
        """Settle the previous epoch, then take what each order of this one wants."""
        _, previous, votes = self.undecided
        for want, vote, paid in zip(previous, votes, fate, strict=True):
            if vote == "1" and paid == "0":
                self.give(want)
        self.undecided = number, wants, "".join(["1" if self.take(want) else "0" for want in wants])

    def take(self, want):
        """Take all of [id, amount, id, amount, ...], or nothing if there is not enough. Returns whether it took all."""
        balances = self.balances
        for at in range(0, len(want), 2):
            if balances.get(want[at], -1) < want[at + 1]:
                self.give(want[:at])
                return False
            balances[want[at]] -= want[at + 1]
        return True

    def give(self, want):
        """Give back all of [id, amount, ...]."""
        for at in range(0, len(want), 2):
            self.balances[want[at]] += want[at + 1]

    def told(self, line):
        """Handle a message of the coordinator."""
        link = self.coordinator
        what, *values = json.loads(line)
        if what == "price":
            link.send("price", *values, self.prices.get(*values))
        else:
            self.vote(*values)
            number, _, votes = self.undecided
            self.journal.write_line(line + b"\n", partial(link.send, "voted", number, votes))

    def meet(self, client):
        """The client is a coordinator. It replaces the previous one, which is not heard any more."""
        if self.coordinator:
            self.coordinator.close()
        sock, unread = client.detach()
        link = self.coordinator = Link(self.loop, sock, self.told)
        number, _, votes = self.undecided
        self.journal.then(partial(link.send, "undecided", number, votes))
        link.receive(unread)

    def serve(self, client, request):
        """Handle a request of a client."""
        try:
            self.route(client, request.decode().split("/"))
        except (KeyError, ValueError):  # an unknown id, or not a number
            client.answer(REFUSED)

    def route(self, client, words):
        match words:
            case "GET ", "find", name:
                found = {"stock": self.balances[name], "price": self.prices[name]}
                self.journal.then(partial(client.answer, answer(200, found)))
            case "GET ", "find_user", name:
                found = {"user_id": name, "credit": self.balances[name]}
                self.journal.then(partial(client.answer, answer(200, found)))
            case "POST ", "add" | "add_funds", name, amount:
                self.add(client, name, amount_in(amount))
            case "POST ", "subtract" | "pay", name, amount:
                self.add(client, name, -amount_in(amount))
            case "POST ", "item", "create", price:
                name = os.urandom(8).hex()
                self.change(client, answer(200, {"item_id": name}), "new", name, amount_in(price))
            case "POST ", "create_user":
                name = os.urandom(8).hex()
                self.change(client, answer(200, {"user_id": name}), "new", name, 0)
            case "POST ", "batch_init", count, credit:
                self.change(client, BATCH_DONE, "many", amount_in(count, MANY), amount_in(credit), 0)
            case "POST ", "batch_init", count, stock, price:
                self.change(client, BATCH_DONE, "many", amount_in(count, MANY), amount_in(stock), amount_in(price))
            case "POST ", "coordinator":
                self.meet(client)
            case _:
                client.answer(REFUSED)

    def add(self, client, name, amount):
        """Add an amount, which may be negative, to a balance."""
        if self.balances[name] + amount < 0:
            client.answer(REFUSED)
        else:
            self.change(client, DONE, "add", name, amount)

    def change(self, client, done, *record):
        """Apply a record, and answer once it is on the disk."""
        self.apply(*record)
        self.journal.write(record, partial(client.answer, done))


if __name__ == "__main__":
    loop = Loop()
    ledger = Ledger(loop, sys.argv[2])
    loop.listen(int(sys.argv[1]), lambda sock: Client(loop, sock, ledger.serve))
    loop.run()
