"""Decides whether a failure ends a stream, and with which error.

The error is found in the text of Spark's exception, or it is an exception that was raised in the driver. The files that
an error names are recorded (`sources.report_files`), because the user may remove them before the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...errors import CheckpointError, Error
from ..rounds.errors import TRIES, reason
from . import sources


def refusal(error: Error, where: Path, files: Iterable[str]) -> Error:
    """Record the ``files`` of a batch with a refused row, and return its ``error`` with a note that names the files."""
    named = list(files)
    if named:
        sources.report_files(where, named)
        error.add_note(f"in {', '.join(named)}: {sources.REMEDY}")
    return error


def unread_file(fault: CheckpointError | sources.UnreadFile, where: Path, last: bool) -> Error | None:
    """Return the error for a file that is lost or that Spark skipped, or None to try the batch again.

    A file that Spark skipped although it is not empty ends the stream only on the ``last`` try.
    """
    if not isinstance(fault, sources.UnreadFile):
        return fault
    empty = Path(fault.file)
    if not last and empty.exists() and empty.stat().st_size:
        return None
    sources.report_files(where, [fault.file])
    return Error(f"{empty}: this file is empty (0 bytes), and Spark skips such files silently; {sources.REMEDY}")


def failure(text: str, raised: BaseException | None, where: Path, last: bool) -> Error | None:
    """Return the error that ends the stream, or None to try the batch again.

    ``text`` is the text of Spark's exception. ``raised`` is the exception that the sink raised, if it raised one. The
    stream ends if the sink raised an exception, if a file cannot be read, or if this was the ``last`` try.
    """
    if raised is not None:
        error = Error(
            f"the sink raised {type(raised).__name__}: {_text(raised)}; fix the sink, and start the stream again "
            "with the same checkpoint. The sink then receives this batch again"
        )
        error.__cause__ = raised
        return error
    file = sources.unreadable_file(text)
    if file is not None:
        sources.report_files(where, [file])
        return Error(f"{file}: this file cannot be read; {sources.REMEDY}")
    return Error(f"the stream failed {TRIES} times in the same batch: {reason(text)}") if last else None


def _text(raised: BaseException) -> str:
    try:
        return str(raised)
    except Exception:  # str() runs the user's code, and a failure there must not keep the stream from ending
        return "its message cannot be shown"


__all__ = ["failure", "refusal", "unread_file"]
