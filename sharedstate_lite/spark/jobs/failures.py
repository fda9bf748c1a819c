"""What ends a stream: from what Spark says of a micro-batch that failed to the kit's error.

Files that are at fault are excused: their loss is what the caller was told to bring about.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...errors import CheckpointError, Error
from ..query.query import TRIES, reason
from . import sources


def refusal(error: Error, where: Path, files: Iterable[str]) -> Error:
    """A row that was refused, with a note of the ``files`` that its batch came from."""
    named = list(files)
    if named:
        sources.excuse(where, named)
        error.add_note(f"in {', '.join(named)}: {sources.MEND}")
    return error


def missed(fault: CheckpointError | sources.Unopened, where: Path, last: bool) -> Error | None:
    """A file that is lost, or that Spark has left out; None where the ``last`` try is still to come."""
    if not isinstance(fault, sources.Unopened):
        return fault
    empty = Path(fault.file)
    if not last and empty.exists() and empty.stat().st_size:
        return None
    sources.excuse(where, [fault.file])
    return Error(f"{empty}: this file is empty (0 bytes), so Spark leaves it out without a word; {sources.MEND}")


def failure(text: str, raised: BaseException | None, where: Path, last: bool) -> Error | None:
    """A sink that ``raised``, a file that cannot be read; of anything else, that it was the ``last`` time, or None."""
    if raised is not None:
        error = Error(
            f"the sink raised {type(raised).__name__}: {_said(raised)}; mend it, and start the stream again "
            "with the same checkpoint: the batch is given to it once more"
        )
        error.__cause__ = raised
        return error
    file = sources.unreadable(text)
    if file is not None:
        sources.excuse(where, [file])
        return Error(f"{file}: this file cannot be read; {sources.MEND}")
    return Error(f"the stream failed {TRIES} times in the same batch: {reason(text)}") if last else None


def _said(raised: BaseException) -> str:
    try:
        return str(raised)
    except Exception:  # its text is the user's code too, and the stream has to end all the same
        return "its text cannot be shown"


__all__ = ["failure", "missed", "refusal"]
