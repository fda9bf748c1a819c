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
    """The steps of the last visit; under partial state its category has been read before."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    read = [Read("result", (ASKED,))] if kind == "partial" else []
    return static(ss.replay(kind, [view]), [*MESSAGES[:-1], *read, MESSAGES[-1]], width=1000)


def page() -> str:
    """A page of its own; nothing on it comes from the network."""
    parts = [pages.html() for pages in map(frames, KINDS)]
    title = escape("The stepper: one visit under three strategies")
    # Of the root: on the body it would leave the page behind the frames white in a dark browser.
    look = (
        ":root{color-scheme:light dark}"
        "body{max-width:1000px;margin:16px auto;padding:0 12px;font:14px/1.5 Arial,sans-serif}"
    )
    words = (
        "Where no widget runs these frames stand for it; in JupyterLab, <code>show.stepper</code> steps through them."
    )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{look}</style>'
    return f"{head}<h1>{title}</h1><p>{words}</p>{''.join(parts)}</html>"


def frame() -> str:
    """One frame as an SVG of its own, in the reader's own colours: the step at which the answer changes."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    drawn = stepper(ss.replay("full", [view]), MESSAGES, at=(len(MESSAGES), 3))
    return drawn.svg(1000)


def main(arguments: list[str]) -> int:
    """Write the page. Returns the exit status."""
    names = [a for a in arguments if not a.startswith("-")]
    if len(names) > 1 or set(arguments) - {*names, "--open"}:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(names[0]).absolute() if names else cache_dir("stepper") / "stepper.html"
    try:
        path.write_text(frame() if path.suffix == ".svg" else page(), encoding="utf-8")
    except OSError as error:
        print(
            f"{path}: it cannot be written ({error.strerror}); name a file in a folder that is there", file=sys.stderr
        )
        return 1
    print(path)
    if "--open" in arguments and not webbrowser.open(path.as_uri()):
        print("no browser was found to open it in", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
