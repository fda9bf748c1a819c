"""Build a lab from its master. The same master gives the same bytes.

student/       README.md, solution.py (the stub), lab.ipynb, checks.py (visible ones), lab.json, grader/ (runs them)
solution/      solution.py and lab.ipynb, with the cells for teachers
bundle/        what a class is graded with
break/         README.md, histories.txt, break.json: what students get after the lab, if checks.py has a reader
gradescope.zip an autograder for Gradescope, with the bundle
proof.json     what each wrong solution answers
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

from ..errors import UsageError
from ..files import as_json, whole, write_all
from ..folders import temporary
from ..student.files import FILES
from .breaking import BREAK, HISTORIES, MOST, NEAR
from .bundle import STUB, digest
from .checks import CHECKS
from .cover import breakable
from .fields import HAND_IN, TOTAL
from .gradescope import NAME, packed
from .master import PUBLIC, Master, disagreements, read
from .notebook import run
from .prove import Proof, Say, prove
from .regions import MasterError
from .strip import leaks, solved, student_notebook

GRADER = Path(__file__).resolve().parents[1]
PROOF = "proof.json"
_README = """# Lab {number}: {title}

You need Python 3.11 or later, and no packages. The lab takes about {minutes} minutes.

1. Read `lab.ipynb` up to the first task. If you have no Jupyter, an editor such as VS Code shows it, too.
2. Write the task in `solution.py`. Each place that you have to fill in raises NotImplementedError.
3. Open a terminal in this folder, and run the checks. If `python` is older than 3.11 or missing, try `python3` or, on
   Windows, `py -3`:

       python -m grader check

   The first check that fails prints a small case, the right answer and yours. `--all` runs the checks of all tasks,
   `--task 2` those of one task, and `--case CHECK:N` one case.
4. Hand in `solution.py`.

The tasks:

{tasks}

Checks that you can run: {visible}, for {points:g} of {total} points. Hidden checks: {hidden}, for the other points.
Cells of the notebook that import `sharedstate_lite` need the kit that this lab comes from. They have no points.
"""
_BREAK = """# Break lab {number}: {title}

A test is good if it fails for wrong programs. `break.json` has {wrong} wrong solutions of this lab. Find histories that
expose them: a history exposes a wrong solution if its answer differs from that of the right one.

1. Put this folder into the folder of the lab, beside `checks.py`.
2. Write `{histories}`, one history a line, in the notation of the traces that `check` prints. A comment begins with
   `#`. The first lines of the file say what you can write. You can paste what `check` prints: only its traces are
   read. A line that begins with a blank continues the line above.
3. Open a terminal in the folder of the lab:

       python -m grader break

   It prints which wrong solutions each history exposes, and which are at large.
4. Hand in `{histories}`.

A change is what stands between two of the marks `|` and `,`. A history has at most {longest} of them. Each wrong
solution that you expose is a point. The shortest set of histories known that exposes all of them has {known} changes.
If all of your histories together have at most {most} changes, you have a bonus of a tenth of your points.
"""
_HISTORIES = """# Histories for lab {number}, one a line. A comment begins with #.
{notation}
"""


def build(lab: Path, out: Path, secret: str = PUBLIC, say: Say = lambda step: None) -> Proof:
    """Build a lab into ``out``, which appears complete or not at all. An earlier build is replaced.

    ``say`` receives each step when it starts. Raises MasterError with the problems of the first step that finds some,
    and UsageError if ``out`` is something else.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / PROOF).is_file())):
        raise UsageError(f"{out} is not an earlier build, and is not overwritten; choose another folder with --out")
    with temporary("lab-") as work:
        say("master")
        master = read(lab, work, secret)
        _none(disagreements(master))
        prose = "\n".join(cell.source for cell in student_notebook(master.notebook).cells)
        _none(leaks(master, {**student(master), "lab.ipynb": prose}))
        proof = prove(master, work, say)
        _none(proof.problems)
        grader = {f"grader/{name}": (GRADER / name).read_text(encoding="utf-8") for name in FILES}
        files, bundle = {**student(master, proof.known), **grader}, bundled(master, proof)
        teachers = {HAND_IN: solved(master.solution), "lab.ipynb": _ipynb(student_notebook(master.notebook, True))}
        broken = breakable(master, proof, work, say)
        say("notebook")
        _try_notebook(master, files, work / "notebook")
        with whole(out) as made:
            write_all(made / "student", files)
            write_all(made / "solution", teachers)
            write_all(made / "bundle", {**bundle, **({BREAK: as_json(broken)} if broken else {})})
            write_all(made / "break", to_break(broken) if broken else {})
            (made / "bundle").chmod(0o700)  # a submission may run as another user of this machine
            (made / NAME).write_bytes(packed(bundle))
            (made / NAME).chmod(0o600)
            summary = {"version": 1, "lab": master.lab["number"], "bundle": bundle["hash"].strip()}
            write_all(made, {PROOF: as_json({**summary, "solution": TOTAL, "stub": 0, "mutants": proof.mutants})})
    return proof


def student(master: Master, known: dict[str, dict[str, str]] | None = None) -> dict[str, str]:
    """Return the files of student/, without grader/. ``known``: what is wrong with wrong solutions, by fingerprint."""
    visible, hidden = ([one for one in master.checks if one.hidden is hidden] for hidden in (False, True))
    lab = {
        **_about(master, "minutes"),
        "points": {one.id: master.lab["points"][one.id] for one in visible},
        "hidden": {"checks": len(hidden), "points": master.points(hidden)},
        "hints": {one.id: known[one.id] for one in visible if known and known.get(one.id)},
    }
    return {
        "README.md": _README.format(
            **{name: master.lab[name] for name in ("number", "title", "minutes")},
            tasks="\n".join(f"{number}. {said}" for number, said in master.lab["tasks"].items()),
            visible=len(visible),
            hidden=len(hidden),
            points=master.points(visible),
            total=TOTAL,
        ),
        HAND_IN: master.stub,
        "lab.ipynb": _ipynb(student_notebook(master.notebook)),
        CHECKS: master.checks_texts[CHECKS],
        "lab.json": as_json(lab),
    }


def to_break(broken: dict[str, Any]) -> dict[str, str]:
    """Return the files of break/. ``broken``: what `cover.breakable` returns."""
    about = {"number": broken["number"], "title": broken["title"], "known": broken["known"]}
    readme = _BREAK.format(
        **about, wrong=len(broken["wrong"]), histories=HISTORIES, most=int(broken["known"] * NEAR), longest=MOST
    )
    notation = "\n".join(f"# {line}".rstrip() for line in broken["notation"].splitlines())
    example = _HISTORIES.format(**about, notation=notation)
    content = {name: value for name, value in broken.items() if name not in ("set", "notation")}
    return {"README.md": readme, HISTORIES: example, BREAK: as_json(content)}


def bundled(master: Master, proof: Proof) -> dict[str, str]:
    """Return the files of bundle/."""
    lab = {
        **_about(master, "memory_mib"),
        "checks": [
            {"id": one.id, "task": one.task, "rule": one.rule, "number": one.number, "hidden": one.hidden}
            for one in master.checks
        ],
        "known": {one.id: proof.known[one.id] for one in master.checks if proof.known.get(one.id)},
    }
    files = {**master.checks_texts, "lab.json": as_json(lab)}
    points = "".join(f'"{one.id}" = {master.lab["points"][one.id]}\n' for one in master.checks)
    return {**files, "hash": f"{digest(files)}\n", "points.toml": f"[points]\n{points}", STUB: master.stub}


def _about(master: Master, more: str) -> dict[str, Any]:
    return {"version": 1, **{name: master.lab[name] for name in ("number", "title", more, "hand_in", "tasks")}}


def _try_notebook(master: Master, files: dict[str, str], folder: Path) -> None:
    # The student's cells run first, so that none of them needs a cell for teachers.
    notebook = student_notebook(master.notebook)
    notebook.cells += [cell for cell in student_notebook(master.notebook, True).cells if cell not in notebook.cells]
    write_all(folder, {**files, HAND_IN: master.solution, "lab.ipynb": _ipynb(notebook)})
    if said := run(folder / "lab.ipynb"):
        raise MasterError(f"lab.ipynb: with the solution beside it, a cell fails:\n{said}")


def _ipynb(notebook: Any) -> str:
    return str(nbformat.writes(notebook)).rstrip("\n") + "\n"


def _none(problems: list[str]) -> None:
    if problems:
        raise MasterError(*problems)
