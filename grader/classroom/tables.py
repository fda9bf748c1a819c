"""Write everything that is computed from stored results. Starts no process and reads no clock."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..files import as_json, write
from ..folders import remove
from .explored import FOLDER, explored_page, forget
from .gradebook import MEND_OVER, RUN, Out, Row, changes, gradebook, problems, rows_of, table
from .late import Course
from .pages import class_page, feedback
from .points import Adjust, Rubric, number

EXPLORED = "explore.html"
_PROBLEMS = ("id", "lab", "status", "problem", "what_to_do")


def write_all(outs: Sequence[Out], course: Course, rubric: Rubric, adjust: Adjust) -> Mapping[int, Sequence[Row]]:
    """Write the tables and pages of each folder, and return the rows of each lab."""
    found = rows_of(outs, course, rubric, adjust)
    known = {(row.id, row.lab) for rows in found.values() for row in rows}
    if {*course.due} & {*found} and course.zone is None:
        print('note: the course has no time zone, so a late day has 24 hours; for example: zone = "Europe/Berlin"')
    for id, lab in sorted({*course.extensions} - known):
        if lab in found:
            print(f"note: there is an extension of {id!r} for lab {lab}, but no such student")
    for out in outs:
        _forget(out)
        rows = found[out.lab]
        wrong = problems(rows, out, course, rubric)
        if out.run["ungraded"]:
            (out.folder / "gradebook.csv").unlink(missing_ok=True)
        else:
            book = out.folder / "gradebook.csv"
            if differ := _differ(book, rows):
                said = "an earlier version of the grader has written the last gradebook, and these scores differ"
                print(f"note: {said} ({book}): {', '.join(differ)}")
            write(book, gradebook(rows, out.run.get("names", {})))
        write(out.folder / "problems.csv", table([_PROBLEMS, *wrong]))
        write(out.folder / "changes.csv", changes(rows, out, course, rubric))
        pages = {out.page(row.id): row for row in rows if out.place(row.id) in out.newest}
        for old in {*out.folder.glob("submissions/*/feedback*.html")} - {*pages}:
            old.unlink()  # of a student who has left the team
        for page, row in pages.items():
            write(page, feedback(row, out, rubric))
        write(out.folder / "class.html", class_page(rows, out, rubric, wrong))
        if (out.folder / FOLDER).is_dir():
            forget(out)
            write(out.folder / EXPLORED, explored_page(out))
    return found


def left_out(adjust: Adjust, found: Mapping[int, Sequence[Row]]) -> list[str]:
    """Return what of adjust.csv is not in the rows: lines with a wrong cell or an unknown id, or above the maximum."""
    known = {(row.id, row.lab) for rows in found.values() for row in rows}
    unknown = [
        f"{adjust.name}, line {one.line}: lab {lab} has no student {id!r}; correct the id"
        for (id, lab), lines in adjust.rows.items()
        if lab in found and (id, lab) not in known
        for one in lines
    ]
    refused = [f"{said}; {MEND_OVER}" for rows in found.values() for row in rows for said in row.refused]
    return [*adjust.wrong, *unknown, *refused]


def _differ(book: Path, rows: Sequence[Row]) -> list[str]:
    """Return the scores that differ from those of a gradebook in which points by hand have no column.

    Later rules count such points without a grade, keep to the maximum and to most_days, and know time zones.
    """
    try:
        old = {line["id"]: line for line in csv.DictReader(io.StringIO(book.read_text("utf-8")))}
    except (OSError, ValueError, LookupError):
        return []  # there is none, or the teacher has changed it
    mine = {row.id: (old[row.id].get("score") or "", number(row.score)) for row in rows if row.id in old}
    if any("by_hand" in line for line in old.values()):
        return []
    return [f"{id} {was or 'none'} -> {now or 'none'}" for id, (was, now) in mine.items() if was != now]


def _forget(out: Out) -> None:
    """Remove what is known of students whose folder in submissions/ has been deleted."""
    for known in (out.run["submissions"], out.run["lowered"], out.run["seconds"], out.run.get("handed", {})):
        for id in set(known) - set(out.newest):
            del known[id]
    write(out.folder / RUN, as_json(out.run))
    for place in (out.folder / "sources").glob("*"):
        if place.name not in out.newest:
            remove(place)
