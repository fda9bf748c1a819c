"""The counters and the memory use of the runtimes, as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .driver import running

COUNTS = ("connections", "most", "opened", "queries", "rows", "hits", "loads", "bytes")


def metrics() -> pd.DataFrame:
    """Return one row per handle and host that has used it, for all applications of this driver.

    The columns ``application``, ``host``, ``handle`` and ``kind`` identify the row. For a pool, ``connections`` is the
    number of open connections, ``most`` the maximum number, and ``opened`` the total number opened. The meaning of
    ``queries``, ``rows``, ``hits``, ``loads`` and ``bytes`` depends on the kind of handle (see docs/worker.md). Counts
    that a kind does not have are NULL. ``pss`` is the memory of the runtime's process in bytes, for all handles on a
    host together. If a runtime is killed, its counts are lost.
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
