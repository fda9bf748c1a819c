"""The text that `--explain` prints: a description of each phase, and the acceptance rule."""

from __future__ import annotations

from .phases import RUN
from .terms import PHASES, POWER_CUT

_TEXTS = {
    "contract": "calls every route with valid and invalid arguments, some of them concurrently, and lists all\n"
    "                wrong answers",
    "duplicates": "repeats checkouts concurrently, later and at the end of the run; also sends orders that must be\n"
    "                refused, adds the missing stock or credit, and sends them again",
    "load": "sends checkouts of different orders at a steady rate, without waiting for answers, and then reads\n"
    "                every order, user and item",
    "scarcity": "supplies stock, and later credit, for exactly K orders, and checks that exactly K are sold",
    "faults": "kills and pauses every process and database during checkouts, and repeats unanswered checkouts;\n"
    "                the shop must still sell afterwards",
    "speed": "raises the rate until the system cannot keep up",
}

_APART = (
    "cuts the power of the system's disk three times during checkouts. Data that was never synced is lost.\n"
    "                The result affects neither the verdict nor the score. --full includes this test if there\n"
    "                is time left; --power-cut always includes it"
)


def explanation() -> str:
    """Return the text that `--explain` prints."""
    lines = ["The phases of `python -m grader checkout`, in the order in which they run:", ""]
    for number, phase in enumerate(PHASES, 1):
        there = "" if phase in RUN else " (not in this version: reported as not tested)"
        lines.append(f"  {number} {phase:<11} {_TEXTS[phase]}{there}")
    lines += [
        "",
        f"  + {POWER_CUT:<11} {_APART}",
        "",
        "Phases 1 to 5 determine the verdict. A run is accepted if every order that was answered 2xx is paid, every",
        "order that was answered only 4xx is unpaid, every user's credit and every item's stock equals the",
        "acknowledged amount minus the paid orders, and no amount is negative.",
        "After a 5xx, a timeout or a lost connection, the order can be paid or unpaid, but not half paid.",
        "",
        "Exit status: 0 pass, 1 fail, 2 void (the grader could not judge), 64 wrong usage.",
    ]
    return "\n".join(lines)
