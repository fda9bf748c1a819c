"""The text that --explain prints: what each phase does, and the rule of acceptance."""

from __future__ import annotations

from .phases import RUN
from .terms import PHASES, POWER_CUT

_TEXTS = {
    "contract": "calls every route with valid and invalid arguments, also many times at once, and lists wrong answers",
    "duplicates": "repeats checkouts at once, later and at the end; gets orders refused, tops up, tries again",
    "load": "sends different orders at a steady rate, without waiting for answers, and reads everything back",
    "scarcity": "supplies stock, then credit, for exactly K orders: exactly K must be sold",
    "faults": "kills and pauses every process and database during checkouts, and repeats what got no answer;\n"
    "                the shop must still sell afterwards",
    "speed": "raises the rate until the system cannot follow",
}

_APART = (
    "cuts the power of the system's disk three times during checkouts: what was never synced is lost.\n"
    "                This figure is in neither verdict nor score; --full measures it if time is left,\n"
    "                --power-cut always"
)


def explanation() -> str:
    """The text."""
    lines = ["The phases of `python -m grader checkout`, in the order in which they run:", ""]
    for number, phase in enumerate(PHASES, 1):
        there = "" if phase in RUN else " (not in this version: reported as not tested)"
        lines.append(f"  {number} {phase:<11} {_TEXTS[phase]}{there}")
    lines += [
        "",
        f"  + {POWER_CUT:<11} {_APART}",
        "",
        "Phases 1 to 5 make the verdict. A run is accepted if every order answered 2xx is paid, no order answered",
        "only 4xx is, every user's credit and every item's stock is what was acknowledged less the paid orders, and",
        "nothing is negative.",
        "A 5xx, a timeout or a lost connection promises nothing: the order may be paid or not, but never half.",
        "",
        "Exit: 0 pass, 1 fail, 2 void (the grader could not judge), 64 wrong usage.",
    ]
    return "\n".join(lines)
