"""Texts judged by page.js, which Node.js runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from website.npm import node

HERE = Path(__file__).resolve().parent


def judged(given: Iterable[tuple[dict[str, Any], list[str]]]) -> list[dict[str, tuple[bool | None, str]]]:
    """For each question's data and texts: whether each text is right, and the explanation of a wrong one."""
    program = node()
    if program is None:
        pytest.skip("no Node.js on this machine")
    asked = json.dumps([{"data": data, "texts": texts} for data, texts in given])
    done = subprocess.run([program, HERE / "judge.js"], input=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [{text: (right, why) for text, (right, why) in each.items()} for each in json.loads(done.stdout)]
