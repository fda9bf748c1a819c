"""Findings as files and words: a pure function of the record, byte for byte.

`model` is what every form says, `as_json` is report.json, `as_html` is report.html, `terminal` is what a person reads
at the end, `gradescope` is for a class, `write` writes them into a folder.

The page: `words` (the only way from a value to it), `style`, `timeline` (one order), `groups` (violations by
pattern), `causes` (what usually breaks each rule), `charts`.
"""

from .terminal import told
from .write import write

__all__ = ["told", "write"]
