"""Turns an executed notebook into a page: Markdown for MkDocs, and the HTML of its outputs.

The outputs are not part of the Markdown. Each leaves a placeholder in it, which `filled` replaces after MkDocs has
built the page. So MkDocs neither parses nor indexes the pictures.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from nbconvert.exporters import MarkdownExporter
from nbconvert.filters import ansi2html, markdown2html

from sharedstate_lite.show.chart import PLOTLY, TONES
from sharedstate_lite.show.page import PAGE, STEPPER_STYLE, STYLE
from sharedstate_lite.show.palette import style

from . import start
from .execution import SiteError
from .github_markdown import adapted, outside_fences

HERE = Path(__file__).resolve().parent
STYLE_SHEETS = (style(), STYLE, STEPPER_STYLE)
"""Style sheets that many outputs contain. The site has them once, in site.css."""
_MINUTES = re.compile(r"^(\d+) minutes · |about (\d+) minutes", re.M)
_FORMULA = re.compile(r"(?<![\w\\$])\$([^$`\n]+)\$(?![\w$])")
PLOTLY_FILE = "plotly-basic.min.js"
INLINE = 30_000
"""The most characters of data that a page itself has. A longer recording is a script of its own."""
_AGAIN = re.compile(
    r"To start again, replace your code in the next cell by `show\.put_back\(\)`, and run that cell\.\s*"
)
"""What a reader of the page cannot do."""
_RULE = re.compile(r"✓ \*\*Rules? (\d+′?)(?: and (\d+′?))?\*\*")
_PLACE = '<div class="nb-place" id="nb-place-{}"></div>'


@dataclass
class Lesson:
    """A notebook as a page. ``files`` maps names of further files, relative to the page, to their contents.

    ``questions`` is the number of its predictions, and ``charts`` that of its charts.
    """

    title: str
    minutes: int
    markdown: str = ""
    outputs: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    questions: int = 0
    charts: int = 0

    def filled(self, page: str, plotly: bool) -> str:
        """Return the HTML of the built page with its outputs in place of the placeholders.

        ``plotly``: whether the site has plotly.js, which a page with charts loads.
        """
        if plotly and self.charts:
            page = page.replace("</head>", f'<script defer src="../assets/{PLOTLY_FILE}"></script></head>', 1)
        for number, output in enumerate(self.outputs):
            before, place, after = page.partition(_PLACE.format(number))
            if not place:
                raise SiteError(f"{self.title}: MkDocs dropped output {number}; its cell may be inside a list")
            page = f'{before}<div class="nb-output">{output}</div>{after}'
        return page


def lesson(notebook: Any, name: str, words: Callable[[str], str]) -> Lesson:
    """Return the page of an executed notebook, whose file is called ``name``. ``words`` changes links in its text."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    found = re.search(r"^# (.+)$", "\n".join(texts), re.M)
    if found is None:
        raise SiteError(f"{name}: the notebook has no title; begin it with a line such as '# 01 · Full state'")
    time = _MINUTES.search("\n".join(texts))
    made = Lesson(found[1], int(time[1] or time[2]) if time else 0)
    exporter = MarkdownExporter(template_name="lesson", extra_template_basedirs=[str(HERE / "templates")])
    named = set(re.findall(r"\brule (\d+′?)", "\n".join(cell.source for cell in notebook.cells)))
    exporter.register_filter("words", lambda text: adapted(words(formulas(ruled(_AGAIN.sub("", text), named)))))
    exporter.register_filter("together", together)
    exporter.register_filter("fenced", fenced)
    exporter.register_filter("unasked", unasked)
    exporter.register_filter("placed", lambda output: _placed(output, made, name))
    made.markdown, _ = exporter.from_notebook_node(notebook, {"start": start.lines(name)})
    if made.questions:
        made.outputs.append(done({name: made}))
        made.markdown += f"\n\n{_PLACE.format(len(made.outputs) - 1)}\n"
    return made


def done(lessons: Mapping[str, Lesson]) -> str:
    """Return the place where the page's script counts the predictions that a reader has answered."""
    pages = {
        name.removesuffix(".ipynb"): [each.title, each.questions] for name, each in lessons.items() if each.questions
    }
    text = escape(json.dumps(pages, ensure_ascii=False), quote=True)
    return f'<div class="ssl ssl-done" hidden data-pages="{text}"></div>'


def empty(notebook: Any) -> str:
    """Return the file of a notebook without its outputs, for readers to download."""
    copy = deepcopy(notebook)
    copy.metadata.pop("widgets", None)
    for cell in copy.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return str(nbformat.writes(copy))


def formulas(text: str) -> str:
    """Return Markdown with its formulas as MathML, which browsers show without a script."""

    def shown(lines: list[str]) -> list[str]:
        return [_FORMULA.sub(lambda f: f'<span class="nb-formula">{convert(f[1])}</span>', line) for line in lines]

    return outside_fences(text, shown)


def ruled(text: str, named: set[str]) -> str:
    """Return Markdown whose marks of rules lead to the rules. A number is shown only if the page names it elsewhere.

    >>> ruled("✓ **Rule 8** It emits the next. ✓ **Rule 23′** It ends.", {"8"})
    '[✓ Rule 8](../docs/rules.md#rule-8) It emits the next. [✓](../docs/rules.md#rule-23b){title="Rule 23′"} It ends.'
    """

    def marked(found: re.Match[str]) -> str:
        links = []
        for number in filter(None, found.groups()):
            address = f"../docs/rules.md#rule-{number.replace('′', 'b')}"
            title = f'{{title="Rule {number}"}}'
            links.append(f"[✓ Rule {number}]({address})" if number in named else f"[✓]({address}){title}")
        return " ".join(links)

    return _RULE.sub(marked, text)


def together(cells: list[Any]) -> list[Any]:
    """Return the cells with neighbouring collapsed cells as one, if the first of them shows nothing."""
    made: list[Any] = []
    for cell in cells:
        folded = "collapsed" in cell.metadata.get("tags", [])
        before = made[-1] if made else None
        if folded and before and "collapsed" in before.metadata.get("tags", []) and not before.outputs:
            made[-1] = nbformat.from_dict({**cell, "source": f"{before.source}\n\n\n{cell.source}"})
        else:
            made.append(cell)
    return made


def unasked(source: str) -> str:
    """Return the code of a folded cell without its questions: these have the explanations of wrong answers."""
    statements = ast.parse(source).body
    calls = [
        (each, call)
        for each in statements
        for call in ast.walk(each)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "show.question"
    ]
    whys = {each.id for _, call in calls for each in call.args[2:3] if isinstance(each, ast.Name)}
    gone = [each for each, _ in calls]
    gone += [each for each in statements if isinstance(each, ast.Assign) and {*map(ast.unparse, each.targets)} & whys]
    lines = source.splitlines()
    for each in gone:
        lines[each.lineno - 1 : each.end_lineno] = [""] * ((each.end_lineno or each.lineno) - each.lineno + 1)
    return re.sub(r"\n{3,}", "\n\n\n", "\n".join(lines)).strip("\n")


def fenced(source: str) -> str:
    """Return Python code as a fenced block. The fence is longer than any run of backticks in the code."""
    longest = max(map(len, re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{source}\n{fence}"


def _placed(output: Any, made: Lesson, name: str) -> str:
    html = shown(output, made, name)
    if not html:
        return ""
    made.outputs.append(html)
    return _PLACE.format(len(made.outputs) - 1)


def shown(output: Any, made: Lesson, name: str) -> str:
    """Return an output as HTML; "" if a page cannot show it. A long recording is added to the files of the page."""
    if output.output_type == "error":
        raise SiteError(f"{name}: a cell raised {output.ename}: {output.evalue}; run the notebook again")
    if output.output_type == "stream":
        return f'<pre class="nb-text">{ansi2html(output.text)}</pre>'
    data = output.data
    if "application/vnd.jupyter.widget-view+json" in data:
        return ""
    if PAGE in data and data[PAGE]["kind"] == "prediction":
        made.questions += 1
        return mounted(data[PAGE], _html(data["text/html"]))
    if PAGE in data:
        return _recording(data[PAGE], _html(data["text/html"]), made, name)
    if PLOTLY in data:
        made.charts += 1
        figure = {part: data[PLOTLY][part] for part in ("data", "layout")}
        tones = {tone: hue for hue, tone in TONES.items()}
        return mounted({"kind": "chart", "figure": figure, "tones": tones}, _html(data["text/html"]))
    if "text/html" in data:
        return _html(data["text/html"])
    if "image/svg+xml" in data:
        return str(data["image/svg+xml"])
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/markdown" in data:
        return str(markdown2html(data["text/markdown"]))
    return f'<pre class="nb-text">{ansi2html(data["text/plain"])}</pre>' if "text/plain" in data else ""


def mounted(data: Mapping[str, Any], still: str) -> str:
    """Return ``still``, HTML that begins with an element of the class ssl, as a place for the page's script.

    The script finds ``data`` in it. Without scripts and on paper, it is shown as it is.
    """
    return f'<div class="ssl ssl-mount"><script type="application/json">{_json(data)}</script>{still}</div>'


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _html(html: str) -> str:
    """Remove the style sheets that the site has once."""
    for sheet in STYLE_SHEETS:
        html = html.replace(sheet, "")
    return html.replace("<style></style>", "")


def _recording(data: Any, still: str, made: Lesson, name: str) -> str:
    """Return the place of a stepper or of a picture of a graph. A stepper also has a page of its own."""
    stem = name.removesuffix(".ipynb")
    key = f"{stem}-{sum(file.endswith('.js') for file in made.files) + 1}"
    if data["kind"] == "graph" and len(_json(data)) <= INLINE:
        return mounted(data, still)
    made.files[f"{key}.js"] = script(key, data)
    if data["kind"] == "graph":
        return place(key, f"{key}.js", still)
    steppers = sum("-stepper-" in file for file in made.files) + 1
    alone, title = f"{stem}-stepper-{steppers}.html", escape(f"{made.title}, stepper {steppers}")
    page = (HERE / "templates" / "stepper.html").read_text(encoding="utf-8")
    made.files[alone] = page.format(title=title, back=f"{stem}.html", place=place(key, f"{key}.js", still))
    link = f'<p class="nb-alone"><a href="{alone}">Open this stepper on a page of its own</a></p>'
    return place(key, f"{key}.js", still) + link


def place(key: str, file: str, still: str) -> str:
    """Return the place of the recording ``key``, which is in ``file``. Without scripts, ``still`` is shown."""
    return f'<div class="ssl ssl-mount" data-key="{key}" data-file="{file}">{still}</div>'


def script(key: str, data: Any) -> str:
    """Return the file of the recording ``key``: a script, which a page can load without a web server."""
    return f"(globalThis.recordings ??= {{}})[{json.dumps(key)}] = {_json(data)};\n"
