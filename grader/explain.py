"""The text that `--explain` prints: a description of each phase, and the acceptance rule."""

from __future__ import annotations

from textwrap import fill

from .table import JUDGED, TABLE

_RULE = f"""\
Phases 1 to {len(JUDGED)} determine the verdict. A run is accepted if every order that was answered 2xx is paid, every
order that was answered only 4xx is unpaid, every user's credit and every item's stock equals the acknowledged amount
minus the paid orders, and no amount is negative. After a 5xx, a timeout or a lost connection, the order can be paid or
unpaid, but not half paid."""


def explanation() -> str:
    """Return the text that `--explain` prints. A phase that a session does not run has a + in place of its number."""
    lines = ["The phases of `python -m grader checkout`, in the order in which they run:", ""]
    for number, phase in enumerate(TABLE.values(), 1):
        mark = number if phase.share else "+"
        lines.append(
            fill(phase.explains, 110, initial_indent=f"  {mark} {phase.name:<11} ", subsequent_indent=" " * 16)
        )
    exits = "Exit status: 0 pass, 1 fail, 2 void (the grader could not judge), 64 wrong usage."
    return "\n".join([*lines, "", fill(_RULE, 110), "", exits])
