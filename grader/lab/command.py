"""The command `python -m grader lab build`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from ..errors import UsageError, VoidError
from ..statuses import FAILED, OK, Parser, status_of
from .build import build
from .handout import hand_out, is_checkout
from .master import PUBLIC
from .regions import MasterError

_EXAMPLE = "python -m grader lab build labs/1-max-and-join"


def main(args: list[str]) -> int:
    """Run the command. Returns 0 (built), 1 (refused), 2 (this machine cannot build it), 64 (usage) or 130 (Ctrl-C)."""
    return status_of("python -m grader lab", lambda: _run(args), "interrupted; nothing was written")


def _run(args: list[str]) -> int:
    parser = Parser(prog="python -m grader lab", description="Build labs from their masters.")
    commands = parser.add_subparsers(dest="command", required=True)
    words = "build a lab, after proving that its checks find the wrong solutions in mutants.toml"
    one = commands.add_parser("build", help=words, description=words)
    one.add_argument("lab", metavar="LAB", type=Path, help="the folder of the master, such as labs/1-max-and-join")
    one.add_argument("--out", metavar="DIR", type=Path, help="the folder to write; default: build/labs/NAME")
    one.add_argument("--secret", metavar="FILE", type=Path, help="a file that decides the numbers of hidden checks")
    given = parser.parse_args(args)
    lab = given.lab.resolve()
    out = given.out or Path("build") / "labs" / lab.name
    if is_checkout(lab):
        return _hand_out(lab, out, given.secret)
    if not (lab / "lab.toml").is_file():
        raise UsageError(f"{given.lab} is no master of a lab, which is a folder with lab.toml; example: {_EXAMPLE}")
    secret, began = PUBLIC if given.secret is None else _secret(given.secret), time.monotonic()

    def say(step: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {step}", file=sys.stderr, flush=True)

    try:
        proof = build(lab, out.absolute(), secret, say)
    except MasterError as error:
        print(f"{given.lab} is not built:\n\n" + "\n\n".join(error.problems), file=sys.stderr)
        return FAILED
    except OSError as error:
        raise VoidError(f"this machine could not build it: {error}") from error
    print(f"{out}: student/, solution/, bundle/, gradescope.zip, proof.json")
    print(f"  {len(proof.mutants)} wrong solutions fail as they should; the solution has every point, the stub none")
    if proof.untested:
        print(f"  no wrong solution fails first at {', '.join(proof.untested)}")
    return OK


def _hand_out(lab: Path, out: Path, secret: Path | None) -> int:
    if secret is not None:
        raise UsageError(f"--secret {secret}: the checkout has no hidden checks; leave it out")
    hand_out(lab, out.absolute())
    print(f"{out}: student/, with the system to start from, the tasks and the assignment; break/, for after the lab")
    print("  its wrong solutions are the systems in docs/zoo.md; grade with: python -m grader class ... --lab 6")
    return OK


def _secret(path: Path) -> str:
    try:
        data = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"--secret {path}: cannot be read ({error.strerror})") from None
    if len(data) < 16:
        rule = "a secret has at least 16 bytes, so that it cannot be guessed"
        raise UsageError(f"--secret {path}: {rule}\n  example: head -c 32 /dev/urandom | base64 > {path}")
    if _added(path.absolute()):
        rule = "`git add` would publish it; a secret is in a place that git ignores"
        raise UsageError(f"--secret {path}: {rule}; move it out of the repository, or name it in .gitignore")
    return hashlib.sha256(data).hexdigest()


def _added(path: Path) -> bool:
    """Return whether `git add` would take a file: it is in a work tree, and git tracks it or does not ignore it."""
    try:
        done = subprocess.run(["git", "-C", path.parent, "check-ignore", "-q", path.name], stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return False
    return done.returncode == 1  # 128: not in a work tree
