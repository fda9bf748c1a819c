"""Advice for the authors of a system: what each rule requires, the usual cause of a violation, and where to look."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..verdict.violations import Violation


@dataclass(frozen=True)
class Cause:
    """The explanation of one rule for the page."""

    name: str
    rule: str
    usual: str
    look: tuple[str, ...]
    lane: str = ""
    """The service whose value is wrong: order, stock or payment; "" if it is none of these."""
    told: str = ""
    """The rest of a headline that starts with an order, for example "was refused, but is paid"."""
    little: str = ""
    """The usual cause if an effect is missing instead of repeated."""
    kept: str = ""
    """The usual cause if no order is paid, but something was taken."""
    calm: str = ""
    """The usual cause in a phase without kills, if it is a different one."""
    calm_look: tuple[str, ...] = ()
    """Where to look in a phase without kills, if it is a different place."""


CAUSES = {
    "contract": Cause(
        "Contract",
        "Every route answers with the status and the fields that the assignment specifies.",
        "The framework's default status (500 instead of 404), a number sent as a string, or a misspelled field. "
        "If the route was called many times concurrently, the handler probably reads an amount and writes it back "
        "later, and another request changed it in between.",
        ("Look at the handler of the route shown above.", "How does it treat an unknown id?"),
    ),
    "ok_not_paid": Cause(
        "Answered 2xx, not paid",
        "An order whose checkout was answered 2xx is paid, even if every process is killed afterwards.",
        "The answer was sent before the change was durable. The change was only in memory, in a transaction that was "
        "not yet committed, or in a database that acknowledges a commit before writing it.",
        (
            "Is the answer sent only after the commit has returned?",
            "Does the database sync to disk at commit (fsync, appendfsync always, synchronous_commit)?",
            "What does the start-up code discard after a kill?",
        ),
        "order",
        "was answered 2xx, but is not paid",
        calm="A checkout was answered 2xx before the order was decided: a duplicate was answered while the first "
        "attempt was still in progress, and that attempt was then refused. Or a later step failed after the answer.",
        calm_look=(
            "What is answered to a checkout while another one of the same order is in progress?",
            "Is 2xx sent only after both stock and payment have confirmed?",
            "Can an error after that still undo the order?",
        ),
    ),
    "refused_but_paid": Cause(
        "Refused, but paid",
        "A checkout that was answered only 4xx, or was never sent, has no effect, now or later.",
        "An error occurred after the order had taken effect, and a handler turned the error into a 4xx. A 4xx promises "
        "that there is no effect. If that is not certain, answer 5xx.",
        (
            "Look at each place that answers 4xx. Can anything have been written before it?",
            "Which code catches exceptions during a checkout, and which status does it choose?",
        ),
        "order",
        "was refused, but is paid",
    ),
    "charged_times": Cause(
        "Money",
        "A user's credit is the acknowledged amount minus the total of each paid order, subtracted once.",
        "The same checkout ran twice, either concurrently or after its answer was lost, and the payment service did "
        "not recognize the second charge. Or a checkout failed at a later step, and its charge was not undone.",
        (
            "Does the request to payment contain the order's id, and is the id written atomically with the credit?",
            "Is the credit changed by one atomic statement, or read first and written later?",
            "What undoes the charge when a later step fails, and what happens if that request is sent twice?",
        ),
        "payment",
        little="Two checkouts of one user read the same credit, and the later write overwrote the earlier one. Or the "
        "order was marked paid before the charge was certain, and the charge failed or was lost.",
        kept="A checkout was refused or failed after its charge, and the charge was not undone.",
    ),
    "taken_times": Cause(
        "Stock",
        "An item's stock is the acknowledged amount minus the quantity in each paid order, subtracted once.",
        "The same checkout ran twice, either concurrently or after its answer was lost, and the stock service did not "
        "recognize the second request. Or a checkout failed at a later step, and its items were not returned.",
        (
            "Does the request to stock contain the order's id, and is the id looked up before anything is taken?",
            "Is the stock changed by one atomic statement, or read first and written later?",
            "If payment refuses or is killed, what returns the items exactly once, even after a restart?",
        ),
        "stock",
        little="Two checkouts of one item read the same stock, and the later write overwrote the earlier one. Or the "
        "order was marked paid before the change to the stock was certain, and that change failed or was lost.",
        kept="A checkout was refused or failed after it had taken items, and the items were not returned.",
    ),
    "negative": Cause(
        "Below zero",
        "A user's credit and an item's stock are never below zero.",
        "The check and the change are two separate steps, and another checkout ran in between.",
        ("Do the check and the change happen in one statement or under one lock?",),
    ),
    "oversold": Cause(
        "Oversold",
        "If there is enough stock or credit for exactly K orders, at most K orders are paid.",
        "The check and the change are two separate steps, or the check reads a stale copy.",
        ("Do the check and the change happen in one statement?", "Is any balance read from a cache or a replica?"),
    ),
    "leaked": Cause(
        "Leaked",
        "If there is enough stock or credit for exactly K orders, K orders can be sold once effects have settled.",
        "Refused checkouts did not return the stock or credit that they had taken, so some of it is missing.",
        (
            "If one line or the payment is refused, are the items of the earlier lines returned?",
            "If a process is killed during a checkout, is the reservation ever released?",
        ),
    ),
    "never_sold": Cause(
        "Never sold",
        "An order that was refused for lack of stock or credit can be sold later, if there is enough for it then.",
        "The stock and the credit add up, but an order that was refused once is refused for ever. It was marked as "
        "failed, or it holds a reservation that the amounts do not show.",
        (
            "What does a refused checkout write down about its order?",
            "What does the next checkout of that order look up before it asks stock and payment?",
            "Can the last unit be sold: is the comparison < or <=?",
        ),
    ),
    "unstable": Cause(
        "Still changing",
        "Once effects have settled, a value changes only if a request changes it.",
        "Work was still queued, or a background task completed or undid an old checkout much later.",
        ("If queues, timers or retries run after the answer, what do they do to a finished order?",),
        "order",
        "changed after everything had settled",
    ),
    "false_refusal": Cause(
        "False refusal",
        "If there is enough stock and credit, a checkout is not refused. An overloaded system answers 429 or 5xx.",
        "A conflict, a lock timeout or a busy database was answered as if there were not enough stock or credit.",
        ("Which errors lead to this status?", "Is a conflict between two transactions retried?"),
        told="was refused although there was enough stock and credit",
    ),
    "unavailable": Cause(
        "Unavailable",
        "The system answers requests, even after each restart, and most checkouts succeed under moderate load.",
        "A process waits for another one without a timeout, a connection pool stays broken after the database "
        "restarts, or the start-up fails because files from an earlier run exist.",
        (
            "Read the logs after the last restart.",
            "Are broken connections replaced?",
            "Do all requests have a timeout?",
        ),
        calm="A process waits for another one without a timeout, or there are fewer workers or database connections "
        "than concurrent checkouts, and checkouts that find none fail.",
        calm_look=(
            "Read the logs of this phase: which error is behind the failed checkouts?",
            "How many workers and connections are there, and what happens to a checkout that finds none?",
            "Do all requests have a timeout?",
        ),
    ),
}
LOST_IN_KILL = Cause(
    "Lost in a kill",
    "What was acknowledged stays, even if every process is killed afterwards.",
    "The data was only in memory, or in a database that does not write every change to disk. The most common case is "
    "Redis without --appendonly yes: after kill -9 it starts empty, or with the state of its last snapshot.",
    (
        "Is Redis started with --appendonly yes, and does it find that file again after a restart?",
        "Does every process and every database keep its data below {data}?",
        "What does the start-up code delete or create anew?",
    ),
    "order",
    "was answered 2xx, but is gone after a kill",
)


def cause_of(violation: Violation) -> Cause:
    """Return the advice about a violation, which depends on its rule, its phase and the effects of its order."""
    if violation.lost:
        return LOST_IN_KILL
    cause = CAUSES[violation.rule]
    if cause.little and violation.times is not None and violation.times <= 0:
        return replace(cause, usual=cause.little)
    if cause.kept and violation.due == 0:
        return replace(cause, usual=cause.kept)
    if cause.calm and violation.phase != "faults":
        return replace(cause, usual=cause.calm, look=cause.calm_look)
    return cause
