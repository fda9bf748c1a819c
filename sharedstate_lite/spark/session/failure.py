"""Why a session did not start, in one message: the reason, the way out, the log's last lines and where it is."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_LINES = 8

_MENDS: tuple[tuple[str, str], ...] = (
    (
        r"Could not reserve enough space|Invalid maximum heap size|Cannot allocate memory|insufficient memory"
        r"|Could not allocate|System memory \d+ must be at least",
        "give it a size that this machine has and Spark can live with: session(memory='1g')",
    ),
    (
        r"BindException|Address already in use|Can't assign requested address|Cannot assign requested address",
        "a port or the address 127.0.0.1 cannot be had; end what holds it, or look at the loopback device",
    ),
    (r"No space left on device", "free some disk space, or set SHAREDSTATE_LITE_CACHE to a folder on another disk"),
    (
        r"UnsupportedClassVersionError|Unrecognized option|Could not find or load main class",
        "another Java or Spark is in the way: unset JAVA_HOME and JAVA_TOOL_OPTIONS and try again",
    ),
    (
        r"All masters are unresponsive|Failed to connect to master",
        "start the cluster, or correct the address; its Spark must be of this version",
    ),
    (
        r"unresolved dependency|UnresolvedDependency|Server access [eE]rror",
        "a package of spark.jars.packages cannot be fetched; name a jar that is here with spark.jars",
    ),
    (
        r"UnsatisfiedLinkError|failed to map segment",
        "a folder may not hold programs; set SHAREDSTATE_LITE_CACHE to one that may",
    ),
)


def why(said: str, master: str, log: Path) -> str:
    """One message for a start that failed with an exception that ``said`` this."""
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    everything = "\n".join([said, *lines])
    mend = next((mend for pattern, mend in _MENDS if re.search(pattern, everything)), None)
    tail = [line for line in lines if not line.startswith("\tat ")][-SHOWN_LINES:]
    parts = [
        f"Spark on {master} did not start: {_reason(said)}",
        mend or "python -m sharedstate_lite.doctor looks for the cause",
    ]
    if tail:
        parts.append("the log ends with\n" + "\n".join(f"    {line[:200]}" for line in tail) + "\n")
    return "; ".join(parts) + f"{'' if tail else '; '}log: {log}"


def _reason(said: str) -> str:
    """The line of a Java exception that says what happened; its first line is py4j's."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    java = [line for line in lines if re.match(r"(: |Caused by: )?[\w.$]+(Exception|Error)\b", line)]
    chosen = java[0] if java else lines[0]
    return re.sub(r"^(: |Caused by: )", "", chosen)[:300]
