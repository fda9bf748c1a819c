"""The command `one`: judge one submission, also on Gradescope. It needs the standard library only.

`class` uses `scratch_folder`, too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import statuses
from ..errors import SubmissionError, UsageError
from ..files import as_json, encoded, write
from ..folders import discard, temporary
from ..lab.bundle import read_bundle
from ..lab.judge import Result
from ..outcomes import Outcome
from ..sandbox import Tier
from ..statuses import Parser, status_of
from ..submission.upload import as_handed
from . import gradescope
from .one import one, one_case, waited
from .results import GRADED, VOID, grader_hash, hash_of
from .work import tier_for_labs

_SCRATCH = "grader-class-"


def main(words: list[str]) -> int:
    """Run a command line that begins with one, and return the exit status."""
    return status_of("python -m grader one", lambda: _run(words[1:]), "interrupted")


def _run(words: list[str]) -> int:
    parser = Parser(prog="python -m grader one", description="Grade one submission to a lab, and print its result.")
    parser.add_argument("submission", type=Path, help="a folder, .zip, .py or .ipynb")
    parser.add_argument("--lab", type=Path, required=True, metavar="BUNDLE", help="what `lab build` has written")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--results", type=Path, metavar="FILE", help="also write Gradescope's results.json")
    instead.add_argument("--case", metavar="CHECK:N", help="run one case, also of a hidden check; no result is printed")
    given = parser.parse_args(words)
    only_on_linux()
    bundle = read_bundle(given.lab.absolute())
    if not given.submission.exists():
        raise UsageError(f"{given.submission} is missing; give a folder, .zip, .py or .ipynb")
    files = as_handed(given.submission.absolute(), bundle.lab["hand_in"])
    key = {"submission": hash_of(files), "bundle": bundle.hash, "grader": grader_hash()}
    with scratch_folder({}) as scratch:
        tier, _ = tier_for_labs(scratch, False, (given.lab,))
        print(f"sandbox: tier {tier.number}, {how(tier)}", file=sys.stderr)
        if given.case is not None:
            try:
                return _case(one_case(files, bundle, tier, scratch, given.case))
            except SubmissionError as error:
                print(f"This submission cannot be graded: {error}", file=sys.stderr)
                return statuses.FAILED
        for _ in range(2):  # as `class` does
            place = scratch / uuid.uuid4().hex
            place.mkdir()
            found = one(files, bundle, key, tier, place)
            if not waited(found):
                break
    print(encoded(as_json(found)).decode(), end="")
    if given.results and found["status"] != VOID:  # without the file, Gradescope reports a failure and no score
        write(given.results, gradescope.results(found, bundle.points))
    return {GRADED: statuses.OK, VOID: statuses.VOID}.get(found["status"], statuses.FAILED)


def _case(result: Result) -> int:
    """Print what came in one case, and return the exit status."""
    passed = result.outcome == Outcome.PASS
    outcome, *lines = gradescope.message({**result.as_json(), "hidden": True})
    lines += ["alone   passes alone" if passed else "alone   fails alone"] * (not result.alone)
    print("\n".join([f"{outcome:7} {result.check}:{result.case}", *lines]))
    return statuses.OK if passed else statuses.FAILED


def only_on_linux() -> None:
    """Raise UsageError on other systems."""
    if sys.platform != "linux":
        raise UsageError("submissions are graded only on Linux, because of its sandbox; on Windows, use WSL")


@contextmanager
def scratch_folder(run: dict[str, Any]) -> Iterator[Path]:
    """Make a folder that other users can pass through but not list. Remove it, and one that a killed run has left."""
    top = Path(tempfile.gettempdir())
    left = Path(run.get("scratch") or top / "none")
    if left.parent == top and left.name.startswith(_SCRATCH) and left.is_dir() and left.lstat().st_uid == os.geteuid():
        discard(left)
    with temporary(_SCRATCH) as made:
        made.chmod(0o711)
        run["scratch"] = str(made)
        yield made


def how(tier: Tier, weak: bool = False) -> str:
    """Return what keeps submissions apart, in words."""
    return tier.name if weak or tier.number < 3 else "each submission runs as a user of its own"
