"""docs/rules.md names a test for every rule, and every test it names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = re.findall(r"^\| (\d+) \| .* \| `([\w/.]+)::(\w+)` \|$", (ROOT / "docs/rules.md").read_text(), re.MULTILINE)


def test_every_rule_has_its_row() -> None:
    """Rules 1 to 23 are each in the table once."""
    assert [int(number) for number, _, _ in TABLE] == list(range(1, 24))


def test_every_named_test_exists() -> None:
    """The tests that the table names are defined in the files that it names, with the rule's number."""
    for number, file, name in TABLE:
        defined = {n.name for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef)}
        assert name in defined, f"{file}::{name}"
        assert name.startswith(f"test_rule_{int(number):02d}_")
