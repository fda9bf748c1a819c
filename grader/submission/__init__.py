"""A submission: the folder, and its ``checkout.toml`` as values.

`model` is what a submission is, `reading` makes one of a file or says line, field and example of what is
wrong, `places` fills {port}, {port:NAME}, {data} and {submission}, `archive` unpacks one that comes as a file.
"""

from .model import Process, Ready, Submission
from .reading import read_submission

__all__ = ["Process", "Ready", "Submission", "read_submission"]
