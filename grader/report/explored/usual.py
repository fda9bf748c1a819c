"""What a system must expect after each kind of fault, and what usually goes wrong: for what `explore` has done."""

from __future__ import annotations

from collections.abc import Sequence

USUAL = {
    "lose request": "The request has not arrived, and its caller got an error. A caller that stops there leaves done "
    "what it has done before; one that goes on assumes what did not happen. Undo the earlier steps, or repeat the "
    "request with the same id, also after a restart.",
    "lose answer": "The request has had its effect, and only its answer is lost. A caller that takes this for a "
    "failure leaves the effect behind; one that repeats the request without an id has it twice. Let the request "
    "carry an id, and let its receiver remember which ids it has seen.",
    "lose": "Bytes between two processes are lost, and both see that the connection breaks. What was asked last may "
    "have happened or not, for example a commit. Ask about it by an id before it is repeated or undone.",
    "late": "A request whose caller has given up can still arrive. No answer does not mean that it did not happen, and "
    "an undo can arrive before the request that it undoes. Undo by the id of the request, and refuse a request whose "
    "undo was there first.",
    "silence": "The caller hears nothing until it stops waiting. The request has not arrived, but the caller cannot "
    "know. Treat a time-out like a lost connection, never like a refusal.",
    "late after silence": "The caller has stopped waiting, and then the request arrives. Undo by the id of the "
    "request, and refuse a request whose undo was there first.",
    "kill": "A process was killed between two of its steps, and has forgotten what it had only in memory. Write down "
    "what a checkout is going to do before its first request, and let the start finish or undo what was left.",
    "write": "A process was killed before a write to its files. What it wrote earlier is there, and the rest is not. "
    "Write what belongs together in one transaction, or so that the start can tell what is missing.",
    "race": "Two requests are in progress at the same time, and one reads what the other is about to change. Look and "
    "change in one atomic statement, and let only one checkout of an order be in progress.",
}
"""By what was done. "lose" alone is that of bytes which are no HTTP."""


def usual(done: Sequence[str]) -> list[str]:
    """Return what a system must expect after what was done, each sentence once.

    >>> [text.partition(".")[0] for text in usual(["late", "late", "of a later version"])]
    ['A request whose caller has given up can still arrive']
    """
    return [USUAL[what] for what in dict.fromkeys(done) if what in USUAL]


__all__ = ["USUAL", "usual"]
