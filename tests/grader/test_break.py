"""Break it: what histories expose, on a student's machine and in a class, and what a build proves about it."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lab_master
import pytest
from classes import contents
from hypothesis import given
from hypothesis import strategies as st
from lab_master import CHECKS, SOLUTION
from without_linux import checked

from grader.__main__ import main
from grader.lab import breaking as breakings
from grader.lab.breaking import Breaker, Told, histories, host, read_broken, read_reader
from grader.lab.build import build
from grader.lab.cover import breakable, cover, length
from grader.lab.master import read
from grader.lab.prove import Proof
from grader.lab.reading import NoHistoryError, changes_of
from grader.lab.regions import MasterError
from grader.student.local import Local

READER = '''

def reader(line, solution):
    """Read the epochs of Sum, such as [[1], [2, -1]], or a call of add, such as add(1, 2).

    Sum saves and loads only with a restart:
    [1] | restart | [2]
    """
    if found := line.groups(rf"add\\\\(({NUMBER}), ({NUMBER})\\\\)"):
        a, b = map(int, found)
        return lambda student: Case(line, a + b, partial(student.call, "add", a, b))
    found = line.groups(r"(\\\\[.*\\\\]) \\\\| restart \\\\| (\\\\[.*\\\\])")
    try:
        epochs = json.loads(f"[{found[0]}, {found[1]}]" if found else line)
        right = sums(epochs)
    except (ValueError, TypeError):
        raise line.wrong("write lists of whole numbers") from None

    def restarted(student):
        one = student.new("Sum")
        one.step(epochs[0])
        saved = one.save()
        student.restart()
        other = student.new("Sum")
        other.load(saved)
        return [right[0], other.step(epochs[1])]

    return lambda student: Case(
        line, right, partial(restarted, student) if found else partial(student.play, "Sum", "step", epochs)
    )
'''.replace("\\\\", "\\")
WITH_READER = CHECKS.replace("import itertools\n", "import itertools\nimport json\n").replace(
    "from grader.lab import Case, check", "from grader.lab import NUMBER, Case, check"
)
WITH_READER = f"{WITH_READER}{READER}"
HANGS = "def add(a, b):\n    while a == 7: pass\n    return a + b\n"
SLOW = "def add(a, b):\n    for _ in range(10**8 * (a == 8)): pass\n    return a + b\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small lab with a reader, built once, and given out with break/."""
    tmp = tmp_path_factory.mktemp("break")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grader.lab.build._try_notebook", lambda *args: None)  # it writes nothing, and takes seconds
        build(lab_master.write(tmp / "9-sums", checks=WITH_READER), tmp / "out")
    shutil.copytree(tmp / "out" / "break", tmp / "out" / "student" / "break")
    return tmp / "out"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[..., Breaker]]:
    """Makes a breaker of texts of solution.py, the right one first; each process ends with the test."""
    (tmp_path / "checks.py").write_text(WITH_READER)
    started = []

    def made(*texts: str, parts: tuple[str, ...] = ("add", "Sum")) -> Breaker:
        (tmp_path / "solutions.py").write_text(host(texts))
        started.append(Local(tmp_path, "solutions"))
        reader = read_reader(tmp_path / "checks.py")
        assert reader is not None
        return Breaker(reader, started[-1], [parts] * (len(texts) - 1))

    yield made
    for local in started:
        local.__exit__()


def ran(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit status and the lines of `break`."""
    capsys.readouterr()
    status = main(["break", str(folder), *words])
    said = capsys.readouterr()
    return status, (said.out + said.err).splitlines()


def in_words(text: str, numbers: list[list[int]]) -> Any:
    """What the module of a text answers to epochs, without the grader."""
    names: dict[str, Any] = {}
    try:
        exec(text, names)
        made = names["Sum"]()
        return [made.step(epoch) for epoch in numbers]
    except Exception:
        return "error"


EPOCHS = st.lists(st.lists(st.integers(-30, 30), max_size=4), min_size=1, max_size=4)


@given(st.data())
def test_what_is_exposed_is_what_answers_otherwise(built: Path, data: st.DataObject) -> None:
    """A history exposes exactly the solutions whose answers, in a process without the grader, are not the sums."""
    lines = data.draw(st.lists(EPOCHS, min_size=1, max_size=8))
    broken = read_broken(built / "break" / "break.json")
    reader = read_reader(built / "student" / "checks.py")
    assert reader is not None
    folder = built / "host"
    folder.mkdir(exist_ok=True)
    (folder / "solutions.py").write_text(broken.module())
    with Local(folder, "solutions") as local:
        breaker = Breaker(reader, local, [one.parts for one in broken.wrong])
        for epochs in lines:
            right = [sum(sum(epochs[: n + 1], [])) for n in range(len(epochs))]
            wrong = {n for n, one in enumerate(broken.wrong, 1) if in_words(one.text, epochs) != right}
            assert set(breaker.exposed(str(epochs))) == wrong


def test_the_answer(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each history has what it exposes, or why and where it does not count. What is at large has number and area."""
    lines = [
        "# my histories",
        "add(1, 0)  # digits",
        "add(1, 2, 3)",
        "",
        "    trace   [[1], ",
        "            [-1]]",
        f"[{'[0], ' * 50}[0]]",
        "add(1, " + "0" * 3000 + ")",
        " | ".join(["[1]"] * 41),
    ]
    (built / "student" / "break" / "histories.txt").write_text("\n".join(lines), newline="\r\n")
    status, said = ran(built / "student", capsys)
    assert status == 1
    assert said[:4] == [
        "line 2: add(1, 0)",
        "    exposes 1; read as a history of add",
        "line 3: add(1, 2, 3)",
        "    column 1: write lists of whole numbers",
    ]
    assert said[4:6] == ["line 5: [[1], [-1]]", "    exposes 1, 3; read as a history of Sum"]
    assert said[6].startswith("line 7: [[0], [0]") and said[7].startswith("    exposes no wrong solution; read as")
    assert said[9] == "    column 2001: a history has at most 2,000 letters"
    assert said[11] == "    column 241: it has 41 changes; the limit is 40"
    end, left = "\n".join(said[12:]), "at large: 2\n  hidden, task 1 (add): 2\n  hidden, task 2 (The sum): 4\n"
    assert end.startswith("exposed: 2 of 4\n  1  The digits are put next to each other.\n  3  The sum never becomes")
    assert f"{left}changes: 3; the shortest set known" in end
    assert "load() does nothing" not in end
    _, text = ran(built / "student", capsys, "--json")
    as_json = json.loads("\n".join(text))
    assert (as_json["exposed"], as_json["at_large"], as_json["changes"]) == ([1, 3], [2, 4], 3)
    assert as_json["histories"][1]["at"] == [3, 1] and as_json["histories"][2]["of"] == ["Sum"]


def test_the_set_of_the_build_exposes_all(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the histories of the bundle, none is at large, and the changes are as many as are known."""
    kept = json.loads((built / "bundle" / "break.json").read_text())
    assert "set" not in json.loads((built / "break" / "break.json").read_text())
    (built / "student" / "break" / "histories.txt").write_text("\n".join(kept["set"]))
    status, said = ran(built / "student", capsys)
    assert status == 0 and "exposed: 4 of 4" in said
    assert said[-1] == (
        f"changes: {kept['known']}; the shortest set known that exposes all 4 has {kept['known']}; "
        f"a bonus of 10 % with at most {int(kept['known'] * 1.5)}"
    )


def test_a_students_machine(built: Path, tmp_path: Path) -> None:
    """`break` needs Python alone, and nothing that Windows lacks."""
    copy = tmp_path / "Übung 1"
    shutil.copytree(built / "student", copy)
    (copy / "break" / "histories.txt").write_text("add(1, 0)\n[[1], [-1]]\n")
    done = checked(copy, "break")
    assert (done.returncode, done.stderr) == (1, "") and "exposed: 2 of 4\n" in done.stdout


@pytest.mark.parametrize(("name", "why"), [
    ("break.json", "break.json is missing; take the folder break/ from your teacher"),
    ("histories.txt", "No such file or directory; write a history into each line of this file"),
])  # fmt: skip
def test_what_is_missing(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str) -> None:
    """What is missing is named, with what to do."""
    shutil.copytree(built / "student", tmp_path / "copy")
    (tmp_path / "copy" / "break" / name).unlink()
    status, said = ran(tmp_path / "copy", capsys)
    assert status == 64 and why in said[-1]


def test_a_file_of_histories() -> None:
    """Comments and empty lines are left out. What goes on in the next line has its own line and column there."""
    found = histories("\ufeff# x\r\n+a | -b # y\r\n  +c | +d\n        trace   +e |\n                +f | +g\n\n +h")
    assert [(one.text, one.line) for one in found] == [("+a | -b +c | +d", 2), ("+e | +f | +g", 4), ("+h", 7)]
    assert [found[0].at(0), found[0].at(5), found[0].at(8)] == [(2, 1), (2, 6), (3, 3)]
    assert [found[1].at(0), found[1].at(5), found[2].at(1)] == [(4, 17), (5, 17), (7, 3)]


def test_what_check_prints_can_be_pasted(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all that `check` prints, exactly the traces are histories. A student's own lines around it still count."""
    shutil.copytree(built / "student", tmp_path / "copy")
    wrong = SOLUTION.replace("return a + b", "print('a |', a)\n    print('b |', b)\n    return [a, b] * 40")
    (tmp_path / "copy" / "solution.py").write_text(wrong)
    main(["check", str(tmp_path / "copy"), "--all"])
    said = capsys.readouterr().out
    main(["check", str(tmp_path / "copy"), "--all", "--json"])
    traces = [one["trace"] for one in json.loads(capsys.readouterr().out)["checks"] if one["outcome"] != "pass"]
    labels = ["task 1: ", "  wrong   ", "visible: "]
    labels += [f"    {name:8}" for name in ("rule", "right", "got", "printed", "again")]
    assert len(traces) == 2 and all(f"\n{label}" in f"\n{said}" for label in labels)
    assert [one.text for one in histories(f"+a\n  | -a\n{said}\n +b\n+rule | +trace\n")] == [
        "+a | -a", *traces, "+b", "+rule | +trace",
    ]  # fmt: skip


def test_the_first_lines_say_what_can_be_written(built: Path) -> None:
    """The docstring of the reader is above the histories that a student will write, as comments."""
    text = (built / "break" / "histories.txt").read_text()
    assert "\n# Sum saves and loads only with a restart:\n# [1] | restart | [2]\n" in text and not histories(text)


def test_a_history_that_hangs(asked: Callable[..., Breaker], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong solution that does not answer is exposed, and not asked again; the right one must answer in time."""
    monkeypatch.setattr(breakings, "_WRONG", 0.3)
    monkeypatch.setattr(breakings, "SECONDS", 0.3)
    breaker = asked(SLOW, HANGS, SLOW.replace("a + b", "a - b"))
    told = list(breaker.told(histories("add(7, 1)\nadd(1, 2)\nadd(8, 1)\nadd(7, 2)")))
    assert [one.exposes for one in told] == [(1, 2), (2,), (), (2,)]
    assert [one.word for one in told] == ["", "", "the right solution needs more than 0.3 s", ""]
    assert breaker.hang == {1}


def test_each_history_meets_new_objects(asked: Callable[..., Breaker]) -> None:
    """What a wrong solution keeps in its module is gone with the next history, and after a restart in a history."""
    keeps = SOLUTION.replace("return a + b", "SEEN.append(a)\n    return a + b + (len(SEEN) > 1)") + "\nSEEN = []\n"
    breaker = asked(SOLUTION, keeps)
    assert [breaker.exposed(line) for line in ("add(1, 2)", "add(1, 2)", "[1] | restart | [2]", "[[1, 2]]")] == [
        (), (), (), (1,),
    ]  # fmt: skip


def test_no_wrong_solution_takes_part(asked: Callable[..., Breaker]) -> None:
    """A history does not count if it calls only what is right in all wrong solutions."""
    breaker = asked(SOLUTION, SOLUTION, parts=("Sum",))
    with pytest.raises(NoHistoryError, match="no wrong solution takes part in it"):
        breaker.exposed("add(1, 2)")
    assert breaker.exposed("[[1]]") == ()


def test_too_many_histories(asked: Callable[..., Breaker], monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories after the last that counts are named; the others count."""
    monkeypatch.setattr(breakings, "_LINES", 2)
    told = list(asked(SOLUTION, HANGS).told(histories("add(1, 2)\n" * 3)))
    assert [one.word for one in told] == ["", "", "only the first 2 histories count"]


@pytest.mark.parametrize(("old", "new", "why"), [
    ("Case(line, a + b,", "Case(line, a + 1,", "the reader blames the solution: add(1, 0)"),
    ("if found := line.groups(rf", "if found := line.groups('x' + rf", "the reader refuses 'add(1, 0)' (column 1"),
    ("return [right[0], other", "return right or [0, other", "[forgets]: its trace '[1] | restart | [2]' does not"),
])  # fmt: skip
def test_a_reader_is_proven(built: Path, tmp_path: Path, old: str, new: str, why: str) -> None:
    """A build is refused if the reader reads another history than the check has printed, or none."""
    assert WITH_READER.count(old) == 1
    (tmp_path / "work").mkdir()
    master = read(lab_master.write(tmp_path / "lab", checks=WITH_READER.replace(old, new)), tmp_path / "work")
    proof = Proof(mutants=json.loads((built / "proof.json").read_text())["mutants"])
    with pytest.raises(MasterError) as refused:
        breakable(master, proof, tmp_path / "work", lambda step: None)
    assert why in str(refused.value)


LINES = st.dictionaries(
    st.lists(st.sampled_from(["+a", "+b"]), min_size=1, max_size=4).map(" | ".join),
    st.frozensets(st.integers(1, 6)),
    min_size=1,
)


@given(LINES)
def test_a_cover_exposes_all(exposes: dict[str, frozenset[int]]) -> None:
    """The set exposes what all histories together expose, and none of its histories is needless."""
    names = sorted(frozenset().union(*exposes.values()))
    numbered = {line: frozenset(names.index(one) + 1 for one in some) for line, some in exposes.items()}
    chosen = cover(numbered, len(names))
    for left_out in (None, *chosen):
        found = frozenset[int]().union(*(numbered[line] for line in chosen if line != left_out))
        assert (len(found) == len(names)) == (left_out is None)
    assert all(length(line) == line.count("|") + 1 == len(changes_of(line)) for line in chosen)


class Class:
    """Grades histories, and reads what was written."""

    def __init__(self, built: Path, tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.built, self.subs, self.out, self.capsys = built, tmp / "subs", tmp / "out", capsys
        self.subs.mkdir()

    def grade(self, *words: str) -> tuple[int, str]:
        """The exit status and the output of `class --break`."""
        self.capsys.readouterr()
        about = ["--lab", str(self.built), "--break", "--out", str(self.out)]
        status = main(["class", str(self.subs), *about, *words])
        said = self.capsys.readouterr()
        return status, said.out + said.err

    def column(self, name: str) -> dict[str, str]:
        """A column of the gradebook, by id."""
        rows = csv.DictReader(io.StringIO((self.out / "gradebook.csv").read_text()))
        return {row["id"]: row[name] for row in rows}

    def page(self, name: str) -> str:
        """A page that was written."""
        return (self.out / name).read_text()


@pytest.fixture
def graded(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Class:
    """A class of eight, of which two have handed in nothing that can be read."""
    made = Class(built, tmp_path, capsys)
    best = json.loads((built / "bundle" / "break.json").read_text())["set"]
    texts = {
        "s01": "\n".join(best),
        "s02": "\n".join([*best, *["[[1, 1]]"] * 60]),
        "s03": "add(1, 0)\nadd(1, 2, 3)\n",
        "s04": "",
        "s05": "__import__('os').system('touch /tmp/x')\n{{7*7}} <script>alert(1)</script>\n[[[[[[\n\0\n" + "9" * 1900,
    }
    for id, text in texts.items():
        (made.subs / id).mkdir()
        (made.subs / id / "histories.txt").write_text(text)
    (made.subs / "s06.txt").write_bytes("add(1, 0)  # Fußnote".encode("utf-16"))
    with zipfile.ZipFile(made.subs / "s07.zip", "w") as packed:
        packed.writestr("lab/break/histories.txt", "[[1], [-1]]")
        packed.writestr("lab/break/break.json", "{}")
    (made.subs / "s08").mkdir()
    (made.subs / "s08" / "solution.py").write_text(SOLUTION)
    (made.subs / "s09").mkdir()
    (made.subs / "s09" / "histories.txt").write_text("+a\n" * 40_000)
    return made


def test_a_class(graded: Class) -> None:
    """Each exposed wrong solution is a point, and few changes are a bonus. What is no history has no effect."""
    status, said = graded.grade("--jobs", "2")
    assert status == 1 and "sandbox: tier 0, not needed" in said
    assert graded.column("score") == {
        "s01": "4.4", "s02": "4", "s03": "1.1", "s04": "0", "s05": "0",
        "s06": "1.1", "s07": "2.2", "s08": "", "s09": "",
    }  # fmt: skip
    assert set(graded.column("of").values()) == {"4.4"}
    assert graded.column("status")["s08"] == graded.column("status")["s09"] == "unreadable"
    problems = graded.page("problems.csv")
    assert "histories.txt is missing; found: solution.py" in problems and "more than 65,536 bytes" in problems
    page = graded.page("submissions/s03/feedback.html")
    assert "1 of 4 wrong solutions exposed" in page and "The digits are put next to each other." in page
    assert "line 2, column 1: write lists of whole numbers" in page
    assert not any(says in page for says in ("never becomes smaller", "tens of the first", "load() does nothing"))
    assert "<script>alert" not in graded.page("submissions/s05/feedback.html")
    whole = graded.page("class.html")
    assert "load() does nothing" in whole and "5 of 7 (71%)" in whole and "2 of 7 (28%)" in whole
    before = contents(graded.out)
    assert graded.grade("--jobs", "1")[0] == 1 and contents(graded.out) == before
    shutil.rmtree(graded.out)
    assert graded.grade("--jobs", "1")[0] == 1 and contents(graded.out) == before


def test_a_class_goes_on(graded: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption, the same command grades only those that have no result, and ends with the same files."""
    from grader.classroom import run

    kept: list[str] = []
    store = run.store

    def stop(place: Path, found: dict[str, Any]) -> None:
        store(place, found)
        kept.append(place.name)
        if len(kept) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "store", stop)
    assert graded.grade("--jobs", "1")[0] == 130
    first = list(kept)
    assert graded.grade("--jobs", "1")[0] == 1
    assert len(kept) == 9 and not set(kept[4:]) & set(first)
    assert graded.column("score")["s01"] == "4.4" and len(graded.column("id")) == 9


def test_what_the_command_refuses(built: Path, graded: Class, tmp_path: Path) -> None:
    """Nothing to break, and a folder with the results of solutions are refused with what to do."""
    plain = tmp_path / "plain"
    shutil.copytree(built / "bundle", plain)
    (plain / "break.json").unlink()
    assert main(["class", str(graded.subs), "--lab", str(plain), "--break", "--out", str(graded.out)]) == 64
    assert "has no break.json" in graded.capsys.readouterr().err
    assert main(["class", str(graded.subs), "--lab", str(built), "--out", str(graded.out)]) in (0, 1, 2)
    status, said = graded.grade()
    assert status == 64 and "give another --out" in said


def test_told_is_json() -> None:
    """What came of a history can be stored."""
    one = Told(3, "+a", 1, (2,), "", (3, 1))
    assert json.loads(json.dumps(one.as_json()))["exposes"] == [2]
