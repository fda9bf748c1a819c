"""The counters and the memory use of the runtimes, as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .driver import running

COUNTS: dict[str, str] = {
    "requests": "batches that tasks have sent; for an Immutable, how often a process has mapped it",
    "rows": "rows of the answers: one per value of a set, key of a cache, or call",
    "hits": "rows whose value or key was already there",
    "loads": "values, keys or tables that were not there and were added",
    "held": "values or rows that are there now",
    "bytes": "memory that the values, rows or table take now",
    "sent": "bytes of the answers",
    "queries": "statements that were sent to a database, or functions that used a connection",
    "connections": "connections that are open now",
    "most": "maximum number of connections that were open at the same time",
    "opened": "connections that were opened",
    "calls": "calls of a coroutine, including retries",
    "in_flight": "maximum number of calls in flight at the same time",
}
"""The counters that `metrics` returns, with their meaning. A kind of handle to which one does not apply has NULL."""


def metrics() -> pd.DataFrame:
    """Return one row per handle and host that has used it, for all applications of this driver.

    The columns ``application``, ``host``, ``handle`` and ``kind`` identify the row. The counters are those of `COUNTS`,
    each with one meaning for all kinds of handles, and NULL for a kind to which it does not apply. ``pss`` is the
    memory of the runtime's process in bytes, for all handles on a host together. If a runtime is killed, its counts are
    lost.
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
    """Return one row per runtime, and one per task process that is connected to a runtime.

    The columns are ``application``, ``host``, ``pid``, ``what`` (``runtime`` or ``task``) and ``pss``, which is the
    memory of the process in bytes. A page that n processes map counts as 1/n of a page. ``pss`` is NULL on systems that
    do not report it.
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
