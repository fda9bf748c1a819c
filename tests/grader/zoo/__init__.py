"""Systems that test the grader: right ones, and mutants, each a right one with one mistake.

`model` defines both, `of_one` and `of_many` list the mutants, `trial` grades one system, and
``python tests/grader/zoo`` prints the matrix. The folders are the right systems and their shared parts.
"""

from __future__ import annotations

from . import of_many, of_one
from .model import HERE, LABS, RIGHT, Mutant, Right, plant, right, sources

MUTANTS = [*of_one.MUTANTS, *of_many.MUTANTS]

__all__ = ["HERE", "LABS", "MUTANTS", "RIGHT", "Mutant", "Right", "plant", "right", "sources"]
