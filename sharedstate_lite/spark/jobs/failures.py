"""Why a stream ends: from the text of Spark's exception, or the driver's own, to an error of the kit.

The files that an error names are noted (`sources.report_files`): the user may remove them before the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...errors import CheckpointError, Error
from ..query.errors import TRIES, reason
from . import sources


def refusal(error: Error, where: Path, files: Iterable[str]) -> Error:
    """The error of a refused row, with a note that names the ``files`` of its batch."""
    named = list(files)
    if named:
        sources.report_files(where, named)
        error.add_note(f"in {', '.join(named)}: {sources.REMEDY}")
    return error


def unread_file(fault: CheckpointError | sources.UnreadFile, where: Path, last: bool) -> Error | None:
    """The error for a file that is lost, or that Spark skipped; None to try again, unless this was the ``last`` try."""
    if not isinstance(fault, sources.UnreadFile):
        return fault
    empty = Path(fault.file)
    if not last and empty.exists() and empty.stat().st_size:
        return None
    sources.report_files(where, [fault.file])
    return Error(f"{empty}: this file is empty (0 bytes), and Spark skips such files silently; {sources.REMEDY}")


def failure(text: str, raised: BaseException | None, where: Path, last: bool) -> Error | None:
    """The error for a sink that ``raised``, for an unreadable file, or for the ``last`` try; None to try again."""
    if raised is not None:
        error = Error(
            f"the sink raised {type(raised).__name__}: {_text(raised)}; correct it, and start the stream again "
            "with the same checkpoint: the sink receives the batch once more"
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
    except Exception:  # str() runs the user's code, and the stream must end in any case
        return "its text cannot be shown"


__all__ = ["failure", "refusal", "unread_file"]
