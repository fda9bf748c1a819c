"""For each rule: what it asks, what usually breaks it, and where to look. For a reader who wrote the system."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """What a page says about one rule."""

    name: str
    rule: str
    usual: str
    look: tuple[str, ...]
    lane: str = ""
    """The service whose reading is wrong: order, stock or payment; "" where it is not one of them."""
    told: str = ""
    """What is said of one order."""
    little: str = ""
    """The usual cause where an effect is missing rather than doubled."""


CAUSES = {
    "contract": Cause(
        "The answers' form",
        "Every route answers with the status and the fields that the assignment names.",
        "A status of the framework's own (500 where 404 is meant), a number sent as text, or a field by another name. "
        "Where it was asked many times at once: an amount is read first and written later, and another request came "
        "between.",
        ("The handler of the route that is shown.", "What it does for an id that does not exist."),
    ),
    "ok_not_paid": Cause(
        "Answered done, not paid",
        "A checkout that was answered 2xx is paid, whatever dies afterwards.",
        "The answer left before the write was safe: the change was only in memory, in a transaction that was not "
        "committed yet, or in a database that writes to disk later than it says yes.",
        (
            "Is the answer sent only after the commit has returned?",
            "Does the database sync to disk at commit (fsync, appendfsync always, synchronous_commit)?",
            "After a kill: what does the start-up code throw away?",
        ),
        "order",
        "was answered done, and is not paid",
    ),
    "refused_but_paid": Cause(
        "Refused, and paid",
        "A checkout that was only ever answered 4xx, or never sent, has no effect, then or later.",
        "An effect came first and an error after it, and a handler turned every error into a 4xx. A 4xx promises that "
        "nothing happened; where that is not certain, only a 5xx is true.",
        (
            "Each place that answers 4xx: can anything have been written before it?",
            "What catches exceptions around a checkout, and which status does it choose?",
        ),
        "order",
        "was refused, and is paid",
    ),
    "charged_times": Cause(
        "Money",
        "A user's credit is what was paid in, less the totals of the paid orders: each once.",
        "The same checkout ran again, after its answer was lost or at the same time, and payment did not know that it "
        "had charged already. Or a checkout failed at a later step, and its charge was not undone.",
        (
            "Does the request to payment carry the order's id, and is that id kept in the same write as the credit?",
            "Is the credit changed by one atomic statement, or read first and written later?",
            "What undoes the charge when a later step fails, and what if that undoing is sent twice?",
        ),
        "payment",
        little="Two checkouts of one user read the same credit, and the later write covered the earlier one. Or the "
        "order was marked paid before the charge was safe, and the charge was lost.",
    ),
    "taken_times": Cause(
        "Stock",
        "An item's stock is what was added, less the quantities of the paid orders: each once.",
        "The same checkout ran again, after its answer was lost or at the same time, and stock did not know that it "
        "had given the items already. Or a checkout failed at a later step and kept what it had taken.",
        (
            "Does the request to stock carry the order's id, and is it looked up before anything is taken?",
            "Is the stock changed by one atomic statement, or read first and written later?",
            "When payment refuses or dies: who gives the items back, exactly once, even after a restart?",
        ),
        "stock",
        little="Two checkouts of one item read the same stock, and the later write covered the earlier one. Or the "
        "order was marked paid before the taking was safe, and the taking was lost.",
    ),
    "negative": Cause(
        "Below zero",
        "No credit and no stock is ever below zero.",
        "The check and the change are two steps, and another checkout came between them.",
        ("Is there enough, and take it: are these one statement, or under one lock?",),
    ),
    "oversold": Cause(
        "Sold more than there is",
        "With enough for K orders, no more than K are paid.",
        "The check and the change are two steps, or the check reads a copy that is out of date.",
        ("Is there enough, and take it: are these one statement?", "Is any balance read from a cache or a replica?"),
    ),
    "leaked": Cause(
        "Sold less than there is",
        "With enough for K orders, all K can be sold once everything is quiet.",
        "Checkouts that were refused kept what they had reserved.",
        (
            "When one line or the payment is refused: are the lines before it given back?",
            "Is a reservation of a checkout that died ever released?",
        ),
    ),
    "unstable": Cause(
        "Still changing",
        "Once it is quiet and everything was read, nothing changes any more.",
        "Work was still queued, or a background task carried out or undid an old checkout much later.",
        ("Queues, timers and retries that outlive the answer: what do they do to an order that was settled?",),
        "order",
        "still changed after everything was quiet",
    ),
    "false_refusal": Cause(
        "Refused without need",
        "With enough stock and credit a checkout is not refused: under overload the answer is 429 or 5xx.",
        "A conflict, a lock that timed out or a busy database was answered as if stock or credit were short.",
        ("Which errors end in this status?", "Is a conflict between two transactions tried again?"),
        told="was refused without need",
    ),
    "unavailable": Cause(
        "Not there",
        "The system answers, and comes back after each restart; under moderate load most checkouts are done.",
        "A process that waits for another one without a time limit, a pool of connections that stays broken after the "
        "database restarts, or a start-up that fails when files of an earlier run are there.",
        ("The logs after the last restart.", "Are broken connections replaced?", "Do all requests have a time limit?"),
    ),
}
