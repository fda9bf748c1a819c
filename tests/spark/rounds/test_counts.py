"""Each concept once: who knows Spark's keys, what a plan is, and which file says whose folder it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sharedstate_lite as ss

ROOT = Path(ss.__file__).parent
ROOMS = ("spark", "managed", "entities")


parsed = cache(ast.parse)


def sources(*rooms: str) -> Iterator[tuple[str, str]]:
    """The path and the text of every module of some rooms."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_two_places_know_sparks_keys() -> None:
    """A bin has a number everywhere. The query groups by keys, and the state reader turns them into numbers."""
    knows = {path for path, text in sources(*ROOMS) if "grouping_keys(" in text or "{KEY}" in text}
    assert knows - {"spark/rounds/keys.py"} == {"spark/rounds/operator.py", "spark/rounds/reader.py"}


def meanings(text: str) -> Iterator[str]:
    """What the text calls a plan, other than a node of a query plan: a function, a class, a parameter, a variable."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name="plan") | ast.ClassDef(name="Plan" | "plan"):
                yield f"line {node.lineno}: {node.name}"
            case ast.arg(arg="plan") if node.annotation is None or ast.unparse(node.annotation) != "Node":
                yield f"line {node.lineno}: a parameter"
            case ast.Assign(targets=targets, value=value) if ".plan" not in ast.unparse(value):
                if any(isinstance(n, ast.Name) and n.id == "plan" for each in targets for n in ast.walk(each)):
                    yield f"line {node.lineno}: a variable"


def test_a_plan_is_a_query_plan() -> None:
    """In spark/ and managed/, the word has one meaning; and other meanings would be found."""
    assert [(path, each) for path, text in sources("spark", "managed") for each in meanings(text)] == []
    wrong = "def plan(): ...\nclass Plan: ...\ndef f(plan: EngineSpec): ...\nplan = f(1)\n"
    assert len(list(meanings(wrong))) == 4
    assert list(meanings("def f(plan: Node): ...\nplan, rest = node.plan, 1\n")) == []


def loops(text: str) -> Iterator[str]:
    """The functions that run rounds in a loop: ``run`` with a kind of round, in a while or a for."""
    for function in ast.walk(parsed(text)):
        if isinstance(function, ast.FunctionDef):
            for loop in (node for node in ast.walk(function) if isinstance(node, ast.While | ast.For)):
                for call in (node for node in ast.walk(loop) if isinstance(node, ast.Call)):
                    given = {ast.unparse(each).partition(".")[0] for each in call.args}
                    if ast.unparse(call.func).endswith(".run") and given & {"kind", "RoundKind"}:
                        yield function.name


def defined(text: str, name: str) -> bool:
    """Whether the text defines a function of that name."""
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(parsed(text)))


def test_one_driver_of_rounds() -> None:
    """One loop runs rounds until nothing is left, and one place knows what a killed driver has not used."""
    assert [(path, name) for path, text in sources(*ROOMS) for name in loops(text)] == [
        ("spark/rounds/bin.py", "settle")
    ]
    for name, path in (("settle", "spark/rounds/bin.py"), ("pending", "spark/rounds/query.py")):
        assert [path for path, text in sources(*ROOMS) if defined(text, name)] == [path]
    assert list(loops("def f():\n    while m:\n        m = self._query.run(m, kind, 1)\n")) == ["f"]
    assert list(loops("def f():\n    q.run(m, RoundKind.READ, 1)\n    for x in y:\n        z.run(x)\n")) == []


def test_one_class_runs_a_streaming_query() -> None:
    """Bins run in the query of `Query`. The other query of the kit writes the micro-batches of a DataFrame to files."""
    found = {path for path, text in sources(*ROOMS) if ".writeStream" in text}
    assert found == {"spark/rounds/query.py", "spark/jobs/sources.py"}
    assert {path for path, text in sources(*ROOMS) if "run_stages(" in text} == {
        "spark/rounds/operator.py",
        "spark/rounds/query.py",
    }


def test_one_file_says_whose_folder_it_is() -> None:
    """run.json, and the files that it replaces. The other files in JSON list files."""
    found: dict[str, set[str]] = {}
    for path, text in sources(*ROOMS):
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value[1:].endswith(".json"):
                if "\n" not in node.value and " " not in node.value:
                    found.setdefault(path, set()).add(node.value)
    assert found.pop("spark/rounds/home.py") == {"run.json", "engine.json", "managed.json", "entities.json"}
    assert found == {
        "managed/snapshot_files.py": {"manifest.json"},
        "spark/driver/checkpoint_copy.py": {"snapshot.json"},
    }
