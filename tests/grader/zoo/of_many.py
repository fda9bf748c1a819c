"""Mutants of systems with several processes, each with its own state."""

from __future__ import annotations

from .model import Mutant

MUTANTS = [
    Mutant(
        "answers-200-when-the-shop-is-away",
        "gateway",
        "gateway.py",
        "            return self.say(503, ",
        "            return self.say(200, ",
        "faults",
        "ok_not_paid",
        seconds=24.0,  # a checkout must meet the dead shop, and on a busy machine some kills miss every checkout
    ),
    Mutant(
        "keeps-orders-in-each-worker",
        "gunicorn",
        "wsgi.py",
        "    raw = json.dumps(body).encode()\n",
        '    if words[:2] == ["orders", "find"]:\n'
        "        body = WORDS.setdefault(words[2], body)\n"
        "    raw = json.dumps(body).encode()\n",
        "duplicates",
        "ok_not_paid",
    ),
    Mutant(
        "never-gives-stock-back",
        "three",
        "order.py",
        '        ask(STOCK, "POST", f"/give_back/{step}")\n',
        "",
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "keeps-the-lines-that-there-was-enough-for",
        "three",
        "part.py",
        '            db.execute("ROLLBACK TO before")\n',
        "",
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "answers-400-when-a-service-is-away",
        "three",
        "orders.py",
        "            return 503, ",
        "            return 400, ",
        "faults",
        "refused_but_paid",
    ),
    Mutant(
        "names-a-step-anew-each-time",
        "three",
        "order.py",
        'f"/take/{step}/{items}"',
        'f"/take/{step}.{time.time_ns()}/{items}"',
        "faults",
        "taken_times",  # of stock only: what payment repeats depends on the moment of the kill
        seconds=24.0,  # stock must die between a step and its answer, and on a busy machine some kills miss that moment
    ),
    Mutant(
        "forgets-a-saga-that-was-cut-off",
        "three",
        "order.py",
        "                        finish(order, attempt)\n",
        '                        ask(PAYMENT, "POST", f"/give_back/{order}.{attempt}")\n'
        '                        mark(order, "open", attempt)\n',
        "faults",
        "taken_times",  # of stock only: how far the saga had got depends on the moment of the kill
        seconds=24.0,  # order must die in the middle of a saga, and on a busy machine some kills miss that moment
    ),
    Mutant(
        "charges-before-there-is-stock",
        "three",
        "order.py",
        '    if not ask(STOCK, "POST", f"/take/{step}/{items}")[0]:\n',
        '    ask(PAYMENT, "POST", f"/take/{step}/{money}")\n'
        '    if not ask(STOCK, "POST", f"/take/{step}/{items}")[0]:\n',
        "duplicates",
        "charged_times",
    ),
    Mutant(
        "checks-one-order-out-side-by-side",
        "twophase",
        "orders.py",
        "                with lock_of(words[1]):\n                    return checkout(words[1])\n",
        "                return checkout(words[1])\n",
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "never-asks-what-became-of-it",
        "twophase",
        "part.py",
        "            if known:\n",
        '            if known and sys.argv[1] == "payment":\n',
        "faults",
        "taken_times",  # only stock never asks: what else is lost depends on the moment of the kill
        seconds=30.0,
    ),
    Mutant(
        "votes-and-writes-nothing-down",
        "fast",
        "ledger.py",
        'self.journal.write_line(line + b"\\n", partial(link.send, "voted", number, votes))',
        'link.send("voted", number, votes)',
        "faults",
        "taken_times",
    ),
    Mutant(
        "asks-only-one-ledger",
        "fast",
        "coordinator.py",
        'fate = "".join(map(min, *epoch.votes))',
        "fate = epoch.votes[1]",
        "scarcity",
        "oversold",
    ),
    Mutant(
        "answers-before-the-fate-is-durable",
        "fast",
        "order.py",
        'self.journal.write(["fate", number, fate, paid], durable)',
        "durable()",
        "faults",
        "ok_not_paid",
        seconds=10.0,
    ),
    Mutant(
        "keeps-what-was-not-committed",
        "fast",
        "ledger.py",
        'if vote == "1" and paid == "0":\n',
        'if vote == paid == "":\n',
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "hears-one-fate-for-a-whole-epoch",
        "fast",
        "ledger.py",
        "votes, fate, strict=True):\n",
        'votes, len(fate) * max(fate, default=""), strict=True):\n',
        "scarcity",
        "charged_times",
    ),
    Mutant(
        "undoes-nothing",
        "entities",
        "sharedstate_lite/entities/plain.py",
        "                self.tables[cls][key].__dict__ = state\n",
        "                pass\n",
        "duplicates",
        "taken_times",
    ),
    Mutant(
        "catches-what-it-should-refuse",
        "entities",
        "shop.py",
        "        self.user.pay(self.cost())\n",
        "        try:\n            self.user.pay(self.cost())\n        except Refused:\n            return\n",
        "duplicates",
        "ok_not_paid",
    ),
    Mutant(
        "answers-before-the-log-has-it",
        "entities",
        "sharedstate_lite/entities/log.py",
        "        data = line(self.epoch + 1, value)\n",
        "        self.held = getattr(self, 'held', b'') + line(self.epoch + 1, value)\n"
        "        data = self.held if self.epoch % 40 == 0 else b''\n"
        "        self.held = b'' if data else self.held\n",
        "faults",
        "ok_not_paid",
    ),
    Mutant(
        "embeds-its-state-and-logs-nothing",
        "embedded",
        "store.py",
        "            append(line)\n",
        "",
        "faults",
        "ok_not_paid",
    ),
    Mutant(
        "applies-a-result-as-often-as-it-comes",
        "log",
        "fold.py",
        "            if (kind, at) in self.seen:\n                return []\n",
        "",
        "faults",
        "taken_times",
    ),
]
