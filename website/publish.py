"""Builds the site from executed notebooks and the documentation: Markdown in a temporary folder, MkDocs, the outputs.

The site is complete or not there. It is built in a folder next to its place, and replaces the previous site at the end.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sharedstate_lite as ss
from sharedstate_lite.show import stepper
from sharedstate_lite.show.page import SCRIPT, STEPPER_STYLE, STYLE
from sharedstate_lite.show.palette import DARK, style
from sharedstate_lite.system.example import MESSAGES, SCHEMA, SQL
from sharedstate_lite.system.folders import atomic_folder

from . import api, plotly, start
from .execution import ROOT, SiteError
from .github_markdown import adapted, faults, relinked
from .lesson import HERE, PLOTLY_FILE, Lesson, done, empty, lesson, place, script
from .links import broken

MARK = ".sharedstate-lite-site"
"""A file in every site that this command has written. Only such a folder is replaced."""
CAPTION = "Press Next to see how full state processes the last message, a visit."
_PICTURE = re.compile(r"^<picture>.*?</picture>\n\n\*.*?\*$", re.M | re.S)
_ROW = re.compile(r"^\| \[[^\]]+\]\(notebooks/(\S+)\.ipynb\) \|[^|]*\| (.+) \|$", re.M)


def publish(notebooks: Mapping[str, Any], target: Path) -> None:
    """Write the site to ``target``. ``notebooks`` maps file names to executed notebooks.

    Raises SiteError if ``target`` contains anything but a previous site, or if a link is broken.
    """
    with _replaced(target) as site, tempfile.TemporaryDirectory(prefix="site") as folder:
        docs = Path(folder)
        lessons = _written(docs, notebooks)
        charts = any(each.charts for each in lessons.values()) and plotly.script()
        if charts:
            (docs / "assets" / PLOTLY_FILE).write_text(charts, encoding="utf-8")
        _mkdocs(docs, site, lessons)
        for name, each in lessons.items():
            page = site / "notebooks" / f"{name.removesuffix('.ipynb')}.html"
            page.write_text(each.filled(page.read_text(encoding="utf-8"), bool(charts)), encoding="utf-8")
        faults = list(broken(site))
        if faults:
            raise SiteError("the site has broken links:\n  " + "\n  ".join(faults))
        (site / MARK).touch()


def refuse(target: Path) -> None:
    """Raise SiteError if ``target`` contains anything but a previous site."""
    if target.exists() and not (target / MARK).exists() and (not target.is_dir() or any(target.iterdir())):
        raise SiteError(f"{target} contains other files, and is not replaced; choose another folder")


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces the site in ``target`` at the end of the block."""
    refuse(target)
    ready, old = (target.with_name(f"{target.name}.{word}") for word in ("new", "old"))
    # A previous build was killed while it replaced the site.
    _remove(ready)
    _remove(old)
    with atomic_folder(ready) as work:
        yield work
        work.chmod(0o755)  # a temporary folder is private, and a web server must read this one
    if target.exists():
        target.rename(old)
    ready.rename(target)
    _remove(old)


def _remove(site: Path) -> None:
    if (site / MARK).exists():
        shutil.rmtree(site)


def _written(docs: Path, notebooks: Mapping[str, Any]) -> dict[str, Lesson]:
    """Write all pages as Markdown to ``docs``, with the files that they need. Return the lessons by file name."""
    pages = {path: path for path in (f"docs/{p.name}" for p in sorted((ROOT / "docs").iterdir()) if p.is_file())}
    pages |= {"README.md": "kit.md", "bench/README.md": "docs/benchmarks.md"}
    pages |= {f"{name}.md": f"docs/{name.lower()}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")}
    pages |= {f"notebooks/{name}": f"notebooks/{name.removesuffix('.ipynb')}.md" for name in notebooks}
    here = _repository()
    for source, page in pages.items():
        path = docs / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copy(ROOT / source, path)
        elif source.endswith(".md") and source != "README.md":
            text = (ROOT / source).read_text(encoding="utf-8")
            if wrong := faults(text):
                raise SiteError(f"{source}: {'; '.join(wrong)}")
            path.write_text(adapted(relinked(text, source, pages, here)))
    names = relinked(api.page(), api.PAGE, {api.PAGE: api.PAGE}, here)
    (docs / api.PAGE).write_text(adapted(names))
    lessons = {}
    for name, notebook in notebooks.items():
        source = f"notebooks/{name}"
        made = lesson(notebook, name, partial(relinked, source=source, pages=pages, repository=here))
        lessons[name] = made
        (docs / pages[source]).write_text(made.markdown)
        for file, content in {**made.files, name: empty(notebook)}.items():
            (docs / "notebooks" / file).write_text(content)
    home, kit = _front((ROOT / "README.md").read_text(encoding="utf-8"), lessons)
    (docs / "kit.md").write_text(adapted(relinked(kit, "README.md", pages, here)))
    (docs / "index.md").write_text(adapted(relinked(home, "README.md", pages | {"README.md": "index.md"}, here)))
    view = ss.Catalog(**SCHEMA).view(SQL)
    drawn = stepper(ss.replay("full", [view]), MESSAGES, at=(len(MESSAGES), 1))
    (docs / "home.js").write_text(script("home", drawn.data()))
    _assets(docs / "assets")
    return lessons


def _front(readme: str, lessons: Mapping[str, Lesson]) -> tuple[str, str]:
    """Return the first page, with the list of lessons and their minutes, and a page with the rest of README.md."""
    pitch, _, rest = readme.partition("\n## Start\n")
    before, _, after = rest.partition("\n## The notebooks\n")
    _, _, after = after.partition("\n## ")
    still = '<img class="ssl-still" alt="" src="docs/stepper-light.png">'
    pitch = _PICTURE.sub(f"{place('home', 'home.js', still)}\n\n*{CAPTION}*", pitch)
    contents = dict(_ROW.findall(readme))
    rows = ["| | notebook | contents | minutes |", "|---|---|---|--:|"]
    for name, each in lessons.items():
        number, _, title = each.title.rpartition(" · ")
        about = contents.get(name.removesuffix(".ipynb"), "")
        rows.append(f"| {number} | [{title}](notebooks/{name}) | {about} | {each.minutes or ''} |")
    first = next(iter(lessons), "")
    ways = [f"<p>{line}</p>" for line in start.lines(f"notebooks/{first}")]
    ways.append('<p>What you need, and other ways: <a href="kit.html">The kit</a>.</p>')
    home = "\n".join(
        [pitch, "", "## How to start", "", *ways, "", "## The notebooks", "", *rows, "", done(lessons), ""]
    )
    return home, f"# The kit\n\n## Start\n{before}\n## {after}"


def _assets(folder: Path) -> None:
    """Write the style sheets and the scripts."""
    shutil.copytree(HERE / "assets", folder)
    dark = "".join(f"--{name}:{value};" for name, value in DARK.items()) + "color-scheme:dark"
    with_toggle = f'[data-md-color-scheme="slate"] .ssl{{{dark}}}'
    without = f"@media (prefers-color-scheme:dark){{body:not([data-md-color-scheme]) .ssl{{{dark}}}}}"
    (folder / "pictures.css").write_text("\n".join([style("light"), with_toggle, without, STYLE, STEPPER_STYLE]))
    (folder / "page.js").write_text(SCRIPT)


def _repository() -> str:
    """Return the address of the repository's files if a GitHub workflow runs this, otherwise ""."""
    server, name, commit = (os.environ.get(f"GITHUB_{word}", "") for word in ("SERVER_URL", "REPOSITORY", "SHA"))
    return f"{server}/{name}/blob/{commit}" if server and name and commit else ""


def _mkdocs(docs: Path, site: Path, lessons: Mapping[str, Lesson]) -> None:
    """Run MkDocs. Raises SiteError with its warnings, for example about links that lead nowhere."""
    # The theme announces the end of its support in 2027 at each build.
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    reference = sorted(f"docs/{path.name}" for path in (docs / "docs").glob("*.md"))
    reference.sort(key=api.PAGE.__eq__)  # last
    nav: list[Any] = [
        {"Home": "index.md"},
        {"Notebooks": [{each.title: f"notebooks/{name.removesuffix('.ipynb')}.md"} for name, each in lessons.items()]},
        {"Reference": reference},
        {"The kit": "kit.md"},
    ]
    heard = _Heard()
    logger = logging.getLogger("mkdocs")
    logger.addHandler(heard)
    try:
        build(load_config(str(HERE / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(site), nav=nav))
    except MkDocsException as error:
        raise SiteError(f"MkDocs: {error}") from error
    finally:
        logger.removeHandler(heard)
    if heard.said:
        raise SiteError("MkDocs warns:\n  " + "\n  ".join(heard.said))


class _Heard(logging.Handler):
    """Collects the warnings of MkDocs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
