"""The coordinator: the checkouts that arrive within a few milliseconds are one *epoch*, and are decided together.

Epochs follow one another. Each is one message in each direction:

    coordinator to both ledgers     ["epoch", fate of the previous epoch, number, what each of its orders wants]
    each ledger to the coordinator  ["voted", number, votes]

If there is enough of what an order wants, a ledger takes it and votes 1. Otherwise it takes nothing and votes 0. An
order is paid if both ledgers voted 1. Votes and fate are strings with a digit for each order, by its position in the
epoch. The order service writes the fate to its log, and that line is the commit point. The next message tells both
ledgers the fate, and they give back what the unpaid orders took.

A paid order is answered once its fate is on the disk. A refused order is answered one epoch later, when both ledgers
have given back what they took. So a client that reads a balance after its answer sees no trace of the order.

A ledger has at most one epoch without a fate, and reports it when the coordinator connects. If the log does not contain
its fate, the epoch was never decided, and none of its orders is paid (presumed abort).

Sources: epochs as in Lu, Yu and Madden, Epoch-based commit and replication in distributed OLTP databases, VLDB 2021;
presumed abort as in Mohan, Lindsay and Obermarck, Transaction management in R*, TODS 1986.
"""

import itertools
import json
from functools import partial

from wire import Link

GATHER, RETRY = 0.002, 0.02
"""Seconds for which an epoch gathers orders, and seconds between two attempts to connect."""
STOCK, PAYMENT = LEDGERS = (0, 1)
UPGRADE = b"POST /coordinator HTTP/1.1\r\n\r\n"
"""A ledger serves clients and the coordinator on the same port. This request tells it that the coordinator follows."""


class Epoch:
    def __init__(self, number, orders, wants):
        self.number, self.orders, self.wants, self.votes = number, orders, wants, [None, None]


class Coordinator:
    def __init__(self, loop, ports, shop, life):
        """``ports``: of stock and payment. ``life``: how often this service has started. Two lives share no numbers.

        ``shop`` has ``last``, the number and the fate of the last epoch in its log, and these methods: ``wants(order)``
        returns [id, amount, ...] for each ledger; ``log(number, fate, paid, then)``; ``settled(orders, paid)``;
        ``lost(ledger)``; and ``told(message)`` for other messages of the ledgers.
        """
        self.loop, self.ports, self.shop = loop, ports, shop
        self.numbers = itertools.count(life * 10**9)
        self.links, self.fates = [None, None], ["", ""]
        """The connection to each ledger, and the fate that the ledger must hear with its next epoch."""
        self.gathered, self.refused, self.epoch, self.planned = [], [], None, False
        for ledger in LEDGERS:
            self.connect(ledger)

    def connect(self, ledger):
        """Connect to a ledger; if it does not accept connections, try again later."""
        lost = partial(self.lost, ledger)
        try:
            link = Link.connect(
                self.loop, self.ports[ledger], UPGRADE, lambda line: self.told(ledger, link, line), lost
            )
        except OSError:
            self.loop.after(RETRY, partial(self.connect, ledger))

    def lost(self, ledger):
        """A ledger has ended. What it was asked, it is asked again when it is back."""
        self.links[ledger] = None
        self.shop.lost(ledger)
        self.connect(ledger)

    def told(self, ledger, link, line):
        """A message has arrived."""
        match json.loads(line):
            case "voted", _, votes:
                self.voted(ledger, votes)
            case "undecided", number, votes:
                self.links[ledger] = link
                self.back(ledger, number, votes)
            case message:
                self.shop.told(message)

    def back(self, ledger, number, votes):
        """A ledger has connected, and reports its epoch without a fate."""
        if self.epoch and self.epoch.number == number:
            return self.voted(ledger, votes)
        last, fate = self.shop.last
        self.fates[ledger] = fate if number == last else "0" * len(votes)
        if self.epoch:
            self.ask(ledger)
        elif votes:
            self.plan()  # the ledger must give back even if no client sends a checkout
        return None

    def gather(self, order):
        """Add an order to the next epoch."""
        self.gathered.append(order)
        self.plan()

    def plan(self):
        """Begin the next epoch soon, unless one is under way."""
        if not self.planned and self.epoch is None:
            self.planned = True
            self.loop.after(GATHER, self.begin)

    def begin(self):
        """Ask both ledgers about the gathered orders. If there are none, the epoch only tells the previous fate."""
        orders, self.gathered, self.planned = self.gathered, [], False
        wants = list(zip(*map(self.shop.wants, orders), strict=True)) or [(), ()]
        self.epoch = Epoch(next(self.numbers), orders, wants)
        for ledger in LEDGERS:
            self.ask(ledger)

    def ask(self, ledger):
        self.tell(ledger, "epoch", self.fates[ledger], self.epoch.number, self.epoch.wants[ledger])

    def tell(self, ledger, *message):
        """Send a message to a ledger. Returns whether it is connected."""
        if link := self.links[ledger]:
            link.send(*message)
        return link is not None

    def voted(self, ledger, votes):
        """A ledger has voted, and has given back what the refused orders of the previous epoch took."""
        epoch = self.epoch
        known, epoch.votes[ledger] = epoch.votes[ledger], votes
        if known is not None or None in epoch.votes:  # a ledger that restarts after its vote reports it again
            return
        self.shop.settled(self.refused, False)
        fate = "".join(map(min, *epoch.votes))  # 1 if both are 1
        paid, self.refused = [], []
        for order, digit in zip(epoch.orders, fate, strict=True):
            (paid if digit == "1" else self.refused).append(order)
        decided = partial(self.decided, fate, paid)
        if fate:
            self.shop.log(epoch.number, fate, paid, decided)
        else:
            decided()

    def decided(self, fate, paid):
        """The fate is on the disk. The next epoch tells it to the ledgers."""
        self.fates, self.epoch = [fate, fate], None
        self.shop.settled(paid, True)
        if fate or self.gathered:
            self.plan()
