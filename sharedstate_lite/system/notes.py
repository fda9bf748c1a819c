"""Notes: lines such as "continues from state, epoch 1", which engines log and notebooks and commands show.

An engine never prints. It logs to the logger ``sharedstate_lite``, at the level INFO, which Python hides by default. A
notebook that imports the kit, and a command of the kit, call `show_notes`. A program of your own can do so as well, or
configure ``logging``.

>>> from sharedstate_lite.system.notes import note, show_notes
>>> show_notes()
>>> note("continues from state, epoch 1")
continues from state, epoch 1
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path

LOGGER = logging.getLogger("sharedstate_lite")


class NotePrinter(logging.Handler):
    """Prints each note as one line on standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record's message. Standard output is that of the moment: a notebook has one for each cell."""
        sys.stdout.write(f"{record.getMessage()}\n")
        sys.stdout.flush()


def folder_name(folder: str | os.PathLike[str]) -> str:
    """Return a folder as notes name it: without a temporary folder, whose name is another one in every run.

    >>> folder_name("/tmp/tmpk_81qx2z/state"), folder_name("/tmp/tmpk_81qx2z"), folder_name("state")
    ('state', 'a temporary folder', 'state')
    """
    parts = Path(folder).parts
    made = [at for at, part in enumerate(parts) if re.fullmatch(r"tmp[a-z0-9_]{8}", part)]  # by tempfile
    return "/".join(parts[made[-1] + 1 :]) or "a temporary folder" if made else os.fspath(folder)


def note(text: str) -> None:
    """Log one line for the person who runs the engine."""
    LOGGER.info("%s", text)


def continues(folder: str | os.PathLike[str], where: str) -> str:
    """Log that a run continues from its checkpoint ``folder``, and from ``where`` in it. Return both as text."""
    text = f"{folder_name(folder)}, {where}"
    note(f"continues from {text}")
    return text


def note_once(told: set[str], about: str, text: str) -> None:
    """Log one line unless ``told`` says that this was done; ``about`` is then added to it."""
    if about not in told:
        told.add(about)
        note(text)


def show_notes() -> None:
    """Print the notes of all engines from now on. A second call has no effect."""
    if not any(isinstance(each, NotePrinter) for each in LOGGER.handlers):
        LOGGER.addHandler(NotePrinter())
        LOGGER.setLevel(logging.INFO)


__all__ = ["continues", "folder_name", "note", "note_once", "show_notes"]
