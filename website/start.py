"""How to start: what needs no installation, and what does. Two lines of the first page and of each lesson."""

from __future__ import annotations

import os
import re
import subprocess
from html import escape

from .execution import ROOT

HERE = "read, and answer the predictions."


def lines(notebook: str) -> tuple[str, str]:
    """Return the two lines as HTML. ``notebook`` is the file name of the lesson to open."""
    record = "A line “Measured on …” stands with the figures that are a record of another run."
    here = f"<b>Without installing:</b> {HERE} Outputs are those of a run with small data. {record}"
    file = f'<a href="{notebook}" download>notebooks/{notebook.rpartition("/")[2]}</a>'
    return here, f"<b>On your computer:</b> to run code and write the exercises, {_copy()}, and open {file}."


def _copy() -> str:
    if not (address := repository()):
        return "run <code>make lab</code> in your copy of the kit"
    link = f'<a href="{escape(address)}">{escape(address)}</a>'
    return f"<code>git clone</code> {link}, run <code>make lab</code> in it"


def repository() -> str:
    """Return the address of the repository: REPO_URL, otherwise git's origin; "" if a browser cannot open it."""
    command = ["git", "remote", "get-url", "origin"]
    try:
        origin = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    except OSError:  # no git
        origin = ""
    return public(os.environ.get("REPO_URL") or origin)


def public(remote: str) -> str:
    """Return the address in a browser of a remote of git, without a user's name or password; "" if there is none.

    >>> public("git@example.org:course/kit.git"), public("https://me:secret@example.org/course/kit.git")
    ('https://example.org/course/kit', 'https://example.org/course/kit')
    >>> public("/home/me/kit"), public("file:///home/me/kit")
    ('', '')
    """
    web, ssh = r"https://(?:[^@/]*@)?([^@/]+)/", r"(?:ssh://)?[\w.-]+@([\w.-]+)(?::\d+/|[:/])"
    found = re.fullmatch(rf"(?:{web}|{ssh})(.+?)(?:\.git)?/?", remote.strip())
    return f"https://{found[1] or found[2]}/{found[3]}" if found else ""
