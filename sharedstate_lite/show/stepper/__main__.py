"""Writes the stepper's frames without a notebook: Eve's visit under the three strategies, on one page.

python -m sharedstate_lite.show.stepper              write the page to the cache folder, and print its path
python -m sharedstate_lite.show.stepper FILE.html    write the page to this file
python -m sharedstate_lite.show.stepper --open       also open the page in a browser
python -m sharedstate_lite.show.stepper FILE.svg     write one frame: MAX receives the visit, under full state
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
    """Return the steps of the last visit. Under partial state, its category is read first."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    read = [Read("result", (ASKED,))] if kind == "partial" else []
    return static(ss.replay(kind, [view]), [*MESSAGES[:-1], *read, MESSAGES[-1]], width=1000)


def page() -> str:
    """Return the complete page, which does not need network access."""
    parts = [pages.html() for pages in map(frames, KINDS)]
    title = escape("The stepper: one visit under three strategies")
    # The colour scheme is set on the root: on the body, it would leave the page white in a dark browser.
    look = (
        ":root{color-scheme:light dark}"
        "body{max-width:1000px;margin:16px auto;padding:0 12px;font:14px/1.5 Arial,sans-serif}"
    )
    words = "In JupyterLab, you can step through these frames interactively with <code>show.stepper</code>."
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{look}</style>'
    return f"{head}<h1>{title}</h1><p>{words}</p>{''.join(parts)}</html>"


def frame() -> str:
    """Return one frame as an SVG in the reader's theme: the step at which the answer changes."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    drawn = stepper(ss.replay("full", [view]), MESSAGES, at=(len(MESSAGES), 3))
    return drawn.svg(1000)


def main(arguments: list[str]) -> int:
    """Write the page or the frame, and return the exit status."""
    names = [a for a in arguments if not a.startswith("-")]
    if len(names) > 1 or set(arguments) - {*names, "--open"}:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(names[0]).absolute() if names else cache_dir("stepper") / "stepper.html"
    try:
        path.write_text(frame() if path.suffix == ".svg" else page(), encoding="utf-8")
    except OSError as error:
        print(f"{path}: cannot write this file ({error.strerror}); use an existing, writable folder", file=sys.stderr)
        return 1
    print(path)
    if "--open" in arguments and not webbrowser.open(path.as_uri()):
        print("no browser was found; open the file yourself", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
