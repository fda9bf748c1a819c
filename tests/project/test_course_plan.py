"""The course plans of docs/teaching.md: each notebook and lab of the kit has its week, or is left out by name."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted(path.name.partition("-")[0] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
LABS = sorted(
    [tomllib.loads(path.read_text())["number"] for path in (ROOT / "labs").glob("*/lab.toml")]
    + [int(re.findall(r"# Lab (\d)", path.read_text())[0]) for path in (ROOT / "labs").glob("*/lab.md")]
)
AFTER = {1: "01", 2: "02b", 3: "03b", 4: "09", 5: "14", 6: "17"}
"""The notebook that a lab follows."""


def plan(title: str) -> tuple[list[tuple[list[str], list[int]]], list[str], list[int]]:
    """The notebooks and labs of each week, and those that are left out."""
    text = PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| \d+ \| [^|]+ \|([^|]*)\|([^|]*)\|[^|]*\|$", text, re.M)
    weeks = [(re.findall(r"\d+b?", notebooks), [int(n) for n in re.findall(r"\d", labs)]) for notebooks, labs in rows]
    (left,) = re.findall(r"^Left out: (.*)\.$", text, re.M)
    notebooks, _, labs = left.partition("labs")
    return weeks, re.findall(r"\d+b?", notebooks), [int(number) for number in re.findall(r"\d", labs)]


@pytest.mark.parametrize(("title", "long"), [("Four weeks", 4), ("Ten weeks", 10)])
def test_each_notebook_and_lab_has_its_week(title: str, long: int) -> None:
    """Each stands once, or is left out by name. Notebooks come in their order, and a lab after its notebook."""
    weeks, no_notebooks, no_labs = plan(title)
    assert len(weeks) == long
    read = [name for notebooks, _ in weeks for name in notebooks]
    done = [lab for _, labs in weeks for lab in labs]
    assert read == sorted({*read}) and done == sorted({*done})
    assert not {*read} & {*no_notebooks} and not {*done} & {*no_labs}
    assert {*NOTEBOOKS} == {*read, *no_notebooks}
    assert {*LABS} == {*done, *no_labs}
    for week, (_, labs) in enumerate(weeks):
        for lab in labs:
            assert AFTER[lab] in [name for notebooks, _ in weeks[: week + 1] for name in notebooks]


def minutes() -> dict[str, float]:
    """The time that each notebook and lab states: by "02b" for a notebook and "lab 2" for a lab."""
    found = {}
    for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        found[path.name.partition("-")[0]] = float(re.findall(r"(\d+) minutes \u00b7", text)[0])
    for path in (ROOT / "labs").glob("*/lab.toml"):
        lab = tomllib.loads(path.read_text())
        found[f"lab {lab['number']}"] = float(lab["minutes"])
    assert "Six hours for each member" in (ROOT / "labs" / "checkout" / "lab.md").read_text()
    return {**found, "lab 6": 360.0}


@pytest.mark.parametrize("title", ["Four weeks", "Ten weeks"])
def test_the_hours_are_what_the_pages_state(title: str) -> None:
    """A week's hours are at most 45 minutes from the sum. Lab 6 can take two weeks."""
    text = PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| \d+ \| [^|]+ \|([^|]*)\|([^|]*)\|([^|]*)\|$", text, re.M)
    times, more = minutes(), "(continued)" in text
    times["lab 6"] /= 1 + more
    assert rows
    for notebooks, labs, hours in rows:
        parts = re.findall(r"\d+b?", notebooks) + [f"lab {n}" for n in re.findall(r"\d", labs)]
        parts += ["lab 6"] if "continued" in labs else []
        assert abs(float(hours) - sum(times[part] for part in parts) / 60) <= 0.75, (title, parts, hours)


def test_the_page_names_the_ten_week_course_whole() -> None:
    """Ten weeks leave nothing out."""
    assert plan("Ten weeks")[1:] == ([], [])
