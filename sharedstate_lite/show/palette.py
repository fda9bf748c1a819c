"""The colours and fonts of all pictures, for light and dark pages.

The hues are those of Okabe and Ito, which colour-blind readers can distinguish. They are darkened or lightened so that
text has a contrast of at least 4.5 against its background, and frames have a contrast of at least 3. Pictures refer to
their colours by CSS variables. Each picture contains the same style sheet, which sets these variables according to
JupyterLab's theme, or if there is none, according to the reader's system.

Source: Okabe and Ito, Color Universal Design, 2008; WCAG 2.1, 1.4.3 and 1.4.11.
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
FAMILY = "Arial, 'Liberation Sans', Helvetica, sans-serif"
MONO = "'Liberation Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
LEAST = 12
"""The smallest font size in a picture, in px."""


def _values(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def style(theme: str | None = None) -> str:
    """Return the style sheet of a picture. Its rules apply only inside elements of the class ``ssl``.

    ``theme`` is light or dark; if it is None, the picture follows the theme of the page around it.
    """
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
    """Return a CSS reference to a colour of the style sheet, with its light value as the fallback."""
    return f"var(--{name},{LIGHT[name]})"
