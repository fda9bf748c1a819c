"""Colours and type of every picture, light and dark.

The hues are Okabe and Ito's (safe for colour-blind eyes), darkened or lightened until
text reaches a contrast of 4.5 and frames 3 against what is behind them. A picture names
its colours by CSS variables; one style sheet, repeated in each picture, gives them their
values by the surroundings: JupyterLab's theme where there is one, else what the reader's
system prefers.
"""

from __future__ import annotations

LIGHT = {
    "page": "#ffffff",
    "panel": "#f5f5f2",
    "ink": "#1b1f24",
    "muted": "#565e67",
    "hairline": "#d3d6da",
    "frame": "#858c95",
    "badge": "#ffffff",
    "inserted": "#005f99",
    "inserted-tint": "#dcebf6",
    "deleted": "#a83a00",
    "deleted-tint": "#fbe5d8",
    "upquery": "#00694f",
    "handle": "#8a2f66",
    "handle-tint": "#f7e4ef",
}
DARK = {
    "page": "#14171a",
    "panel": "#1e2226",
    "ink": "#e8eaec",
    "muted": "#a3abb4",
    "hairline": "#363c43",
    "frame": "#727b85",
    "badge": "#0d1013",
    "inserted": "#6fbdf0",
    "inserted-tint": "#16344a",
    "deleted": "#ff9d66",
    "deleted-tint": "#452512",
    "upquery": "#45cfa4",
    "handle": "#e79ac8",
    "handle-tint": "#432236",
}
KINDS = {"base": "frame", "join": "inserted", "aggregate": "deleted", "arrangement": "handle", "reader": "upquery"}
"""The colour of each kind of state that ``state()`` knows."""

FAMILY = "Arial, 'Liberation Sans', Helvetica, sans-serif"
MONO = "'Liberation Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
LEAST = 12
"""No text in a picture is smaller, in px."""


def _values(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def style(theme: str | None = None) -> str:
    """The style sheet of a picture, every rule within ``.ssl``; ``theme`` light or dark holds whatever is around."""
    light, dark = _values(LIGHT), _values(DARK)
    if theme == "light" or theme == "dark":
        return f".ssl{{{light if theme == 'light' else dark}color-scheme:{theme}}}{_type()}"
    return (
        f".ssl{{{light}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{.ssl{{{dark}color-scheme:dark}}}}"
        f"body[data-jp-theme-light=true] .ssl,.vscode-light .ssl{{{light}color-scheme:light}}"
        f"body[data-jp-theme-light=false] .ssl,.vscode-dark .ssl{{{dark}color-scheme:dark}}{_type()}"
    )


def _type() -> str:
    return (
        f".ssl text{{font-family:{FAMILY};font-size:{LEAST}px;fill:var(--ink);white-space:pre}}"
        f".ssl .m{{fill:var(--muted)}}.ssl .b{{font-weight:700}}.ssl .i{{font-style:italic}}"
        f".ssl .mono{{font-family:{MONO}}}.ssl .s{{text-decoration:line-through}}"
        f".ssl .u{{text-decoration:underline dotted}}"
    )


def colour(name: str) -> str:
    """A reference to a colour of the style sheet, with its light value where the sheet is absent."""
    return f"var(--{name},{LIGHT[name]})"
