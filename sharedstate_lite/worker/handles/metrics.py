"""What the runtimes tell of themselves, as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .driver import drivers

COUNTS = ("connections", "most", "opened", "queries", "rows", "hits", "loads", "bytes")


def metrics() -> pd.DataFrame:
    """One row a handle and host that has used it, over all applications of this driver.

    ``connections`` open now, ``most`` at once, ``opened`` in all; ``queries``, ``rows``, ``hits``,
    ``loads`` and ``bytes`` as the kind counts them (docs/worker.md); ``pss``, bytes of the runtime's
    process, which all handles of a host share. Empty where a kind has no such count. What a runtime
    that was killed had counted is gone with it.
    """
    found: list[dict[str, Any]] = []
    for one, said in _said():
        own = dict(said["pss"])[said["pss"][0][0]]
        for name, counts in said["things"].items():
            kind = name.rpartition(" ")[0]
            row = {"application": one, "host": said["host"], "handle": name, "kind": kind}
            found.append(row | {count: counts.get(count) for count in COUNTS} | {"pss": own})
    out = pd.DataFrame(found, columns=["application", "host", "handle", "kind", *COUNTS, "pss"])
    return out.astype(dict.fromkeys((*COUNTS, "pss"), "Int64"))


def processes() -> pd.DataFrame:
    """One row a process that shares: application, host, pid, what it is (runtime or task), and its PSS in bytes.

    A task's process is there while it has a connection. PSS counts a page that n processes
    map as an n-th of it; it is empty where the system does not tell it.
    """
    found = [
        {"application": one, "host": said["host"], "pid": pid, "what": "task" if at else "runtime", "pss": pss}
        for one, said in _said()
        for at, (pid, pss) in enumerate(said["pss"])
    ]
    out = pd.DataFrame(found, columns=["application", "host", "pid", "what", "pss"])
    return out.astype({"pid": "Int64", "pss": "Int64"})


def _said() -> list[tuple[str, dict[str, Any]]]:
    return [(one.application.name, said) for one in drivers() for said in one.request_all({"op": "metrics"})]
