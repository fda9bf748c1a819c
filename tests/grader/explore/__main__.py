"""Explore each system of the tests, and print the tables of docs/zoo.md.

    python tests/grader/explore [--only NAME,NAME] [--stored [FILE]] [--write]

A system takes minutes. Its result is stored in the cache folder, so an interrupted run goes on where it was, and the
slow tests of test_wrong.py use the same results. Exit 0: a system is blamed if and only if expected.toml says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE.parent), str(HERE)]

from explored import COMMITTED, PAGE, STORED, TRIALS, committed, result_of, tables, written  # noqa: E402
from zoo.__main__ import cached  # noqa: E402

from grader.errors import VoidError  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python tests/grader/explore", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names of systems; the others keep the results that are committed")
    parser.add_argument(
        "--stored", type=Path, nargs="?", const=cache_dir() / STORED, help="run nothing; use the last results in a file"
    )
    parser.add_argument("--write", action="store_true", help="write the results and the tables of docs/zoo.md")
    given = parser.parse_args()
    only = set(filter(None, given.only.split(",")))
    if unknown := only - TRIALS.keys():
        parser.error(f"--only: unknown system {', '.join(sorted(unknown))}; docs/zoo.md lists all")
    results = {result["name"]: result for result in committed()} if only or given.stored else {}
    wanted = [trial for name, trial in TRIALS.items() if not only or name in only]
    complaints = 0
    if given.stored:
        last = {key.split()[0]: result for key, result in cached(given.stored).items() if key.count(" ") == 2}
        results |= {trial.name: {"name": trial.name, **last[trial.name]} for trial in wanted if trial.name in last}
    for number, trial in enumerate(wanted, 1):
        if not given.stored:
            with tempfile.TemporaryDirectory(prefix="explored-") as folder:
                try:
                    with contextlib.redirect_stdout(sys.stderr):
                        results[trial.name] = result_of(trial, Path(folder) / trial.name)
                except VoidError as error:
                    complaints += 1
                    print(f"VOID: {trial.name}: {error}", file=sys.stderr)
                except KeyboardInterrupt:
                    print("stopped; run the same command to resume", file=sys.stderr)
                    return 130
        if trial.name in results and (said := trial.complaint(results[trial.name])):
            complaints += 1
            print(f"WRONG: {trial.name}: {said}", file=sys.stderr)
        print(f"[{number} of {len(wanted)}] {trial.role} {trial.name}", file=sys.stderr, flush=True)
    kept = [results[name] for name in TRIALS if name in results]
    print(tables(kept))
    if given.write:
        COMMITTED.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
        PAGE.write_text(written(PAGE.read_text(), kept))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
