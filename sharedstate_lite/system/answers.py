"""The answers to predictions, kept beside the learner's copies of the notebooks.

Each notebook has one file, ``work/answers/NOTEBOOK.json``, which maps the text of a question to the typed answer. It
survives a restart of the kernel and an update of the kit. Outside the learner's folder, nothing is kept.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from .notes import note
from .work import read_record, work_folder, write_record


def read(notebook: str, question: str) -> str | None:
    """Return the answer to a question, or None if it was not answered."""
    file = _file(notebook)
    try:
        found = None if file is None else read_record(file).get(question)
    except OSError as error:
        note(f"{file}: the answers cannot be read ({error.strerror})")
        return None
    return found if isinstance(found, str) else None


def write(notebook: str, question: str, answer: str | None) -> None:
    """Keep the answer to a question, in place of an earlier one. None forgets it.

    If the file cannot be written, a note says so, because a lesson can go on without it.
    """
    file = _file(notebook)
    if file is None:
        return
    try:
        found = read_record(file) | {question: answer}
        write_record(file, {asked: given for asked, given in found.items() if given is not None})
    except OSError as error:
        note(f"{file}: the answer was not kept ({error.strerror})")


def _file(notebook: str) -> Path | None:
    folder = work_folder()
    return None if folder is None else folder / "answers" / f"{quote(notebook, safe=' ')}.json"


__all__ = ["read", "write"]
