"""The message of a session that failed to start: the reason, what to do, and the end of the log."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_LINES = 8

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"Could not reserve enough space|Invalid maximum heap size|Cannot allocate memory|insufficient memory"
        r"|Could not allocate|System memory \d+ must be at least",
        "choose a heap size that fits this machine and is enough for Spark: session(memory='1g')",
    ),
    (
        r"BindException|Address already in use|Can't assign requested address|Cannot assign requested address",
        "a port or the address 127.0.0.1 is not available; end the program that uses it, or check the loopback device",
    ),
    (r"No space left on device", "free some disk space, or set SHAREDSTATE_LITE_CACHE to a folder on another disk"),
    (
        r"UnsupportedClassVersionError|Unrecognized option|Could not find or load main class",
        "another Java or Spark is used by mistake: unset JAVA_HOME and JAVA_TOOL_OPTIONS and try again",
    ),
    (
        r"All masters are unresponsive|Failed to connect to master",
        "start the cluster, or correct the address; the cluster must run the same Spark version",
    ),
    (
        r"unresolved dependency|UnresolvedDependency|Server access [eE]rror",
        "a package of spark.jars.packages cannot be downloaded; use spark.jars with the path of a jar",
    ),
    (
        r"UnsatisfiedLinkError|failed to map segment",
        "a folder does not allow programs to run; set SHAREDSTATE_LITE_CACHE to one that does",
    ),
)


def explain(text: str, master: str, log: Path) -> str:
    """The message for a start that failed with an exception of this ``text``."""
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    everything = "\n".join([text, *lines])
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, everything)), None)
    tail = [line for line in lines if not line.startswith("\tat ")][-SHOWN_LINES:]
    parts = [
        f"Spark on {master} did not start: {_reason(text)}",
        remedy or "python -m sharedstate_lite.doctor looks for the cause",
    ]
    if tail:
        parts.append("the log ends with\n" + "\n".join(f"    {line[:200]}" for line in tail) + "\n")
    return "; ".join(parts) + f"{'' if tail else '; '}log: {log}"


def _reason(text: str) -> str:
    """The line of a Java exception that names the error; the first line is py4j's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = [line for line in lines if re.match(r"(: |Caused by: )?[\w.$]+(Exception|Error)\b", line)]
    return re.sub(r"^(: |Caused by: )", "", (java or lines)[0])[:300]
