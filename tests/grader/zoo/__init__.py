"""Right systems, each a folder that can be graded, and wrong ones: a right one with one place made wrong.

`model` is what they are, `of_one` and `of_many` are the mutants, `trial` grades one of them, and
``python tests/grader/zoo`` prints the matrix. The other folders are the systems and what they share.
"""

from __future__ import annotations

from . import of_many, of_one
from .model import HERE, RIGHT, Mutant, Right, plant, right

MUTANTS = [*of_one.MUTANTS, *of_many.MUTANTS]

__all__ = ["HERE", "MUTANTS", "RIGHT", "Mutant", "Right", "plant", "right"]
