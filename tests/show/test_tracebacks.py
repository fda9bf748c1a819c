"""What a learner sees in a cell that fails: a kernel with the start-up code of `make lab` runs the cells of a page."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, writes

from sharedstate_lite.doctor.startup import write_startup
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.show.tracebacks import NOTEBOOK

IMPORTS = """%cd -q .
from sharedstate_lite import data
import sharedstate_lite as ss
from sharedstate_lite import oracle, show
from sharedstate_lite.lessons import epochs
show.tables()"""
DECLARED = "def mine():\n    return data.load('mine.csv', 'n INT, s STRING')"
ENGINE = """catalog = ss.Catalog(visit='product STRING, n INT')
view = catalog.view('CREATE VIEW v AS SELECT product, MAX(n) AS m FROM visit GROUP BY product')
engine = ss.engine('shared', [view])"""
CAUSE = """class Mine:
    def __fspath__(self):
        raise ValueError('no path yet')
data.load(Mine())"""
CALLBACK = """class Tables(dict):
    def items(self):
        return 1 / 0
oracle.recompute(view, Tables())"""
CHECK = """@show.written
def check(twice):
    yield 'twice(2)', lambda: twice(2), 4, 'add it to itself'
def twice(n):
    return n"""
PAGE = [IMPORTS, DECLARED, ENGINE, "unfinished = (", "engine.upper", "print(later)", "later = 1"]
"""The cells of the notebook as it was saved."""
RUN = {
    "ss, before the first cell": "ss.engine",
    "a cell of the page": "engine.upper",
    "a name that is defined further down": "print(later)",
    "a local variable": "def f():\n    ss\n    ss = 1\nf()",
    "the imports": IMPORTS,
    "a function": DECLARED,
    "an engine": ENGINE,
    "a typing error": "egnine.upper",
    "a wrong value": "mine()",
    "a wrong row": "engine.step({'visit': [(('Kiwi', 'x'), 1)]})",
    "an unknown column": "catalog.view('CREATE VIEW w AS SELECT colour FROM visit')",
    "a refused view": "catalog.view('CREATE VIEW w AS SELECT n FROM visit LIMIT 1')",
    "SQL that does not parse": "catalog.view('CREATE VIEW w AS SELEC 1')",
    "a cause in the learner's code": CAUSE,
    "an argument of another kind": "def ask():\n    return oracle.recompute('SELECT 1', {})\nask()",
    "a name that the kit does not have": "ss.catalog(visit='n INT')",
    "a message without a sign": "epochs.log(engine, [('visit', ('Kiwi', 1))])",
    "an error of the learner": "def half():\n    return 1 / 0\nhalf()",
    "an error in the learner's callback": CALLBACK,
    "a check": CHECK,
    "code that is not Python": "def twice(n)\n    return 2 * n",
    "the check, behind it": "check(twice)",
    "the check, again": "check(twice)",
    "all frames": "ss.tracebacks(full=True)",
    "a wrong value, all frames": "mine()",
    "a name, all frames": "later",
    "the learner's frames": "ss.tracebacks()",
    "a wrong value, again": "mine()",
}
"""The cells that the learner runs in a new kernel, in this order."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each cell of `RUN` shows, as lines without colours."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "mine.csv").write_text("n,s\n1,a\n70.5,b\n")
    (folder / "page.ipynb").write_text(writes(new_notebook(cells=[new_code_cell(source) for source in PAGE])))
    write_startup(folder / "ipython")
    learner = new_notebook(cells=[new_code_cell(source) for source in RUN.values()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "1")  # as `make lab` does: no kernel of the same name of a user
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv(NOTEBOOK, str(folder / "page.ipynb"))
        patch.delenv(UNATTENDED, raising=False)
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(learner, timeout=120, kernel_name="python3", allow_errors=True, resources=resources)
        client.execute(cleanup_kc=True, env=dict(os.environ))
    shown = []
    for cell in learner.cells:
        texts = [line for out in cell.outputs for line in out.get("traceback", [str(out)])]
        shown.append(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(texts)).strip().splitlines())
    return dict(zip(RUN, shown, strict=True))


FIRST = "Another cell of this notebook defines {}: run the cells above first."


@pytest.mark.parametrize(
    ("cell", "last"),
    [
        ("ss, before the first cell", FIRST.format("ss")),
        ("a cell of the page", FIRST.format("engine")),
        ("a name, all frames", FIRST.format("later")),
        ("a name that is defined further down", "NameError: name 'later' is not defined"),
        ("a typing error", "NameError: name 'egnine' is not defined"),
        (
            "a local variable",
            "UnboundLocalError: cannot access local variable 'ss' where it is not associated with a value",
        ),
    ],
)
def test_a_name_that_the_page_defines(seen: dict[str, list[str]], cell: str, last: str) -> None:
    """A name that a cell above defines is one that was not run yet; any other name is an error as everywhere."""
    assert seen[cell][-1] == last and (last.startswith("Another") or FIRST[:21] not in "".join(seen[cell]))


VALUE = "RowError: mine.csv, row 2 (line 3), column n: '70.5' is not a valid INT: expected a whole number such as -12. "


@pytest.mark.parametrize(
    ("cell", "frames", "message"),
    [
        ("a wrong value", 2, VALUE + "Correct the cell, or declare another type."),
        ("a wrong value, again", 2, VALUE + "Correct the cell, or declare another type."),
        ("a wrong row", 1, "RowError: visit: column n INT: expected int32 values, got str; convert them first"),
        ("an unknown column", 1, "SqlError: view w: there is no column named colour in scope"),
        ("a refused view", 1, "SqlError: view w: LIMIT is not supported"),
        (
            "a name that the kit does not have",
            1,
            "AttributeError: sharedstate_lite has no 'catalog'; did you mean Catalog?",
        ),
        ("SQL that does not parse", 1, 'SqlError: the SQL does not parse: syntax error at or near "SELEC", line 1'),
    ],
)
def test_an_error_of_the_kit(seen: dict[str, list[str]], cell: str, frames: int, message: str) -> None:
    """Below the learner's own frames stands the message, and nothing else is shown, ten lines at most."""
    shown = seen[cell]
    assert shown[-1].startswith(message) and len(shown) <= 10 and "File" not in "".join(shown)
    assert [line.startswith("Cell In[") for line in shown].count(True) == frames


def test_other_errors_of_the_kits_functions(seen: dict[str, list[str]]) -> None:
    """The kit's frames are hidden, and its function is named; an error of the learner's code is as everywhere."""
    shown = seen["an argument of another kind"]
    assert shown[-2:] == [
        "AttributeError: 'str' object has no attribute 'plan'",
        "It was raised in oracle.recompute, whose docstring says what it takes.",
    ]
    assert "File" not in "".join(shown) and [line.startswith("Cell In[") for line in shown].count(True) == 2
    right = """Error: ('visit', ('Kiwi', 1)) is no message: write ("visit", ("Potato", "Eve", 60), +1)"""
    assert seen["a message without a sign"][-1] == right
    assert seen["an error of the learner"][-1] == "ZeroDivisionError: division by zero"
    assert seen["an error in the learner's callback"][-1] == "ZeroDivisionError: division by zero"


def test_a_cause_in_the_learners_code_is_shown(seen: dict[str, list[str]]) -> None:
    """An error that the kit raises because the learner's code raised one shows both, each with the learner's frames."""
    shown = "\n".join(seen["a cause in the learner's code"])
    assert "ValueError: no path yet\n\nThe above exception was the direct cause" in shown
    assert "in Mine.__fspath__(self)" in shown and "----> 4 data.load(Mine())" in shown and "File" not in shown
    assert "\nError: " in shown and shown.endswith("(no path yet). Pass the path of a file or a folder.")


def test_all_frames_on_request(seen: dict[str, list[str]]) -> None:
    """``ss.tracebacks(full=True)`` shows the frames of the kit, down to the one that raised the error."""
    shown = "\n".join(seen["a wrong value, all frames"])
    assert "in load(path, schema, sep, rename, forms)" in shown and "in _joined(files, column)" in shown
    assert shown.endswith(seen["a wrong value"][-1])


def test_a_check_behind_a_cell_that_did_not_run(seen: dict[str, list[str]]) -> None:
    """IPython has defined nothing, so the check judges the code of an earlier run, and says so, once."""
    before, after = (" ".join(seen[f"the check, {word}"]) for word in ("behind it", "again"))
    assert "SyntaxError" in seen["code that is not Python"][-1]
    for text in (before, after):
        assert "twice(2): 2, should be 4. Hint: add it to itself." in text
    assert "did not run (SyntaxError), so this judges the code of an earlier run." in before
    assert "SyntaxError" not in after
