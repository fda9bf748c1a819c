"""Helpers of tests/grader, such as the table of odd answers, can be imported by the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
