"""The error message for a session that failed to start: the reason, what to do, and the end of the log."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_LINES = 8

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"Could not reserve enough space|Invalid maximum heap size|Cannot allocate memory|insufficient memory"
        r"|Could not allocate|System memory \d+ must be at least",
        "choose a heap size that fits this machine and is large enough for Spark, such as session(memory='1g')",
    ),
    (
        r"BindException|Address already in use|Can't assign requested address|Cannot assign requested address",
        "a port or the address 127.0.0.1 is not available; stop the program that uses it, or check the loopback device",
    ),
    (
        r"Invalid UID",
        "the user id has no entry in /etc/passwd; python -m sharedstate_lite.doctor prints the line to add",
    ),
    (r"No space left on device", "free some disk space, or set SHAREDSTATE_LITE_CACHE to a folder on another disk"),
    (
        r"UnsupportedClassVersionError|Unrecognized option|Could not find or load main class",
        "the environment selects the wrong Java or a wrong option; unset JAVA_HOME and JAVA_TOOL_OPTIONS and try again",
    ),
    (
        r"All masters are unresponsive|Failed to connect to master",
        "start the cluster, or correct the address; the cluster must run the same version of Spark",
    ),
    (
        r"unresolved dependency|UnresolvedDependency|Server access [eE]rror",
        "a package in spark.jars.packages cannot be downloaded; set spark.jars to the path of its jar instead",
    ),
    (
        r"UnsatisfiedLinkError|failed to map segment",
        "programs cannot run from the cache folder; set SHAREDSTATE_LITE_CACHE to a folder where they can",
    ),
)


def explain(text: str, master: str, log: Path) -> str:
    """Return the error message for a failed start on ``master``, from the exception's ``text`` and the ``log`` file."""
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    everything = "\n".join([text, *lines])
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, everything)), None)
    tail = [line for line in lines if not line.startswith("\tat ")][-SHOWN_LINES:]
    parts = [
        f"Spark on {master} did not start: {_reason(text)}",
        remedy or "run python -m sharedstate_lite.doctor to find the cause",
    ]
    if tail:
        parts.append("the log ends with\n" + "\n".join(f"    {line[:200]}" for line in tail) + "\n")
    return "; ".join(parts) + f"{'' if tail else '; '}log: {log}"


def _reason(text: str) -> str:
    """Return the line that names the error in the text of a Java exception. The first line is a message of py4j."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = [line for line in lines if re.match(r"(: |Caused by: )?[\w.$]+(Exception|Error)\b", line)]
    return re.sub(r"^(: |Caused by: )", "", (java or lines)[0])[:300]
