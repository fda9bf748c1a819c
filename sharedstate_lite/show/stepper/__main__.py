"""The stepper's frames without a notebook: Eve's visit under the three strategies, on one page.

python -m sharedstate_lite.show.stepper              writes the page, and prints where it is
python -m sharedstate_lite.show.stepper FILE.html    writes it there
python -m sharedstate_lite.show.stepper --open       opens it in a browser, too
python -m sharedstate_lite.show.stepper FILE.svg     writes one frame: MAX takes the visit in, under full state
"""

from __future__ import annotations

import sys
import webbrowser
from html import escape
from pathlib import Path

import sharedstate_lite as ss

from ...replay.messages import Read
from ...system.cache import cache_dir
from ...system.example import ASKED, MESSAGES, SCHEMA, SQL
from .frames import Pages
from .notebook import static, stepper

KINDS = ("full", "shared", "partial")


def frames(kind: str) -> Pages:
    """The steps of the last visit. Under partial state, its category was read before."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    read = [Read("result", (ASKED,))] if kind == "partial" else []
    return static(ss.replay(kind, [view]), [*MESSAGES[:-1], *read, MESSAGES[-1]], width=1000)


def page() -> str:
    """The complete page; nothing on it comes from the network."""
    parts = [pages.html() for pages in map(frames, KINDS)]
    title = escape("The stepper: one visit under three strategies")
    # Set on the root, because on the body it would leave the page white in a dark browser.
    look = (
        ":root{color-scheme:light dark}"
        "body{max-width:1000px;margin:16px auto;padding:0 12px;font:14px/1.5 Arial,sans-serif}"
    )
    words = "In JupyterLab, <code>show.stepper</code> steps through these frames interactively."
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{look}</style>'
    return f"{head}<h1>{title}</h1><p>{words}</p>{''.join(parts)}</html>"


def frame() -> str:
    """One frame as an SVG in the reader's theme: the step at which the answer changes."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    drawn = stepper(ss.replay("full", [view]), MESSAGES, at=(len(MESSAGES), 3))
    return drawn.svg(1000)


def main(arguments: list[str]) -> int:
    """Write the page or the frame. Returns the exit status."""
    names = [a for a in arguments if not a.startswith("-")]
    if len(names) > 1 or set(arguments) - {*names, "--open"}:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(names[0]).absolute() if names else cache_dir("stepper") / "stepper.html"
    try:
        path.write_text(frame() if path.suffix == ".svg" else page(), encoding="utf-8")
    except OSError as error:
        print(f"{path}: cannot write it ({error.strerror}); name a file in an existing folder", file=sys.stderr)
        return 1
    print(path)
    if "--open" in arguments and not webbrowser.open(path.as_uri()):
        print("no browser was found; open the file by hand", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
