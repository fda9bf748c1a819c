"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import re

from sharedstate_lite.data.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_lines_come_now_and_then_and_read_well() -> None:
    """Without a terminal there is a line every ten seconds, with what is done and the time left, and no escapes."""
    now, out = [0.0], io.StringIO()
    progress = Progress("making", 200, out, lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        progress.show(second)
    progress.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 9
    assert lines[0] == "making: 5% in 10 s, 3 min 10 s left"
    assert all(re.fullmatch(r"making: \d+% in \d+ s, .* left", line) for line in lines)


def test_a_terminal_shows_a_bar_that_is_written_over() -> None:
    """On a terminal the line is replaced, and gone at the end."""
    now, out = [0.0], Terminal()
    progress = Progress("making", 4, out, lambda: now[0])
    progress.show(0)
    now[0] = 3.0
    progress.show(3)
    progress.show(3)
    progress.close()
    shown = out.getvalue().split("\r")
    assert "0% in 0 s" in shown[1] and "75% in 3 s, 1 s left" in shown[2]
    assert len(shown) == 4 and "\n" not in out.getvalue() and shown[3] == "\x1b[K"
