"""The site: a small notebook is run and published; what is on its page, and what an interrupted build leaves."""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sharedstate_lite import show
from website import execution, plotly, publish, start
from website.__main__ import main
from website.execution import SiteError, fingerprint
from website.links import broken

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.system.example import MESSAGES, SCHEMA, SQL
show.tables()
"""
CELLS = [
    ("", "# 77 · Made for a test\n\n5 minutes · nothing\n\nA word: zanzibar. Read [the rules](../docs/rules.md)."),
    ("collapsed", SOURCE.strip()),
    ("", "## A table\n\nSee [the end](#The-end)."),
    (
        "shown",
        "view = ss.Catalog(**SCHEMA).view(SQL)\nengine = ss.engine('full', [view])\nprint('loud <b>')\nengine.state()",
    ),
    ("shown", "show.graph(engine.graph(), engine.state, title='A picture')"),
    (
        "collapsed",
        "n = len(MESSAGES)\nhow_many = show.question('How many messages?', n, {7: 'There is one more.'})",
    ),
    ("shown", "show.predict(how_many, guess=None)"),
    ("shown", "show.rows_chart({'held': {1: 2, 2: 5}}, title='A chart <b>')"),
    ("shown", "show.stepper(ss.replay('full', [view]), MESSAGES[:4])"),
    ("check", "with show.checks():\n    secret = 4711\n    assert secret"),
    ("", "## The end\n\nOf $x_1 \\cdot 2$ and $5.\n\n- one\n  - two"),
    ("", "<details><summary>Folded</summary>\n\n```python\nx = 1\n```\n</details>"),
]


def made() -> Any:
    """A notebook with every kind of cell."""
    cells = []
    for number, (tag, source) in enumerate(CELLS):
        cell = new_code_cell(source) if tag else new_markdown_cell(source)
        cell["id"], cell.metadata["tags"] = f"c{number}", [tag] if tag in ("collapsed", "check") else []
        cells.append(cell)
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the notebook in ``notebooks``, the site in ``site`` and the cache in ``cache``."""
    folder = tmp_path_factory.mktemp("website")
    (folder / "notebooks").mkdir()
    path = folder / "notebooks" / "77-made.ipynb"
    nbformat.write(made(), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHAREDSTATE_LITE_CACHE", str(folder / "cache"))
        patch.setattr(execution, "fingerprint", lambda: "of the library")
        (notebook,) = execution.executed([path])
        publish.publish({path.name: notebook}, folder / "site")
        yield folder


@pytest.fixture
def page(built: Path) -> str:
    """The page of the notebook."""
    return (built / "site" / "notebooks" / "77-made.html").read_text(encoding="utf-8")


def test_no_link_is_broken(built: Path) -> None:
    """The pages of the notebook and of all documents link to files that exist, and load nothing from a network."""
    assert list(broken(built / "site")) == []
    names = {path.name for path in (built / "site").rglob("*.html")}
    assert names >= {
        "index.html",
        "kit.html",
        "77-made.html",
        "rules.html",
        "benchmarks.html",
        "77-made-stepper-1.html",
    }


def test_the_page_shows_what_a_reader_needs(page: str) -> None:
    """Text, code and outputs are there; preparing code and answers are folded; checks are left out."""
    text = page.partition("<article")[2].partition("</article>")[0]
    assert text.index("<h1") < text.index("<summary>set-up</summary>") < text.index('id="a-table"')
    assert "loud &lt;b&gt;" in text and 'class="dataframe"' in text and "A picture" in text
    assert "<summary>The answer</summary>" in text and '"kind":"prediction"' in text
    assert "There is one more." not in text and "<caption>A chart &lt;b&gt;</caption>" in text
    (loaded,) = re.findall(r'<script defer src="([^"]+)"></script></head>', page)
    assert loaded == "../assets/plotly-basic.min.js" and '"figure":{"data":[{' in text
    assert 'data-pages="{&quot;77-made&quot;: [&quot;77 · Made for a test&quot;, 1]}"' in text
    assert "show.predict" not in text and "4711" not in text and "Cells that check" not in text
    assert 'href="../docs/rules.html"' in text and 'href="#the-end"' in text and 'href="77-made.ipynb"' in text
    assert "nb-place" not in text and "<msub><mi>x</mi><mn>1</mn></msub>" in text and "and $5." in text


def test_public_names_and_the_maintainers_pages_are_in_the_navigation(built: Path) -> None:
    """They come with the reference; the page of names is the last, and has each package's table."""
    text = (built / "site/docs/architecture.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([a-z-]+\.html)" class="md-nav__link"', text)
    assert links[-1] == "api.html" and {"changelog.html", "contributing.html", "security.html"} <= {*links}
    names = (built / "site/docs/api.html").read_text(encoding="utf-8")
    assert 'id="sharedstate_litespark"' in names and "Return a new engine for" in names


def test_the_download_is_the_notebook(built: Path) -> None:
    """It has the cells of the notebook, and no outputs."""
    source, download = (built / at / "notebooks/77-made.ipynb" for at in (".", "site"))
    assert nbformat.read(download, as_version=4).cells == nbformat.read(source, as_version=4).cells


def test_style_sheets_of_pictures_are_in_one_file(built: Path, page: str) -> None:
    """No output repeats the palette, which the site has in one file, for both themes."""
    assert "--inserted-tint:" not in page
    sheet = (built / "site/assets/pictures.css").read_text()
    assert "body:not([data-md-color-scheme]) .ssl{" in sheet and '[data-md-color-scheme="slate"] .ssl{' in sheet


def test_plotly_js_is_that_of_the_python_package() -> None:
    """JupyterLab and the site draw with one version; a file with other bytes than those of the lock is refused."""
    wheel = Path(str(importlib.util.find_spec("plotly").origin)).parent / "package_data" / "plotly.min.js"  # type: ignore[union-attr]
    with wheel.open(encoding="utf-8") as file:
        head = file.read(200)
    assert f"plotly.js v{plotly.version()}" in head
    with pytest.raises(ValueError, match="is not the one of website/package-lock.json"):
        plotly.unpacked(b"other bytes")


def test_without_npm_charts_are_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If npm has no network, the build says so in one line and goes on; the page has the table and no script for it."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plotly, "npm", lambda: [sys.executable, "-c", "import sys; sys.exit('no network')"])
    chart = show.rows_chart({"held": {1: 2}}, title="A chart")
    cell = new_code_cell("chart", outputs=[new_output("display_data", data=chart._repr_mimebundle_())])
    cell.metadata["tags"] = []
    book = new_notebook(cells=[new_markdown_cell("# 78 · More"), cell])
    publish.publish({"78-more.ipynb": book}, tmp_path / "site")
    version = plotly.version()
    said = f"plotly.js {version} cannot be fetched by npm, so charts are tables on the site (no network)\n"
    assert capsys.readouterr().out == said
    page = (tmp_path / "site/notebooks/78-more.html").read_text()
    assert "plotly-basic" not in page and "<caption>A chart</caption>" in page
    assert list(broken(tmp_path / "site")) == [] and not (tmp_path / "site/assets/plotly-basic.min.js").exists()


def test_a_stepper_has_its_recording(built: Path) -> None:
    """All steps are in a script beside the page; the page's script has the stepper, and is no module."""
    written = (built / "site/notebooks/77-made-1.js").read_text()
    data = json.loads(written.partition("] = ")[2].rstrip(";\n"))
    assert data["kind"] == "stepper" and len(data["steps"]) == data["messages"][-1]["last"] + 1 > 4
    assert all(step["caption"] for step in data["steps"])
    script = (built / "site/assets/page.js").read_text()
    assert "export" not in re.findall(r"^\w+", script, re.M) and "sharedstate.stepper = {" in script


def test_without_scripts_a_stepper_is_tables(page: str) -> None:
    """The tables of the step at which it stands are there, those of the graph too, and folds need no script."""
    stills = re.findall(r'<div class="ssl ssl-still">.*?</div></div>', page, re.S)
    assert len(stills) == 2 and all("<table>" in still and "<script" not in still for still in stills)
    assert "Before the first message." in stills[1] and "open the page with JavaScript" in page
    assert "<details" in page and "onclick" not in page


def test_the_search_covers_notebooks(built: Path) -> None:
    """The index has the text of the notebook and of the documents, and nothing of the pictures."""
    index = json.loads((built / "site/search/search_index.json").read_text())
    words = {entry["location"]: entry["text"] for entry in index["docs"]}
    assert "zanzibar" in words["notebooks/77-made.html"]
    assert any(location.startswith("docs/rules.html#") for location in words)
    assert "textLength" not in " ".join(words.values()) and "4711" not in " ".join(words.values())


def test_the_first_page_lists_notebooks_with_their_minutes(built: Path) -> None:
    """The table has the number, the title and the minutes, and a stepper stands in place of README's picture."""
    home = (built / "site/index.html").read_text()
    row = re.search(r"<td>77</td>\s*<td><a href=\"notebooks/77-made.html\">(.*?)</a></td>.*?>5</td>", home, re.S)
    assert row is not None and row[1] == "Made for a test"
    assert 'data-key="home"' in home and publish.CAPTION in home and "drawn by" not in home
    assert (built / "site/home.js").read_text().startswith('(globalThis.recordings ??= {})["home"] = {"kind":"stepper"')


@pytest.mark.parametrize("name", ["index.html", "notebooks/77-made.html"])
def test_a_page_says_how_to_start(built: Path, name: str) -> None:
    """The first page and each lesson say in two lines what needs no installation, and what does."""
    text = (built / "site" / name).read_text(encoding="utf-8")
    without, computer = (text.index(f"<b>{words}:</b>") for words in ("Without installing", "On your computer"))
    assert text.index("<h1") < without < computer < text.index("<h2", computer)
    file = re.search(r'<code>make lab</code>.*? and open <a href="([^"]+)" download>', text[computer:])
    assert file is not None and (built / "site" / name).parent.joinpath(file[1]).is_file()


def test_the_address_is_that_of_git_or_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """REPO_URL is first, then git's origin; where neither can be opened in a browser, a copy is named."""
    assert doctest.testmod(start) == (0, 2)
    monkeypatch.setenv("REPO_URL", "git@example.org:course/kit.git")
    assert '<code>git clone</code> <a href="https://example.org/course/kit">' in start.lines("77-made.ipynb")[1]
    monkeypatch.setenv("REPO_URL", "/home/course/kit")
    assert "run <code>make lab</code> in your copy of the kit, and open" in start.lines("77-made.ipynb")[1]
    monkeypatch.delenv("REPO_URL")
    monkeypatch.setenv("PATH", "")
    assert start.repository() == ""


def test_nothing_is_run_twice(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executed notebook is taken from the cache until it changes; a failed build keeps the previous site."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(built / "cache"))
    monkeypatch.setattr(execution, "run", lambda *_: pytest.fail("it was run again"))
    path = built / "notebooks" / "77-made.ipynb"
    said: list[str] = []
    (notebook,) = execution.executed([path], said.append)
    assert said == ["1 of 1 notebooks have not changed since they were last run"]
    notebook.cells[0].source = "# 77 · Made for a test\n\n[gone](#nowhere)"
    before = (built / "site/index.html").stat()
    with pytest.raises(SiteError, match="nowhere"):
        publish.publish({path.name: notebook}, built / "site")
    assert (built / "site/index.html").stat() == before
    assert sorted(p.name for p in built.iterdir()) == ["cache", "notebooks", "site"]


def test_a_changed_library_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint depends on the names and the contents of files, and not on what Python compiles."""
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    monkeypatch.setattr(execution, "SOURCES", ("library", "lock.txt"))
    seen = []
    (tmp_path / "library").mkdir()
    for name in ("lock.txt", "library/a.py", "library/b.py", "library/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        seen.append(fingerprint())
    assert len(set(seen)) == 3 and seen[2] == seen[3]


def test_only_a_site_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with other files is refused before anything is run, and stays as it is."""
    (tmp_path / "mine").write_text("mine")
    assert main(["--out", str(tmp_path)]) == 1
    assert (
        capsys.readouterr().err
        == f"site: {tmp_path} contains other files, and is not replaced; choose another folder\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_build_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Ctrl-C and a full disk leave neither half a site nor a temporary folder."""

    def interrupted(*_: Any) -> None:
        raise error

    monkeypatch.setattr(publish, "_mkdocs", interrupted)
    path = tmp_path / "in" / "77-made.ipynb"
    path.parent.mkdir()
    nbformat.write(made(), path)
    assert main(["--executed", str(path.parent), "--out", str(tmp_path / "site")]) in (1, 130)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


@pytest.mark.slow
def test_a_failing_cell_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a cell raises, the build ends with the notebook's name and the error, and nothing is kept."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "78-bad.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0", id="a")]), path)
    with pytest.raises(SiteError, match="78-bad.ipynb: a cell raised ZeroDivisionError: division by zero"):
        execution.executed([path])
    assert list((tmp_path / "cache" / "site").iterdir()) == []


def test_an_unknown_notebook_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A number that no notebook has is an error."""
    assert main(["99"]) == 1
    assert capsys.readouterr().err == f"site: {ROOT / 'notebooks'} has no notebook 99\n"


def test_the_workflow_publishes_what_make_site_writes() -> None:
    """The workflow calls `make site`, uploads its folder, and may do no more than publish pages."""
    flow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())
    (job,) = flow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    uploads = [step["with"]["path"] for step in job["steps"] if "upload-pages" in step.get("uses", "")]
    assert commands == ["make site"] and uploads == ["build/site"]
    assert flow["permissions"] == {"contents": "read", "pages": "write", "id-token": "write"}
    assert flow[True]["push"]["branches"] == ["main"]  # YAML reads "on" as true
    assert 'ROOT / "build" / "site"' in (ROOT / "website/__main__.py").read_text()
    assert "-m website" in (ROOT / "Makefile").read_text() and shutil.which("make")


@pytest.mark.slow
def test_ctrl_c_stops_the_kernel(tmp_path: Path) -> None:
    """A build that is interrupted while a cell runs says so, stops the kernel, and keeps nothing of the notebook."""
    path = tmp_path / "79-long.ipynb"
    source = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    nbformat.write(new_notebook(cells=[new_code_cell(source, id="a")]), path)
    command = [sys.executable, "-c", "import sys; from website.execution import *; executed([Path(sys.argv[1])])", path]
    settings = {**os.environ, "SHAREDSTATE_LITE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as build:
        until = time.monotonic() + 120
        while not (tmp_path / "pid").exists() and time.monotonic() < until:
            time.sleep(0.2)
        build.send_signal(signal.SIGINT)
        said = build.communicate(timeout=60)[1]
    assert "its kernel stopped: the build was interrupted" in said
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert list((tmp_path / "cache" / "site").iterdir()) == []


@pytest.mark.slow
def test_notebook_01_is_published(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebook 01 is run and published beside the small one, without a broken link, and with its stepper."""
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(built / "cache"))
    paths = [*(ROOT / "notebooks").glob("01-*.ipynb"), built / "notebooks" / "77-made.ipynb"]
    notebooks = {path.name: each for path, each in zip(paths, execution.executed(paths), strict=True)}
    publish.publish(notebooks, tmp_path / "site")
    assert list(broken(tmp_path / "site")) == []
    source = paths[0].read_text()
    assert len(list((tmp_path / "site/notebooks").glob("01-*-stepper-*.html"))) == source.count("show.stepper(")
