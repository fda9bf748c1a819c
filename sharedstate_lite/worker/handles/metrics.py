"""Counters and memory of the runtimes, as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .driver import running

COUNTS = ("connections", "most", "opened", "queries", "rows", "hits", "loads", "bytes")


def metrics() -> pd.DataFrame:
    """One row for each handle and host that has used it, over all applications of this driver.

    Columns: application, host, handle, kind; ``connections`` open now, ``most`` at once, ``opened`` in all;
    ``queries``, ``rows``, ``hits``, ``loads`` and ``bytes`` as each kind counts them (docs/worker.md); ``pss``: bytes
    of the runtime's process, for all handles of a host together. A count that a kind does not have is NULL. A killed
    runtime loses its counts.
    """
    found: list[dict[str, Any]] = []
    for application, said in _reports():
        own = dict(said["pss"])[said["pss"][0][0]]
        for name, counts in said["resources"].items():
            kind = name.rpartition(" ")[0]
            row = {"application": application, "host": said["host"], "handle": name, "kind": kind}
            found.append(row | {count: counts.get(count) for count in COUNTS} | {"pss": own})
    out = pd.DataFrame(found, columns=["application", "host", "handle", "kind", *COUNTS, "pss"])
    return out.astype(dict.fromkeys((*COUNTS, "pss"), "Int64"))


def processes() -> pd.DataFrame:
    """One row for each process that shares: application, host, pid, what (``runtime`` or ``task``), and PSS in bytes.

    A task's process is listed while it has a connection. PSS counts a page that n processes map as 1/n of a page; it is
    NULL on systems that do not report it.
    """
    found = [
        {"application": application, "host": said["host"], "pid": pid, "what": "task" if at else "runtime", "pss": pss}
        for application, said in _reports()
        for at, (pid, pss) in enumerate(said["pss"])
    ]
    out = pd.DataFrame(found, columns=["application", "host", "pid", "what", "pss"])
    return out.astype({"pid": "Int64", "pss": "Int64"})


def _reports() -> list[tuple[str, dict[str, Any]]]:
    return [(one.application.name, said) for one in running() for said in one.request_all({"op": "metrics"})]
