"""Writes the reports of a run. They depend only on the record: the same record always produces the same bytes.

`model` contains the sentences that all reports share. `as_json` makes report.json, `as_html` makes report.html,
`terminal` makes the summary, `gradescope` makes results.json, and `write` writes all files into a folder.
`compare` finds what this grader changes in an earlier report.json.

The HTML page uses these modules: `words` (escapes every value), `style` (the CSS), `timeline` (one order), `groups`
(violations by pattern), `causes` (the usual cause of each violation), `charts` and `powercut`.

The names below are loaded when they are first used, because `style` and `words` do not need numpy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compare import compare
    from .terminal import summary
    from .write import write, write_void

__all__ = ["compare", "summary", "write", "write_void"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .compare import compare
    from .terminal import summary
    from .write import write, write_void

    # The functions replace the modules of the same name.
    globals().update(compare=compare, summary=summary, write=write, write_void=write_void)
    return globals()[name]
