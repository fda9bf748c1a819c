"""`lab build`: what it writes, what it refuses, and that a refused or interrupted build writes nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import lab_master
import pytest
from lab_master import CELLS, CHECKS, HIDDEN, LAB, MUTANTS, SOLUTION

from grader.errors import UsageError
from grader.lab import drawn
from grader.lab.build import build, student
from grader.lab.bundle import read_bundle
from grader.lab.command import main
from grader.lab.cover import breakable
from grader.lab.judge import Judged, Result
from grader.lab.master import disagreements, read
from grader.lab.prove import Proof, _right, prove
from grader.lab.regions import MasterError, stub
from grader.lab.strip import leaks
from grader.outcomes import Outcome
from grader.student import command as student_command


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab, built once."""
    tmp = tmp_path_factory.mktemp("labs")
    build(lab_master.write(tmp / "9-sums"), tmp / "out")
    return tmp / "out"


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(folder: Path, work: Path, **texts: Any) -> str:
    """Why a master is refused before any of its code runs."""
    work.mkdir()
    with pytest.raises(MasterError) as error:
        master = read(lab_master.write(folder, **texts), work)
        if problems := disagreements(master):
            raise MasterError(*problems)
        student(master)
    return str(error.value)


def test_what_a_build_writes(built: Path) -> None:
    """The stub raises, the visible checks are there with what they use, and the bundle has the fingerprints."""
    assert {path.name for path in built.iterdir()} == {"student", "solution", "bundle", "gradescope.zip", "proof.json"}
    assert (built / "student" / "solution.py").read_text().count("raise NotImplementedError(") == 4
    assert (built / "solution" / "solution.py").read_text() == "".join(
        line for line in SOLUTION.splitlines(keepends=True) if "###" not in line
    )
    readme = (built / "student" / "README.md").read_text()
    assert readme.startswith("# Lab 9: Sums\n") and "1. add\n2. The sum\n" in readme
    assert "run: 2, for 60 of 100 points. Hidden checks: 2, for the other points.\n" in readme
    assert "\n       python -m grader check\n" in readme
    assert all((built / "student" / name).exists() for name in re.findall(r"`(\w+\.\w+)`", readme))
    assert (built / "student" / "checks.py").read_text() == CHECKS
    assert (built / "bundle" / "hidden.py").read_text() == HIDDEN
    copy = b"".join(files(built / "student").values())
    assert not any(word in copy for word in (b"NUMBERS", b"adds_drawn", b"sum.restart", b"The tens of the first"))
    hidden = json.loads((built / "student" / "lab.json").read_text())["hidden"]
    assert hidden == {"checks": 2, "points": 40}
    assert "Most students" not in (built / "student" / "lab.ipynb").read_text()
    assert "Most students" in (built / "solution" / "lab.ipynb").read_text()
    bundle = read_bundle(built)
    assert list(bundle.points) == [one["id"] for one in bundle.lab["checks"]]
    assert list(bundle.known["sum.signs"].values()) == ["The sum never becomes smaller."]
    assert (built / "bundle").stat().st_mode & 0o077 == 0
    proof = json.loads((built / "proof.json").read_text())
    assert proof["bundle"] == bundle.hash
    assert [(one["check"], one["right"], one["got"]) for one in proof["mutants"]] == [
        ("add", "1", "10"),
        ("add.drawn", "80", "79"),
        ("sum.signs", "[1, 0]", "[1, 1]"),
        ("sum.restart", "3", "2"),
    ]


def test_a_hint_is_for_its_mistake_only(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lab.json has the hints of visible checks. `check` shows one for its wrong solution, and for no other."""
    says = "The digits are put next to each other."
    hints = json.loads((built / "student" / "lab.json").read_text())["hints"]
    assert list(hints) == ["add", "sum.signs"] and list(hints["add"].values()) == [says]
    shutil.copytree(built / "student", tmp_path / "student")
    for wrong, shown in (("return a + b + (a == 2)", False), ("return int(f'{a}{b}')", True)):
        (tmp_path / "student" / "solution.py").write_text(SOLUTION.replace("return a + b", wrong))
        assert student_command.main([str(tmp_path / "student")]) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert "wrong add rule" in said and (says in said) == shown


def test_the_same_bytes_and_a_secret(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same master gives the same bytes. A secret changes nothing but hidden.py in the bundle, and what follows."""
    monkeypatch.setattr("grader.lab.build._try_notebook", lambda *args: None)  # it writes nothing, and takes seconds
    lab, out, secret = lab_master.write(tmp_path / "9-sums"), tmp_path / "out", tmp_path / "secret"
    secret.write_text("twelve different words of the teacher")
    assert main(["build", str(lab), "--out", str(out)]) == 0
    assert "4 wrong solutions fail as they should" in capsys.readouterr().out
    assert files(out) == files(built)
    assert main(["build", str(lab), "--out", str(out), "--secret", str(secret)]) == 0
    drawn_again = files(out)
    changed = {name for name, data in files(built).items() if drawn_again[name] != data}
    assert changed == {"bundle/hidden.py", "bundle/lab.json", "bundle/hash", "gradescope.zip", "proof.json"}
    assert b"twelve different" not in b"".join(drawn_again.values())


def mutant(name: str, of: str, *changes: tuple[str, str]) -> str:
    """Another wrong solution: a copy of one in MUTANTS, with texts replaced."""
    (text,) = re.findall(rf"^\[{of}\]\n.*?(?:\n\n|\Z)", MUTANTS, re.DOTALL | re.MULTILINE)
    for old, new in (*changes, (f"[{of}]", f"[{name}]")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return f"{text.strip()}\n\n"


ODD_MUTANTS = {
    "[also-concatenates]: gives the answers of [concatenates] in add, but says something else": (
        "concatenates", ("The digits", "Numbers")),
    "[elsewhere]: fails first at sum.restart, not at sum.signs": (
        "forgets", ('check = "sum.restart"', 'check = "sum.signs"')),
    'found: trace = "[1] | restart | [2]"': ("forgets", ("| [2]", "| [3]")),
    "[right]: passes all checks": ("forgets", ('"        pass"', '"        self.total = int(saved)"')),
    "[other-rule]: sum.signs checks rule 3, not rule 4": ("only-grows", ("rule = 3", "rule = 4")),
    "[ends]: its process ends in sum.signs": (
        "only-grows", ("max(self.total, add(self.total, change))", "__import__('os')._exit(0)")),
}  # fmt: skip
NAMES = ("also-concatenates", "elsewhere", "other-trace", "right", "other-rule", "ends")
COPIES = "".join(mutant(name, *how) for name, how in zip(NAMES, ODD_MUTANTS.values(), strict=True))


@pytest.mark.parametrize(
    ("texts", "all_said"),
    [
        ({"mutants": f"{MUTANTS}\n{COPIES}"}, [*ODD_MUTANTS]),
        ({"checks": CHECKS.replace("(0, 1, 2), repeat=2", "(0, 1), repeat=2"),
          "hidden": HIDDEN.replace("in (NUMBERS, [NUMBERS[1], NUMBERS[0]])", "in ()"),
          "lab": LAB.replace('"sum.restart" = 1\n', ""),
          "solution": SOLUTION.replace("self.total = 0", "self.total = 1")},
         ["lab.toml: [cases] add: is 9, but the solution is asked 4 cases; both must agree",
          "add.drawn: the stub passes it",
          "[cases] sum.restart: is missing, but the solution is asked 1 cases",
          "sum.signs: the solution fails it (wrong): trace '[[1]]', right '[1]', got '[2]'"]),
        ({"checks": CHECKS.replace("[[1], [-1]], [[2, -1], [1]]", "[[1], [3]]"),
          "solution": SOLUTION.replace("    ### BEGIN SOLUTION task 1: add both\n    return a + b\n",
          "    return a + b\n    ### BEGIN SOLUTION task 1: add both\n    pass\n")},
         ["[only-grows]: passes all checks", "add: the stub passes it"]),
        ({"checks": CHECKS.replace("yield Case(str(epochs)", "yield Case(str(1 / 0)")},
         ["checks.py, line 25: the check raised ZeroDivisionError"]),
    ],
)  # fmt: skip
def test_what_the_proof_refuses(texts: dict[str, str], all_said: list[str], tmp_path: Path) -> None:
    """A wrong solution with another check, trace, text or rule, a weaker check, and a solved stub are refused."""
    lab = lab_master.write(tmp_path / "9-sums", **texts)
    with pytest.raises(MasterError) as error:
        build(lab, tmp_path / "out")
    assert [said for said in all_said if said not in str(error.value)] == []
    assert not (tmp_path / "out").exists()


def test_a_solution_that_takes_too_long_is_refused() -> None:
    """The solution takes at most a tenth of a check's limit, so that slower right solutions pass, too."""
    proof = Proof()
    passed = Result("add", 1, "add(a, b) adds two numbers.", False, Outcome.PASS)
    _right(Judged(passed, cases=4, cpu=0.2), 2.0, 4, proof)
    assert proof.problems == []
    _right(Judged(passed, cases=4, cpu=0.5), 2.0, 4, proof)
    (problem,) = proof.problems
    assert "takes 0.50 s of CPU time; it may take 10% of the check's 2 s\n  example: @check(..., cpu=10)" in problem
    _right(Judged(Result("add", 1, "", False, Outcome.PASS, flags=("two different answers",)), cases=4), 2.0, 4, proof)
    assert "with the solution, two different answers" in proof.problems[1]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"lab": LAB.replace("number = 9", "number = 0")},
         "lab.toml, line 1: number: must be a whole number from 1 to 99\n  example: number = 1"),
        ({"lab": LAB.replace("minutes = 5\n", "")}, "lab.toml, line 1: minutes: is missing"),
        ({"lab": LAB.replace("minutes", "hours")}, "lab.toml, line 3: hours: is not known"),
        ({"lab": LAB.replace("40", "50")}, "lab.toml, line 11: [points]: must be numbers, none below 0, that"),
        ({"lab": LAB.replace("2 = ", "3 = ")}, "lab.toml, line 7: [tasks]: must name the tasks 1, 2, 3, ..."),
        ({"lab": LAB.replace("number = 9", "number")}, "lab.toml: Expected '=' after a key"),
        ({"lab": LAB.replace('"sum.signs"', '"sum.sign"')}, "[points] sum.sign: there is no such check in checks.py"),
        ({"lab": LAB.replace('"sum.signs"', '"sum.sign"')}, "checks.py, line 21: sum.signs: has no points in lab.toml"),
        ({"lab": LAB.replace('"add" = 9', '"add" = 0')}, "[cases]: must be the number of cases of each check"),
        ({"lab": f'{LAB}"sum" = 1\n'}, "lab.toml: [cases] sum: there is no such check in checks.py"),
        ({"mutants": ""}, "mutants.toml, line 1: there is no wrong solution"),
        ({"mutants": "says = 1\n"}, "mutants.toml, line 1: says: each wrong solution is a table"),
        ({"mutants": MUTANTS.replace("a + b\"", "b + a\"", 1)}, "mutants.toml, line 4: [concatenates] replace: each "
         "old text must occur exactly once in solution.py; this one occurs 0 times: 'return b + a'"),
        ({"mutants": MUTANTS.replace("        pass", "        (")},
         "mutants.toml, line 23: [forgets] replace: the wrong solution, line 34: '(' was never closed"),
        ({"mutants": MUTANTS.replace('"add.drawn"', '"add.draw"')},
         "mutants.toml, line 11: [loses-the-tens] check: there is no check 'add.draw' in checks.py"),
        ({"mutants": MUTANTS.replace("rule = 3", 'rule = "3"')}, "mutants.toml, line 20: [only-grows] rule: must be"),
        ({"checks": CHECKS.replace("import itertools", "import numpy, itertools", 1)},
         "checks.py, line 3: imports numpy; checks use only the standard library and grader.lab"),
        ({"checks": CHECKS.replace("import itertools", "import grader.cli", 1)}, "line 3: imports grader.cli"),
        ({"hidden": HIDDEN + "    yield (\n"}, "hidden.py, line 33: '(' was never closed"),
        ({"hidden": HIDDEN + "\n\nNONE = {}[1]\n"}, "hidden.py, line 35: KeyError: 1"),
        ({"checks": CHECKS + "\n\nfrom hidden import NUMBERS\n"},
         "checks.py, line 28: imports hidden; checks use only the standard library and grader.lab"),
        ({"checks": CHECKS.replace("rule=3)", 'rule=3, needs=("add.drawn",))')},
         "'sum.signs' needs 'add.drawn', which is hidden, or no check above it"),
        ({"hidden": HIDDEN.replace('SECRET = "public"', 'SECRET = "mine"')},
         'hidden.py: SECRET must be set once, to "public"'),
        ({"solution": SOLUTION.replace("task 1: add", "task 4: add")}, "solution.py, line 6: task 4 is not in [tasks]"),
        ({"cells": [("markdown", "# Lab 9: Sums\n## Task 1: add (20 points)\n## Task 2: The sum (70 points)", [])]},
         "found: ## Task 1: add (20 points)\n  example:\n  # Lab 9: Sums\n  ## Task 1: add (30 points)"),
        ({"cells": [("markdown", CELLS[5][1], []), *CELLS[:5]]}, "in this order; found: ## Task 2"),
        ({"cells": [*CELLS, ("markdown", "## Task 3: more (1 points)", [])]}, "found: ## Task 3: more (1 points)"),
    ],
)  # fmt: skip
def test_what_is_refused_before_any_code_runs(texts: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A message names the file, the line, the rule and, where it helps, an example."""
    assert said in refused(tmp_path / "9-sums", tmp_path / "work", **texts)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return 1\n", "line 1: there is no region"),
        ("    ### BEGIN SOLUTION task 1: x\n    return 1\n", "line 2: this region has no END"),
        ("    ### BEGIN SOLUTION: x\n    return 1\n", "line 2: this marker is neither a BEGIN nor an END"),
        ("    return 1\n    ### END SOLUTION\n", "line 3: a region ends here, but none has begun"),
        ("    ### BEGIN SOLUTION task 1: x\n    ### BEGIN SOLUTION task 1: y\n", "line 3: a region begins inside"),
        ("    ### BEGIN SOLUTION task 1: x\n    # nothing\n    ### END SOLUTION\n    pass\n", "line 2: the region has"),
        ("    for a in x:\n        ### BEGIN SOLUTION task 1: x\n        pass\n    else:\n        pass\n"
         "        ### END SOLUTION\n", "line 5: a region must hold whole statements"),
        ("    ### BEGIN SOLUTION task 1: x\n    if x:\n    ### END SOLUTION\n        pass\n", "line 3: a region must"),
        ("    if x:\n        ### BEGIN SOLUTION task 1: x\n        pass\n    pass\n    ### END SOLUTION\n",
         "line 4: a region must hold whole statements of one block in a function"),
        ("    pass\n### BEGIN SOLUTION task 1: x\ny = 1\n### END SOLUTION\n",
         "line 4: a region must hold whole statements of one block in a function"),
        ("    pass\nclass A:\n    def __init__(self):\n        ### BEGIN SOLUTION task 1: x\n        pass\n"
         "        ### END SOLUTION\n", "line 5: a region must not be in __init__"),
        ("    ### BEGIN SOLUTION task 1: x\n    (\n    ### END SOLUTION\n", "line 3: '(' was never closed"),
    ],
)  # fmt: skip
def test_regions_that_are_refused(body: str, said: str) -> None:
    """A region holds whole statements of one block in one function."""
    with pytest.raises(MasterError) as error:
        stub("def f(x):\n" + body)
    assert said in str(error.value)


def test_a_region_keeps_what_is_around_it() -> None:
    """The indentation is that of the region's first statement; a nested function and its decorator are statements."""
    begin, end = "        ### BEGIN SOLUTION task 2: 'é'\n", "        ### END SOLUTION\n"
    text = "def f(x):\n    if x:\n        y = 1\n{}    else:\n        return 2\n"
    inside = (
        begin
        + "        @wraps(f)\n        def g():\n            return y\n\n        # a comment\n        return g\n"
        + end
    )
    assert stub(text.format(inside)) == text.format("        raise NotImplementedError(\"task 2: 'é'\")\n")


def test_leaks(tmp_path: Path) -> None:
    """A hidden check, by its id or its rule, and a line of a region are found in the student's files."""
    master = read(lab_master.write(tmp_path / "9-sums"), tmp_path)
    made = student(master)
    assert leaks(master, made) == []
    line = "self.total = add(self.total, change)"
    found = leaks(master, {**made, "lab.ipynb": f"see `add.drawn`, or\n  {line}\nA sum continues after a restart."})
    assert [one.removesuffix("; leave it out") for one in found] == [
        "lab.ipynb (student's copy): contains the hidden check add.drawn",
        "lab.ipynb (student's copy): contains the hidden check sum.restart",
        "lab.ipynb (student's copy): contains a line of the solution: 'self.total = add(self.total, change)'",
    ]
    assert leaks(master, {"checks.py": f"{made['checks.py']}\n{line}\n"}) == []


@pytest.mark.parametrize("tags", [[], ["teacher"]])
def test_a_notebook_that_fails_is_refused(tags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The notebook runs beside the solution, as students run it; after that, the cells for teachers run."""
    cells = [*CELLS, ("code", "import os; sorted(os.listdir()), solution.add(1, 'x')", tags)]
    lab = lab_master.write(tmp_path / "9-sums", cells, mutants=MUTANTS.partition("\n\n[loses")[0])
    assert main(["build", str(lab), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "9-sums is not built:" in said and "a cell fails:" in said and "TypeError: unsupported operand" in said
    assert [path.name for path in tmp_path.iterdir()] == ["9-sums"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda notebook: notebook.pop("cells"), "is missing an expected key: cells"),
        (lambda notebook: notebook["cells"][1].pop("id"), "each cell an id; open it in JupyterLab and save it"),
        (lambda notebook: notebook.update(nbformat=3), "the notebook must have format 4"),
        (lambda notebook: notebook["cells"][1].pop("outputs"), "'outputs' is a required property"),
    ],
)
def test_notebooks_that_cannot_be_read(change: Any, said: str, tmp_path: Path) -> None:
    """A notebook without ids would get other ids in every build."""
    lab = lab_master.write(tmp_path / "9-sums")
    notebook = json.loads((lab / "lab.ipynb").read_text())
    change(notebook)
    (lab / "lab.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(MasterError) as error:
        read(lab, tmp_path)
    assert str(error.value).startswith("lab.ipynb") and said in str(error.value)
    (lab / "lab.ipynb").write_text("{\n")
    with pytest.raises(MasterError, match="lab.ipynb, line 2: "):
        read(lab, tmp_path)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No master, a folder that is no build, an unusable secret and an unknown option give 64."""
    lab = lab_master.write(tmp_path / "9-sums")
    (tmp_path / "short").write_text("1234")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    for args, said in (
        ([], "the following arguments are required"),
        (["build", str(tmp_path)], "is no master of a lab, which is a folder with lab.toml"),
        (["build", str(lab), "--out", str(tmp_path / "mine")], "is not an earlier build, and is not overwritten"),
        (["build", str(lab), "--secret", str(tmp_path / "none")], "cannot be read (No such file or directory)"),
        (["build", str(lab), "--secret", str(tmp_path / "short")], "a secret has at least 16 bytes"),
    ):
        assert main(args) == 64
        assert said in capsys.readouterr().err
    (lab / "lab.ipynb").unlink()
    assert main(["build", str(lab), "--out", str(tmp_path / "out")]) == 1
    assert "has no lab.ipynb; a master has the files" in capsys.readouterr().err
    (tmp_path / "secret").write_text("twelve different words of the teacher")
    lab_master.write(lab, hidden=HIDDEN.replace("SECRET", "PUBLIC"))
    assert main(["build", str(lab), "--out", str(tmp_path / "out"), "--secret", str(tmp_path / "secret")]) == 1
    assert "no check depends on the secret; build this lab without --secret" in capsys.readouterr().err


def test_a_secret_that_git_would_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A secret in a work tree is refused unless git ignores it; a file that git tracks is not ignored."""
    lab = lab_master.write(tmp_path / "9-sums", hidden=HIDDEN.replace("SECRET", "PUBLIC"))
    clone = tmp_path / "clone"
    (clone / "mine").mkdir(parents=True)
    secret = clone / "mine" / "secret.txt"
    secret.write_text("twelve different words of the teacher")
    words = ["build", str(lab), "--out", str(tmp_path / "out"), "--secret", str(secret)]
    assert main(words) == 1 and "no check depends on the secret" in capsys.readouterr().err
    git = ["git", "-C", str(clone), "-c", "core.hooksPath=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert main(words) == 64
    said = capsys.readouterr().err
    assert f"--secret {secret}: `git add` would publish it; a secret is in a place that git ignores" in said
    (clone / ".gitignore").write_text("/mine/\n")
    assert main(words) == 1 and "no check depends on the secret" in capsys.readouterr().err
    subprocess.run([*git, "add", "-f", str(secret)], check=True)
    assert main(words) == 64 and "`git add` would publish it" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["master", "solution", "notebook"])
def test_ctrl_c_leaves_the_earlier_build(step: str, built: Path, tmp_path: Path) -> None:
    """An interrupted build leaves no file, and an earlier build as it was."""
    lab, out = lab_master.write(tmp_path / "9-sums"), tmp_path / "out"
    (out / "bundle").mkdir(parents=True)
    (out / "proof.json").write_text("{}")

    def say(now: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(lab, out, say=say)
    assert files(out) == {"proof.json": b"{}"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["9-sums", "out"]


def test_a_bundle_that_was_changed_is_refused(built: Path, tmp_path: Path) -> None:
    """The hash covers the checks, not the points: new points need no new results."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name, data in files(built / "bundle").items():
        (bundle / name).write_bytes(data)
    (bundle / "points.toml").write_text((bundle / "points.toml").read_text().replace("20", "25"))
    assert read_bundle(bundle).points["add"] == 25
    for name, text in (("hidden.py", HIDDEN), ("checks.py", CHECKS)):
        (bundle / name).write_text(f"{text}\n")
        with pytest.raises(UsageError, match="has been changed; build it again"):
            read_bundle(bundle)
        (bundle / name).write_text(text)
    with pytest.raises(UsageError, match="is no bundle of a lab; build it: python -m grader lab build"):
        read_bundle(lab_master.write(tmp_path / "9-sums"))


def test_drawn_numbers() -> None:
    """They differ from one another, stay in their range, and depend on the seed alone."""
    assert sorted(drawn("a", 5, 1, 5)) == [1, 2, 3, 4, 5]
    assert drawn("public keys", 3, 10, 99) == [74, 98, 92]
    assert drawn("other keys", 3, 10, 99) != [74, 98, 92]
    with pytest.raises(ValueError, match="larger than population"):
        drawn("a", 3, 1, 2)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """The files in docs/labs.md are a master, its proof finds no problem, and its wrong solution can be exposed."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "labs.md").read_text().partition("## Write a lab")[2]
    texts = re.findall(r"^```(?:toml|python)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    named = dict(zip(("lab", "solution", "checks", "hidden", "mutants", "reader"), texts, strict=True))
    named["checks"] += named.pop("reader")
    headings = "\n".join(re.findall(r"^    (#+ (?:Lab|Task) .*)$", page, re.MULTILINE))
    master = read(lab_master.write(tmp_path / "9-sums", [("markdown", headings, [])], **named), tmp_path)
    assert disagreements(master) == []
    proof = prove(master, tmp_path, lambda step: None)
    assert (proof.problems, proof.untested) == ([], ["add"])
    broken = breakable(master, proof, tmp_path, lambda step: None)
    assert (broken["set"], broken["known"]) == (["add(11, 69)"], 1)
