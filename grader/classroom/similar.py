"""The command `similar`: which submissions share code. A hint for a conversation with students, never part of a score.

It compares what `class` has stored in OUT/sources, the published solution of the lab, and other solutions that are
given, and writes OUT/similar.html, which no other command reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import write
from ..lab.bundle import read_bundle
from ..lab.fields import HAND_IN
from ..report.words import counted, safe
from ..statuses import OK, Parser, status_of
from .gradebook import RUN
from .pages import page, table
from .results import read
from .winnow import Link, Pair, Source, code_of, links, pairs, ranges, source, usual

PAGE = "similar.html"
_LINES, _ROWS, _OPEN = 20, 500, 50
"""The most pairs and groups in the terminal, in the table of the page, and with their code on the page."""
_LEAST = 30


def main(words: list[str]) -> int:
    """Run a command line that begins with similar, and return the exit status."""
    return status_of("python -m grader similar", lambda: _run(words[1:]), "interrupted; the same command starts again")


def _run(words: list[str]) -> int:
    parser = Parser(prog="python -m grader similar", description="List the submissions that share code.")
    parser.add_argument("out", type=Path, help="a folder that `class` has written")
    parser.add_argument("--lab", type=Path, metavar="DIR", help="what `lab build` has written (default: where it was)")
    also = "a folder with other solutions, *.py, to compare with"
    parser.add_argument("--also", type=Path, action="append", default=[], metavar="DIR", help=also)
    least = f"leave out pairs that share less than this percentage (default: {_LEAST})"
    parser.add_argument("--least", type=_percent, default=_LEAST, metavar="PERCENT", help=least)
    parser.add_argument("--export", type=Path, metavar="DIR", help="write a new folder for JPlag and Dolos")
    given = parser.parse_args(words)
    run = read(given.out / RUN)
    if run is None:
        raise UsageError(
            f"{given.out} has no {RUN}; give the folder that `python -m grader class ... --out` has written"
        )
    stub, solution = _published(given.lab or Path(run.get("lab_folder", "")), run)
    texts = {path.name: _text(path) for path in sorted((given.out / "sources").glob("*")) if path.is_dir()}
    others = {"solution": solution}
    for folder in given.also:
        more = {path.stem: path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.py"))}
        if not more:
            raise UsageError(f"--also {folder} has no *.py; give a folder with a file for each solution")
        others |= more
    if given.export:
        _export(given.export, stub, texts, others)
    compared = [source(id, text, stub) for id, text in texts.items()]
    compared += [source(name, text, stub, published=True) for name, text in others.items()]
    found = links(pairs(compared, given.least / 100))
    half = usual(compared)
    write(given.out / PAGE, _page(run, compared, found, given.least, half))
    for link in found[:_LINES]:
        lines = "" if _group(link) else f": lines {_lines(link.pairs[0])}"
        print(f"{_percentage(link):>5}  {_text_of(link)}{lines}")
    rest = f"; {len(found) - _LINES} more on the page" if len(found) > _LINES else ""
    print(f"{counted(len(texts), 'submission')}; {_counted(found)} with {given.least} % or more{rest}")
    print(f"  half of all pairs of submissions share {100 * half:.0f} % or more")
    print(f"  {given.out / PAGE}")
    return OK


def _percent(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return int(text)


def _published(lab: Path, run: dict[str, Any]) -> tuple[str, str]:
    """Return the stub and the solution of a lab that was built."""
    built = lab.parent if (lab / "lab.json").is_file() else lab
    try:
        stub, solution = ((built / name / HAND_IN).read_text("utf-8") for name in ("student", "solution"))
    except OSError as error:
        said = f"the lab's stub and solution are not there ({error.filename}: {error.strerror})"
        raise UsageError(
            f"{said}; give what `lab build` has written, such as --lab build/labs/1-max-and-join"
        ) from None
    if (number := read_bundle(built).number) != run["lab"]["number"]:
        raise UsageError(f"--lab {lab} is lab {number}, and the results are of lab {run['lab']['number']}")
    return stub, solution


def _text(folder: Path) -> str:
    """Return what a student has handed in; of a notebook, the code."""
    module = folder / HAND_IN
    if module.is_file():
        return module.read_text("utf-8", "replace")
    return "".join(code_of(path.read_text("utf-8-sig", "replace")) for path in sorted(folder.glob("*.ipynb")))


def _export(place: Path, stub: str, texts: dict[str, str], others: dict[str, str]) -> None:
    if place.exists():
        raise UsageError(f"--export {place} is there already; give a new folder")
    place.mkdir(mode=0o700, parents=True)
    files = {f"submissions/{id}": text for id, text in texts.items()}
    files |= {f"submissions/published-{name}": text for name, text in others.items()}
    for name, text in {**files, "base": stub}.items():
        write(place / name / HAND_IN, text)


def _name(one: Source) -> str:
    return f"{one.id} (published)" if one.published else one.id


def _percentage(link: Link) -> str:
    return f"{100 * link.pairs[0].share:.0f} %"


def _equal(link: Link) -> str:
    return ", equal after renaming" if all(pair.equal for pair in link.pairs) else ""


def _group(link: Link) -> bool:
    """Return whether a link is a group of three or more copies."""
    return len(link.sides) == 1 and len(link.sides[0]) > 2


def _names(link: Link) -> tuple[str, str]:
    """Return both sides of a link; of a group, the first solution and the others."""
    pair = link.pairs[0]
    if len(link.sides) == 1:
        one, *others = map(_name, link.sides[0])
        return one, ", ".join(others)
    alike = (f" (of {len(side)} alike)" if len(side) > 1 else "" for side in link.sides)
    one, other = (f"{_name(one)}{more}" for one, more in zip((pair.one, pair.other), alike, strict=True))
    return one, other


def _text_of(link: Link) -> str:
    names = _names(link)
    said = f"{len(link.sides[0])} alike: {', '.join(names)}" if _group(link) else " and ".join(names)
    return f"{said}{_equal(link)}"


def _counted(found: Sequence[Link]) -> str:
    groups = sum(map(_group, found))
    said = counted(len(found) - groups, "pair")
    return f"{counted(groups, 'group')} and {said}" if groups else said


def _lines(pair: Pair) -> str:
    return " and ".join(map(ranges, pair.lines))


def _page(run: dict[str, Any], compared: Sequence[Source], found: Sequence[Link], least: int, half: float) -> str:
    title = f"Lab {run['lab']['number']}: {run['lab']['title']}"
    students = sum(not one.published for one in compared)
    body = [f"<h1>{safe(title)}: similar submissions</h1>"]
    body.append(f'<p class="about"><span>{counted(students, "submission")} compared</span></p>')
    body += [f"<p>{line}</p>" for line in _told(least, half)]
    head = [("Submission", ""), ("Other", ""), ("Shared", "num"), ("Lines", "rule")]
    rows = [
        [*map(safe, _names(link)), f"{_percentage(link)}{_equal(link)}", safe(_lines(link.pairs[0]))]
        for link in found[:_ROWS]
    ]
    caption = f"the {len(rows)} most similar of {_counted(found)}"
    shown = table("class", caption, head, rows) if rows else "<p>None.</p>"
    body.append(f"<section><h2>{_counted(found).capitalize()}</h2>{shown}</section>")
    if found:
        code = "".join(map(_side_by_side, found[:_OPEN]))
        body.append(f"<section><h2>The code of the first {min(len(found), _OPEN)}</h2>{code}</section>")
    return page(title, body)


def _told(least: int, half: float) -> Iterator[str]:
    yield (
        f"Listed are pairs that share {least} % or more of the shorter solution. What the stub gives does not count, "
        f"and names, comments and the order of methods make no difference. Half of all pairs share {100 * half:.0f} % "
        "or more, so only what is far above that is unusual here."
    )
    yield (
        "This is a hint and no proof: a small task has few solutions, and two students may have read the same page. "
        "Look at the lines, and talk to the students. No score depends on it."
    )


def _side_by_side(link: Link) -> str:
    pair, sides = link.pairs[0], []
    for one, lines in zip((pair.one, pair.other), map(set, pair.lines), strict=True):
        numbered = [(number, f"{number:4} {safe(line)}") for number, line in enumerate(one.text.splitlines(), 1)]
        shown = "\n".join(f"<mark>= {line}</mark>" if number in lines else f"  {line}" for number, line in numbered)
        sides.append(f"<div><b>{safe(_name(one))}</b><pre>{shown}</pre></div>")
    told = f"{safe(_text_of(link))}: {_percentage(link)}"
    return f'<details><summary>{told}</summary><div class="code">{"".join(sides)}</div></details>'
