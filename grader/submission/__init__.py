"""A submission: its folder, and its ``checkout.toml`` as values.

`model` holds the values, `reading` parses the file and reports errors with line, field and example, `places` replaces
{port}, {port:NAME}, {data} and {submission}, `archive` unpacks a .zip, .tar or .tar.gz.
"""

from .model import Process, Ready, Submission
from .reading import read_submission

__all__ = ["Process", "Ready", "Submission", "read_submission"]
