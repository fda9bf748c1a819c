"""The reports of a run. Each is a pure function of the record, so the same record gives the same bytes.

`model` holds the sentences that all reports share, `as_json` makes report.json, `as_html` report.html, `terminal` the
summary, `gradescope` the files for a class, and `write` writes them all into a folder.

The page has these parts: `words` (escapes every value), `style`, `timeline` (one order), `groups` (violations by
pattern), `causes` (the usual cause of each rule), `charts`, `powercut`.
"""

from .terminal import summary
from .write import write

__all__ = ["summary", "write"]
