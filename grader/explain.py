"""What --explain prints: each phase, in words, and whether this version has it."""

from __future__ import annotations

from .phases import RUN
from .terms import PHASES, POWER_CUT

_TEXTS = {
    "contract": "asks every route, right and wrong, also many times at once, and shows what is not as agreed",
    "duplicates": "sends the same checkout many times, at once, late, at the end; refuses, tops up, tries again",
    "load": "sends different orders at a steady rate, whatever became of earlier ones, and reads everything back",
    "scarcity": "enough stock, then enough credit, for exactly K orders: exactly K must be sold",
    "faults": "kills and pauses every process and database while checkouts run, and sends again what had no answer;\n"
    "                afterwards it must still sell",
    "speed": "raises the rate step by step until the system is the limit",
}

_APART = (
    "starts the system on a disk whose power is cut, three times during checkouts: what was never\n"
    "                synced is gone. A figure of its own, never in verdict or score; in --full where time is left,\n"
    "                or by --power-cut"
)


def explanation() -> str:
    """The page."""
    lines = ["The phases of `python -m grader checkout`, in the order in which they run:", ""]
    for number, phase in enumerate(PHASES, 1):
        there = "" if phase in RUN else " (not built in this version: reported as not tested)"
        lines.append(f"  {number} {phase:<11} {_TEXTS[phase]}{there}")
    lines += [
        "",
        f"  apart {POWER_CUT:<7} {_APART}",
        "",
        "The verdict is made of phases 1 to 5. An order is accepted exactly if 2xx means paid, 4xx means not paid,",
        "every user's credit and every item's stock is what was acknowledged less what is paid, and nothing is",
        "negative.",
        "A 5xx, a timeout or a lost connection promises nothing: the order may be paid or not, but never half.",
        "",
        "Exit: 0 pass, 1 fail, 2 void (could not judge), 64 wrong usage.",
    ]
    return "\n".join(lines)
