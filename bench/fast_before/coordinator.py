"""The coordinator: checkouts gathered for a few milliseconds are one epoch, asked, decided, logged and told as one.

An order is paid exactly if both ledgers voted for it and this log says so: epoch-based commit (Lu, Yu and Madden,
"Epoch-based Commit and Replication in Distributed OLTP Databases"), with presumed abort. Who waits for an order hears
of it when both ledgers have settled it, so a read that follows sees it.
"""

import asyncio
import functools
import itertools

from link import HELLO, Link

GATHER, RETRY = 0.002, 0.02
"""Seconds."""
LEDGERS = (0, 1)
"""Stock, payment."""


class Epoch:
    """Voting until both have voted; decided once its fate is on the disk; over when both have settled it."""

    def __init__(self, orders, asks):
        self.orders, self.asks = orders, asks
        self.votes, self.settled = [None, None], [False, False]
        self.fate = None


class Coordinator:
    def __init__(self, ports, life, wanted, log, paid_in, over):
        """``life``: how often this service has started, for epochs that no earlier life has used.

        ``wanted(order)``: [[id, amount], ...] of stock, and of payment. ``log(epoch, orders, then)``: make it durable
        that they are paid. ``paid_in(order)``: the epoch that paid it. ``over(orders)``: their fate is settled.
        """
        self.ports, self.wanted, self.log, self.paid_in, self.over = ports, wanted, log, paid_in, over
        self.numbers = itertools.count(life * 10**9)
        self.links, self.fresh = [Link(None, None), Link(None, None)], [None, None]
        self.gathered, self.epochs = [], {}
        self.answers, self.parted = {}, []
        """What else a ledger may say, by its first word; who wants to know when one of them is lost."""

    async def keep(self, side):
        """Connect to a ledger, and again whenever that connection is lost."""
        loop = asyncio.get_running_loop()
        while True:
            lost = asyncio.Event()
            link = self.fresh[side] = Link(functools.partial(self.heard, side), lost.set)
            try:
                await loop.create_connection(lambda link=link: link, "127.0.0.1", self.ports[side])
            except OSError:
                await asyncio.sleep(RETRY)  # a port that begins to listen announces nothing
                continue
            link.transport.write(HELLO)
            await lost.wait()
            self.links[side] = Link(None, None)
            for number in list(self.epochs):
                self.settled(side, number)  # it asks for what it has not heard when it is back
            for duty in self.parted:
                duty(side)

    def heard(self, side, told):
        match told:
            case "undecided", epochs:
                self.met(side, dict(epochs))
            case "voted", number, yes:
                self.voted(side, number, yes)
            case "settled", number:
                self.settled(side, number)
            case word, *rest:
                self.answers[word](*rest)

    def met(self, side, undecided):
        """A ledger is back: its open votes count, or hear their fate; what it has not voted on is asked."""
        link = self.links[side] = self.fresh[side]
        for number, yes in undecided.items():
            epoch = self.epochs.get(number)
            if epoch is None:
                link.send("fate", number, [order for order in yes if self.paid_in(order) == number])
            elif epoch.fate is not None:
                link.send("fate", number, epoch.fate)
            else:
                self.voted(side, number, yes)
        for number, epoch in self.epochs.items():
            if number not in undecided and epoch.votes[side] is None:
                link.send("prepare", number, epoch.asks[side])

    def gather(self, order):
        """Put it into the next epoch."""
        if not self.gathered:
            asyncio.get_running_loop().call_later(GATHER, self.begin)
        self.gathered.append(order)

    def begin(self):
        orders, self.gathered = self.gathered, []
        both = [self.wanted(order) for order in orders]
        asks = [[[order, wants[side]] for order, wants in zip(orders, both, strict=True)] for side in LEDGERS]
        number = next(self.numbers)
        self.epochs[number] = Epoch(orders, asks)
        for side in LEDGERS:
            self.links[side].send("prepare", number, asks[side])

    def voted(self, side, number, yes):
        epoch = self.epochs[number]
        if epoch.votes[side] is None:
            epoch.votes[side] = set(yes)
            if None not in epoch.votes:
                both = epoch.votes[0] & epoch.votes[1]
                fate = [order for order in epoch.orders if order in both]
                self.log(number, fate, functools.partial(self.decided, number, fate))

    def decided(self, number, fate):
        epoch = self.epochs[number]
        epoch.fate = fate
        for side in LEDGERS:
            if self.links[side].transport is None:
                self.settled(side, number)
            else:
                self.links[side].send("fate", number, fate)

    def settled(self, side, number):
        epoch = self.epochs.get(number)
        if epoch is not None and epoch.fate is not None:
            epoch.settled[side] = True
            if all(epoch.settled):
                del self.epochs[number]
                self.over(epoch.orders)
