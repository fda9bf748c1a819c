"""Explore the systems of a class after they were graded: `class --lab 6 --explore MINUTES`. No grade depends on it.

What was found is stored apart, in explore/HASH/ of the folder of results, by the hash of what was handed in. A system
that was explored for as many minutes is not explored again, also not by a later explorer. A page for the teacher says
which case breaks how many teams.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ..files import as_json, write
from ..folders import remove
from ..report.explored import JSON, PAGE
from ..report.words import code, counted, safe
from .collect import Submission
from .gradebook import Out
from .pages import page, table
from .pool import run
from .results import GRADED, VOID, Found, grader_hash, hash_of, read

KIND = "explore"
FOLDER, ABOUT = "explore", "about.json"
"""The folder of explorations in that of results, and the file in which one says what it belongs to."""
IMPOSSIBLE = "impossible"
"""The status of a system that does not start, so that it cannot be explored. One that was explored is GRADED."""
_DIGITS = 16
_SOURCES = ("explore",)


def explore(out: Path, submissions: Iterable[Submission], minutes: float, scratch: Path) -> None:
    """Explore what was handed in, and store what is found. ``minutes``: after them, no case of a system begins."""
    explorer, tasks = grader_hash(_SOURCES), dict[str, dict[str, Any]]()
    for one in sorted(submissions, key=lambda one: one.id):
        hash = hash_of(one.files) if one.files and not one.why else ""
        found = read(place_of(out, hash) / ABOUT) if hash else None
        if not hash or (found is not None and found["status"] != VOID and found["minutes"] >= minutes):
            continue
        files = [(name, str(path.absolute())) for name, path in one.files]
        about: dict[str, Any] = {"submission": hash, "explorer": explorer, "minutes": minutes, "scratch": str(scratch)}
        task = {**about, "kind": KIND, "id": one.id, "files": files, "out": str(place_of(out, hash).absolute())}
        tasks.setdefault(hash, task)
    if tasks:
        said = f"{counted(len(tasks), 'system')} to explore, one at a time, up to {minutes:g} minutes each"
        print(f"{said}, and the time in which wrong runs are confirmed", file=sys.stderr, flush=True)
    with closing(run(tasks.values(), 1)) as answers:
        for number, (task, answer, _) in enumerate(answers, 1):
            found = answer["found"] if answer else fresh(task, VOID, "the process that explored it was killed")
            write(place_of(out, task["submission"]) / ABOUT, as_json(found))
            told = f"explored {number} of {len(tasks)}: {task['id']}: {words(out, found)}"
            print(told, file=sys.stderr, flush=True)


def fresh(task: Mapping[str, Any], status: str = GRADED, why: str = "") -> Found:
    """Return what is stored of an exploration besides its report."""
    return {**{name: task[name] for name in ("submission", "explorer", "minutes")}, "status": status, "why": why}


def place_of(out: Path, submission: str) -> Path:
    """Return the folder for the exploration of what was handed in. ``submission``: its hash."""
    return out / FOLDER / submission[:_DIGITS]


def words(out: Path, found: Found) -> str:
    """Return in words what an exploration has found."""
    if found["status"] != GRADED:
        return f"{found['status']}: {found['why'].partition(chr(10))[0]}"
    told = read(place_of(out, found["submission"]) / JSON)
    wrong = len(_wrong(told)) if told else 0
    return counted(wrong, "wrong case") if wrong else "nothing found"


def _wrong(told: Found) -> list[dict[str, Any]]:
    return [case for case in told["cases"] if case["wrong"]]


def _stored(out: Out) -> Iterator[tuple[str, Found]]:
    """Return each team or student whose newest submission was explored, with what is stored of it."""
    for id, graded in sorted(out.newest.items()):
        if graded["submission"] and (found := read(place_of(out.folder, graded["submission"]) / ABOUT)) is not None:
            yield id, found


def forget(out: Out) -> None:
    """Remove explorations of what is no longer the newest submission of anyone."""
    kept = {place_of(out.folder, found["submission"]) for found in out.newest.values() if found["submission"]}
    for place in {*(out.folder / FOLDER).glob("*")} - kept:
        remove(place)


def explored_page(out: Out) -> str:
    """Return the page for the teacher. It has no points."""
    stored, groups = [*_stored(out)], dict[tuple[str, str, str], list[str]]()
    explored, rows = 0, []
    for id, found in stored:
        folder = f"{FOLDER}/{place_of(out.folder, found['submission']).name}/{PAGE}"
        told = read(place_of(out.folder, found["submission"]) / JSON) if found["status"] == GRADED else None
        if told is None:
            rows.append([code(id), safe(words(out.folder, found), 400), ""])
            continue
        explored += 1
        ran, possible = (sum(kind[what] for kind in told["kinds"]) for what in ("ran", "possible"))
        link = f'<a href="{safe(folder)}">{safe(words(out.folder, found))}</a>'
        rows.append([code(id), link, f"{ran:,} of {possible:,}"])
        for case in _wrong(told):
            teams = groups.setdefault((case["kind"], case["place"], ", ".join(case["rules"])), [])
            teams.append(f'<a href="{safe(folder)}#{safe(case["id"])}">{safe(id)}</a>')
    head = [("What is done", ""), ("Kind", "word"), ("Broken rule", "word"), ("Teams", "num"), ("Which", "")]
    lines = [
        [
            safe(place.replace("->", " → ")),
            safe(kind or "no fault"),
            code(rules),
            f"{len(teams)} of {explored}",
            ", ".join(teams),
        ]
        for (kind, place, rules), teams in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    ]
    body = [
        "<h1>Lab 6: what explore has found</h1>",
        '<p class="about"><span>No points depend on this page.</span></p>',
    ]
    cases = table("class", "at most one case for each kind and broken rule, and five, for each team", head, lines)
    found_none = "<p>No case has broken a system that was explored.</p>"
    body.append(f"<section><h2>Cases that break systems</h2>{cases if lines else found_none}</section>")
    head = [("Team", ""), ("Found", ""), ("Cases run", "num")]
    body.append(f"<section><h2>Systems</h2>{table('class', 'each with its report', head, rows)}</section>")
    return page("Lab 6: what explore has found", body)
