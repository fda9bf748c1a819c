"""Shows errors in a notebook: those of the kit with the learner's frames alone, and a NameError with what to run first.

An error of the kit says in one line what was wrong and what to do. The frames of the kit and of Arrow below it would
only push that line out of sight. Any other error that the kit's code raises, for example a TypeError for an argument of
another kind, is shown likewise, and names the function that was called. A cause of the error keeps its place if it was
raised in the learner's own code.
"""

from __future__ import annotations

import contextlib
import json
import os
import symtable
import sys
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import Error

NOTEBOOK = "JPY_SESSION_NAME"
"""The environment variable with the path of the kernel's notebook. Jupyter's server sets it."""
_KIT = ("sharedstate_lite",)
_HIDDEN = {*_KIT, *sys.stdlib_module_names}
_INSTALLED = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def tracebacks(full: bool = False) -> None:
    """Show the kit's errors without the frames of the kit and of other packages, or with all frames if ``full``.

    Outside IPython, this has no effect.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError,) if full else (Exception,), show)


def show(shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    """Show an error of the kit, or a NameError, in the cell that raised it. IPython calls this with its shell."""
    if isinstance(error, Error):
        _shorten(error)
        trace, tb_offset = error.__traceback__, 0
    elif type(error) is NameError and error.name in names_above(shell.history_manager.input_hist_raw[-1], shell):
        error.add_note(f"Another cell of this notebook defines {error.name}: run the cells above first.")
    elif called := _called(error.__traceback__):
        if not called.endswith(".__getattr__"):  # a name that the module does not have, and no call
            error.add_note(f"It was raised in {called}, whose docstring says what it takes.")
        _shorten(error)
        trace, tb_offset = error.__traceback__, 0
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def names_above(cell: str, shell: Any) -> set[str]:
    """Return the names that the kernel's notebook defines, as it was saved last, in the cells above this one.

    If the notebook does not contain the cell, because it was changed, all of its cells count.
    """
    found: set[str] = set()
    if (path := Path(os.environ.get(NOTEBOOK, ""))).suffix == ".ipynb" and path.is_file():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for source in ("".join(each["source"]) for each in cells if each["cell_type"] == "code"):
            if source.strip() == cell.strip():
                break
            with contextlib.suppress(SyntaxError):  # a cell that is not finished defines nothing
                table = symtable.symtable(shell.transform_cell(source), "cell", "exec")
                found |= {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    return found


def _called(trace: TracebackType | None) -> str:
    """Return the kit's function that a learner's frame has called last; "" if the error came from elsewhere."""
    called, own = "", False
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__", "")
        if not _hidden(trace):
            called, own = "", True
        elif own and module.partition(".")[0] in _KIT:
            called, own = f"{module.rpartition('.')[2]}.{code.co_qualname}", False
        trace = trace.tb_next
    return called


def _shorten(error: BaseException | None) -> BaseException | None:
    """Leave only the learner's frames in an error and its causes. Returns the first of them that has such a frame."""
    if error is None:
        return None
    error.__cause__ = _shorten(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    error.__traceback__ = _own(error.__traceback__)
    return error if error.__traceback__ else error.__cause__


def _own(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of the kit, of the standard library and of installed packages."""
    if trace is None:
        return None
    rest = _own(trace.tb_next)
    if _hidden(trace):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def _hidden(trace: TracebackType) -> bool:
    """Return whether a frame is one of the kit, of the standard library or of an installed package."""
    module = trace.tb_frame.f_globals
    top = str(module.get("__name__")).partition(".")[0]
    return top in _HIDDEN or str(module.get("__file__")).startswith(_INSTALLED)
