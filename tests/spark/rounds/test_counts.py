"""Each concept once: who knows Spark's keys, what a plan is, and which file says whose folder it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sharedstate_lite as ss

ROOT = Path(ss.__file__).parent
ROOMS = ("spark", "managed", "entities")


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


def test_one_file_says_whose_folder_it_is() -> None:
    """run.json, and the files that it replaces. The other files in JSON list files."""
    found: dict[str, set[str]] = {}
    for path, text in sources(*ROOMS):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value[1:].endswith(".json"):
                if "\n" not in node.value and " " not in node.value:
                    found.setdefault(path, set()).add(node.value)
    assert found.pop("spark/rounds/home.py") == {"run.json", "engine.json", "managed.json", "entities.json"}
    assert found == {
        "managed/snapshot_files.py": {"manifest.json"},
        "spark/driver/checkpoint_copy.py": {"snapshot.json"},
        "spark/jobs/sources.py": {"reported.json"},
    }
