"""For each rule: what it requires, what usually breaks it, and where to look. For the authors of a system."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """What the page says about one rule."""

    name: str
    rule: str
    usual: str
    look: tuple[str, ...]
    lane: str = ""
    """The service whose value is wrong: order, stock or payment; "" if it is none of them."""
    told: str = ""
    """The rest of a headline about one order."""
    little: str = ""
    """The usual cause if an effect is missing, not repeated."""


CAUSES = {
    "contract": Cause(
        "Contract",
        "Every route answers with the status and the fields of the assignment.",
        "The framework's own status (500 instead of 404), a number sent as text, or a misspelled field. "
        "If the route was called many times at once: the handler reads an amount and writes it later, and another "
        "request ran in between.",
        ("The handler of the route that is shown.", "How does it treat an unknown id?"),
    ),
    "ok_not_paid": Cause(
        "Answered 2xx, not paid",
        "A checkout that was answered 2xx is paid, even if every process dies afterwards.",
        "The answer was sent before the write was safe: the change was only in memory, in a transaction that was not "
        "committed yet, or in a database that acknowledges a commit before it writes it.",
        (
            "Is the answer sent only after the commit has returned?",
            "Does the database sync to disk at commit (fsync, appendfsync always, synchronous_commit)?",
            "After a kill: what does the start-up code discard?",
        ),
        "order",
        "was answered 2xx, and is not paid",
    ),
    "refused_but_paid": Cause(
        "Refused, but paid",
        "A checkout that was only answered 4xx, or never sent, has no effect, now or later.",
        "An error occurred after the effect, and a handler turns every error into a 4xx. A 4xx promises that there was "
        "no effect. If that is not certain, answer 5xx.",
        (
            "Each place that answers 4xx: can anything have been written before it?",
            "What catches exceptions around a checkout, and which status does it choose?",
        ),
        "order",
        "was refused, but is paid",
    ),
    "charged_times": Cause(
        "Money",
        "A user's credit is the acknowledged amount less the total of each paid order, once.",
        "The same checkout ran twice, at the same time or after its answer was lost, and payment did not recognize the "
        "second charge. Or a checkout failed at a later step, and its charge was not undone.",
        (
            "Does the request to payment carry the order's id, and is that id kept in the same write as the credit?",
            "Is the credit changed by one atomic statement, or read first and written later?",
            "What undoes the charge when a later step fails, and what if that request is sent twice?",
        ),
        "payment",
        little="Two checkouts of one user read the same credit, and the later write overwrote the earlier one. Or the "
        "order was marked paid before the charge was durable, and the charge was lost.",
    ),
    "taken_times": Cause(
        "Stock",
        "An item's stock is the acknowledged amount less the quantity of each paid order, once.",
        "The same checkout ran twice, at the same time or after its answer was lost, and stock did not recognize the "
        "second request. Or a checkout failed at a later step and kept what it had taken.",
        (
            "Does the request to stock carry the order's id, and is it looked up before anything is taken?",
            "Is the stock changed by one atomic statement, or read first and written later?",
            "When payment refuses or dies: what returns the items, exactly once, even after a restart?",
        ),
        "stock",
        little="Two checkouts of one item read the same stock, and the later write overwrote the earlier one. Or the "
        "order was marked paid before the change of stock was durable, and that change was lost.",
    ),
    "negative": Cause(
        "Below zero",
        "No credit and no stock is below zero.",
        "The check and the change are two steps, and another checkout ran in between.",
        ("Are the check and the change one statement, or under one lock?",),
    ),
    "oversold": Cause(
        "Oversold",
        "With stock or credit for K orders, at most K are paid.",
        "The check and the change are two steps, or the check reads a stale copy.",
        ("Are the check and the change one statement?", "Is any balance read from a cache or a replica?"),
    ),
    "leaked": Cause(
        "Undersold",
        "With stock or credit for K orders, all K can be sold once effects have settled.",
        "Refused checkouts kept what they had reserved.",
        (
            "When one line or the payment is refused: are the earlier lines returned?",
            "Is the reservation of a checkout that died ever released?",
        ),
    ),
    "unstable": Cause(
        "Still changing",
        "Once effects have settled, no value changes without a request.",
        "Work was still queued, or a background task completed or undid an old checkout much later.",
        ("Queues, timers and retries that run after the answer: what do they do to a finished order?",),
        "order",
        "changed after everything had settled",
    ),
    "false_refusal": Cause(
        "False refusal",
        "With enough stock and credit no checkout is refused. Answer an overload with 429 or 5xx.",
        "A conflict, a lock timeout or a busy database was answered as if stock or credit were short.",
        ("Which errors lead to this status?", "Is a conflict between two transactions retried?"),
        told="was refused although stock and credit are ample",
    ),
    "unavailable": Cause(
        "Unavailable",
        "The system answers, also after each restart, and most checkouts succeed under moderate load.",
        "A process waits for another one without a timeout, a connection pool stays broken after the database "
        "restarts, or the start-up fails if files of an earlier run exist.",
        ("The logs after the last restart.", "Are broken connections replaced?", "Do all requests have a timeout?"),
    ),
}
