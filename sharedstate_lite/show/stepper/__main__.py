"""Writes a page with three steppers: Eve's visit under full, shared and partial state. The page needs no network.

python -m sharedstate_lite.show.stepper              write the page to the cache folder, and print its path
python -m sharedstate_lite.show.stepper FILE.html    write the page to this file
python -m sharedstate_lite.show.stepper --open       also open the page in a browser
"""

from __future__ import annotations

import json
import sys
import webbrowser
from html import escape
from pathlib import Path

import sharedstate_lite as ss

from ...replay.messages import Read
from ...system.cache import cache_dir
from ...system.example import ASKED, MESSAGES, SCHEMA, SQL
from ..page import SCRIPT, STEPPER_STYLE
from ..palette import style
from .notebook import Stepper

KINDS = ("full", "shared", "partial")


def example(kind: str) -> Stepper:
    """Return a stepper that begins at the last visit. Under partial state, its category is read before it."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    read = [Read("result", (ASKED,))] if kind == "partial" else []
    messages = [*MESSAGES[:-1], *read, MESSAGES[-1]]
    return Stepper(ss.replay(kind, [view]), messages, at=(len(messages), 1))


def mounted(made: Stepper) -> str:
    """Return a stepper as HTML with its data, which the script mounts when the page is loaded."""
    text = json.dumps(made.data(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<div class="ssl ssl-mount"><script type="application/json">{text}</script>{made.html()}</div>'


def page() -> str:
    """Return the complete page."""
    title = escape("The stepper: one visit under three strategies")
    # The colour scheme is set on the root: on the body, it would leave the page white in a dark browser.
    look = (
        ":root{color-scheme:light dark}"
        "body{max-width:1200px;margin:16px auto;padding:0 12px;font:15px/1.5 Arial,sans-serif}"
    )
    sheet = f"<style>{look}{style()}{STEPPER_STYLE}</style>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>{sheet}'
    size = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    words = "Click into a stepper, and press <kbd>→</kbd>. <kbd>?</kbd> lists all keys."
    parts = "".join(mounted(example(kind)) for kind in KINDS)
    return f"{head}{size}<h1>{title}</h1><p>{words}</p>{parts}<script>{SCRIPT}</script></html>"


def main(arguments: list[str]) -> int:
    """Write the page, and return the exit status."""
    names = [a for a in arguments if not a.startswith("-")]
    if len(names) > 1 or set(arguments) - {*names, "--open"}:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(names[0]).absolute() if names else cache_dir("stepper") / "stepper.html"
    try:
        path.write_text(page(), encoding="utf-8")
    except OSError as error:
        print(f"{path}: cannot write this file ({error.strerror}); use an existing, writable folder", file=sys.stderr)
        return 1
    print(path)
    if "--open" in arguments and not webbrowser.open(path.as_uri()):
        print("no browser was found; open the file yourself", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
