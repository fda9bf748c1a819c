"""Lets the processes of a run reach each other only through the proxy, and the grader's client, too.

A process that writes `{port:NAME}` or `{address:NAME}` of another one gets an address of the proxy instead. What it
reaches in another way passes no proxy, for example at a port that is written as a number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from ..processes import Supervisor
from ..sandbox import Sandbox, keep
from ..submission import Submission
from ..submission.model import LOOPBACK
from ..submission.places import places
from ..wire.client import Generator
from .proxies import HOLD, LATE, Proxies

CLIENT = "client"


def reached(submission: Submission) -> dict[tuple[str, str], bool]:
    """Return who reaches whom by a placeholder, and whether it asks for the address as well. "" is the client."""
    texts = {"": tuple(submission.urls.values())}
    for each in submission.processes:
        texts[each.name] = (each.cwd, *each.command, *each.env.values(), *(url for _, url in each.routes))
    found: dict[tuple[str, str], bool] = {}
    for caller, some in texts.items():
        for place in (place for text in some for place in places(text)):
            kind, _, callee = place.partition(":")
            if callee and callee != caller:
                found[caller, callee] = found.get((caller, callee), False) or kind == "address"
    return found


@contextlib.contextmanager
def through(
    submission: Submission, supervisor: Supervisor, sandbox: Sandbox, scout: Generator, hold: float = HOLD
) -> Iterator[Proxies]:
    """Put the proxy between the processes of a supervisor, which has not started them yet. It holds nothing at first.

    ``hold``: the maximum number of seconds for which it holds a message. If it is longer, so is a late request's way.

    A route has a fresh port at the callee's address. If its caller asks for the address, it has a fresh address, with
    the callee's port and with the fresh one.
    """
    given, pairs = supervisor.places, reached(submission)
    ways: dict[tuple[str, str], tuple[str, int]] = {}
    with Proxies(hold, max(hold, LATE), sandbox.namespaces) as proxies:
        keep(proxies.pid)
        proxies.pass_on(report=False)
        for number, ((pair, asks), port) in enumerate(zip(pairs.items(), scout.ports(len(pairs)), strict=True), 1):
            caller, callee = pair
            host, real = given.addresses.get(callee, LOOPBACK), given.ports[callee]
            fresh = f"127.88.{number // 256}.{number % 256}"
            at = [(fresh, port), (fresh, real), (host, port)] if asks else [(host, port)]
            proxies.between(caller or CLIENT, callee, at, (host, real))
            ways[pair] = at[0]
        supervisor.places = replace(given, ways=ways)
        supervisor.changed.append(proxies.look)
        try:
            yield proxies
        finally:
            supervisor.changed.remove(proxies.look)


__all__ = ["CLIENT", "reached", "through"]
