"""hey and wrk, where the machine has them: closed loops, one thread. What they print becomes numbers here."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


@dataclass(frozen=True)
class Told:
    """What a generator says of one run."""

    requests: int
    per_second: float
    p99_ms: float
    cpu: float
    """Seconds of CPU that it took."""
    failures: int = 0

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a request."""
        return 1e6 * self.cpu / max(1, self.requests)


def hey_words(url: str, users: int, rate: float, seconds: float) -> list[str]:
    """``rate`` a second for each user; 0: at once."""
    pace = ["-q", f"{rate:g}"] if rate else []
    return ["hey", "-z", f"{seconds:g}s", "-c", str(users), "-cpus", "1", "-m", "POST", *pace, url]


def hey_told(text: str, cpu: float) -> Told:
    """From what hey prints. Raises ValueError where a number is missing."""
    rate, slow = re.search(r"Requests/sec:\s+([\d.]+)", text), re.search(r"99% in ([\d.]+) secs", text)
    answers = {int(code): int(count) for code, count in re.findall(r"\[(\d{3})\]\s+(\d+) responses", text)}
    failed = sum(int(count) for count in re.findall(r"^\s+\[(\d+)\]\s+\D", text.partition("Error")[2], re.M))
    if rate is None or slow is None or not answers:
        raise ValueError(f"hey printed no rate, no 99% or no answers: {text[-400:]}")
    bad = sum(count for code, count in answers.items() if code != 200)
    return Told(sum(answers.values()), float(rate[1]), 1e3 * float(slow[1]), cpu, bad + failed)


def wrk_words(url: str, users: int, rate: float, seconds: float) -> list[str]:
    """wrk knows no rate: each user sends its next request at once."""
    return ["wrk", "-t", "1", "-c", str(users), "-d", f"{seconds:g}s", "--latency", url]


def wrk_told(text: str, cpu: float) -> Told:
    """From what wrk prints. Raises ValueError where a number is missing."""
    count, rate = re.search(r"(\d+) requests in", text), re.search(r"Requests/sec:\s+([\d.]+)", text)
    slow = re.search(r"99%\s+([\d.]+)(us|ms|s|m)\b", text)
    if count is None or rate is None or slow is None:
        raise ValueError(f"wrk printed no count, no rate or no 99%: {text[-400:]}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    lost = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    failures = int(bad[1]) if bad else 0
    failures += sum(map(int, lost.groups())) if lost else 0
    return Told(int(count[1]), float(rate[1]), float(slow[1]) * _UNITS[slow[2]], cpu, failures)


TOOLS: dict[str, tuple[Callable[[str, int, float, float], list[str]], Callable[[str, float], Told]]] = {
    "hey": (hey_words, hey_told),
    "wrk": (wrk_words, wrk_told),
}


def there(name: str) -> bool:
    """Whether the machine has it."""
    return shutil.which(name) is not None


def run(name: str, url: str, users: int, rate: float, seconds: float) -> Told:
    """Run it to its end. Raises ValueError where it fails or says nothing that can be read."""
    words, told = TOOLS[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words(url, users, rate, seconds), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds + 30
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ValueError(f"{name} ended with {done.returncode}: {done.stderr[-300:]}")
    return told(done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
