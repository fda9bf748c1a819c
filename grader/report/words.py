"""Turns values into HTML text that is cleaned, truncated and escaped. Also draws the page's signs.

Control, format and direction characters become "?", so that a name cannot hide or reverse the text after it.
"""

from __future__ import annotations

from html import escape

ID, LINE, TEXT = 80, 200, 400
"""The maximum length of an id, of a log line, and of a sentence that quotes a submission, in characters."""


def safe(value: object, most: int = TEXT) -> str:
    """Return a value as escaped text on one line. Longer texts are truncated to ``most`` characters."""
    text = "".join(" " if c.isspace() else c if c.isprintable() else "?" for c in str(value)[: most + 1])
    return escape(text if len(text) <= most else text[: most - 1] + "…")


def code(value: object, most: int = ID) -> str:
    """Return an id, a label or a command as an HTML code element."""
    return f"<code>{safe(value, most)}</code>"


def seconds(value: float) -> str:
    """Return a duration in seconds as text, for example "640 ms", "3.41 s" or "2 min 5 s"."""
    if value < 0:
        return f"−{seconds(-value)}"
    if value < 0.9995:
        return f"{1000 * value:,.{0 if value >= 0.01 or not value else 1}f} ms"
    if value < 99.5:
        return f"{value:.{2 if value < 10 else 0}f} s"
    return f"{int(round(value)) // 60:,} min {int(round(value)) % 60} s"


def counted(number: int, word: str) -> str:
    """Return a number and a noun, for example "1 order" or "2 orders"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def row(*cells: str, kind: str = "td", classes: tuple[str, ...] = (), mark: str = "") -> str:
    """Return a table row as HTML. The cells must already be escaped."""
    marks = [*classes, *[""] * (len(cells) - len(classes))]
    scope = ' scope="col"' if kind == "th" else ""
    inner = (f"<{kind}{scope}{f' class={c!r}' if c else ''}>{x}</{kind}>" for x, c in zip(cells, marks, strict=True))
    return f"<tr{f' class={mark!r}' if mark else ''}>{''.join(inner)}</tr>"


def table(kind: str, *rows: str) -> str:
    """Return a table as HTML. ``kind``: its class.

    >>> table("env", row("a", "b"))
    "<table class='env'><tr><td>a</td><td>b</td></tr></table>"
    """
    return f"<table class='{kind}'>{''.join(rows)}</table>"


def sign(name: str, tone: str = "") -> str:
    """Return a sign as an SVG element. It needs a word next to it, because screen readers skip it."""
    return f'<svg class="sign {tone}" viewBox="0 0 24 24" aria-hidden="true">{_SIGNS[name]}</svg>'


_RING = '<circle cx="12" cy="12" r="9.5" {}/>'
_LINE = 'fill="none" stroke="currentColor" stroke-width="2.2"'
_PAPER = 'fill="none" stroke="var(--paper)" stroke-width="2.6"'
_TICK, _CROSS = "M7 12.5l3.5 3.6L17.2 8.4", "M7.4 7.4l9.2 9.2m0-9.2l-9.2 9.2"
_SIGNS = {
    "pass": _RING.format('fill="currentColor"') + f'<path d="{_TICK}" {_PAPER}/>',
    "fail": f'<rect x="2.5" y="2.5" width="19" height="19" fill="currentColor"/><path d="{_CROSS}" {_PAPER}/>',
    "void": f'<path d="M12 2l10 10-10 10L2 12z" stroke-dasharray="4 2.6" {_LINE}/>',
    "measured": _RING.format(_LINE) + '<circle cx="12" cy="12" r="3.6" fill="currentColor"/>',
    "not_tested": _RING.format(f'stroke-dasharray="2 3.4" {_LINE}'),
    "done": _RING.format(_LINE) + f'<path d="{_TICK}" {_LINE}/>',
    "refused": _RING.format(_LINE) + f'<path d="M7 12h10" {_LINE}/>',
    "unknown": _RING.format(f'stroke-dasharray="4 2.4" {_LINE}')
    + f'<path d="M9 9.6c0-4.2 6.2-4.2 6.2 0 0 2.4-3.1 2.5-3.1 5m0 1.6v1.8" {_LINE}/>',
    "never": f'<path d="M5 19L19 5" stroke-dasharray="3 2.4" {_LINE}/>',
    "kill": '<path d="M2.5 5h19L12 21z" fill="currentColor"/>',
    "pause": '<path d="M6.5 4h4v16h-4zm7 0h4v16h-4z" fill="currentColor"/>',
    "up": f'<path d="M3.5 19h17L12 5z" {_LINE}/>',
    "other": '<circle cx="12" cy="12" r="4" fill="currentColor"/>',
    "read": f'<path d="M12 4l8 8-8 8-8-8z" {_LINE}/>',
}
