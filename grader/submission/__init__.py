"""A submission: its folder, and the content of its ``checkout.toml``.

`model` defines the content as dataclasses, `reading` parses the file and reports errors with line, field and example,
`places` replaces {port}, {port:NAME}, {data} and {submission}, and `archive` unpacks a .zip, .tar or .tar.gz.
"""

from .model import Process, Ready, Submission
from .reading import read_submission

__all__ = ["Process", "Ready", "Submission", "read_submission"]
