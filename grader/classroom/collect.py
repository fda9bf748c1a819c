"""Find the submissions of a class in a folder or in an LMS's zip, and the id and time of each.

The names are those that the LMS's own code gives: Moodle's mod/assign/classes/downloader.php, Canvas's
lib/content_zipper.rb, and nbgrader's `submitted` folder. Gradescope's are those of its exports. Brightspace's are those
of its public description.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ..errors import SubmissionError, UsageError
from ..folders import shown
from ..submission.archive import leads_out, names_in, parts_of, unpack_groups
from ..submission.upload import Files, as_handed, is_submission
from .results import AMBIGUOUS, UNREADABLE, hash_of
from .roster import folded, wrong_id
from .times import parsed

_MOST_BYTES, _MOST_FILES = 4_000_000_000, 400_000
"""The maximum size and number of files of an LMS's zip."""
_MOODLE = re.compile(r".*?_(?P<id>\d+)_assignsubmission_file_?(?P<rest>.*)", re.S)
"""Up to Moodle 4.0, the names of folders end with an underscore."""
_MOODLE_ID = re.compile(r"_(\d+)(?=_assignsubmission_)")
_ONLINE_TEXT = "_assignsubmission_onlinetext"
"""In the names of Moodle's folders for text that was typed into a form."""
_CANVAS = re.compile(r"(?:.*?_)?(?:LATE_)?(?P<id>\d+|anon_[^_]+)_\d+_(?P<rest>.+)", re.S)
"""After the student's name come the student's ID and the number of the upload."""
_BRIGHTSPACE = re.compile(r"(?P<id>\d+)-\d+ - .+ - (?P<time>[^-]*\d{4}[^-]*)", re.S)
"""The number of the student and that of the folder, the name, and the time."""
_STAMP, _METADATA, _SUBMITTED = "timestamp.txt", "submission_metadata.yml", "submitted"
_NOTHING = ("__macosx", _METADATA, "index.html", "thumbs.db", "desktop.ini")
"""What systems and LMSs put beside the submissions, in small letters."""
_FILES_EACH = 3
"""A student hands in about as many files at most, where an LMS does not put them into a folder."""
_LONGEST = 200
"""The bytes that are kept of a name that is too long for a file."""
_EMPTY = "SUBMISSIONS has no submission: one folder, .zip, .py or .ipynb each"


@dataclass(frozen=True)
class Submission:
    """What a student has handed in. If ``why`` is not empty, it cannot be graded."""

    id: str
    entry: str
    """The name of the folder or file in SUBMISSIONS."""
    files: Files
    time: datetime | None = None
    """When it was handed in; None: unknown. Brightspace's times have no time zone."""
    why: str = ""
    mend: str = ""
    """What to do about ``why``."""
    status: str = AMBIGUOUS
    """What it is if it cannot be graded."""
    others: Sequence[tuple[datetime, str]] = ()
    """The times and names of what the student has handed in before, and --take has left out."""


@dataclass(frozen=True)
class Left:
    """A name in SUBMISSIONS that belongs to no student."""

    name: str
    why: str
    ids: Sequence[str] = ()
    """The students it could belong to."""
    harmless: bool = False
    """Whether it cannot be a submission anyway."""


@dataclass(frozen=True)
class Collection:
    """All submissions, sorted by id, the rule that has found the ids, names that belong to no student, and notes."""

    submissions: list[Submission]
    rule: str
    left_out: list[Left]
    notes: list[str]


@dataclass(frozen=True)
class _Entry:
    path: Path
    id: str
    rest: str = ""
    """The name that the student has given to the file, if the LMS has put something before it."""
    time: datetime | None = None
    also: Sequence[str] = ()
    """Other ids in the name. If there are some, the entry belongs to no student."""


_Rule = Callable[[Path], list[_Entry]]
"""Returns the submissions in a folder or file, one for each student; none if the name does not fit."""


def collect(
    place: Path, rule: str, take: str, known: Mapping[str, str], hand_in: Sequence[str], scratch: Path
) -> Collection:
    """Return the submissions in a folder or zip. Raises UsageError if there are none, or no rule fits their names.

    ``rule``: one of RULES, a regular expression, or "" to try RULES; ``known``: what `known_ids` returns; ``scratch``:
    where a zip is unpacked. What is wrong with one submission does not keep the others from being found.
    """
    there, refused, left_out = _paths(place, scratch, hand_in)
    text = "text that was typed into a form"
    left_out += [Left(path.name, text, harmless=True) for path in there if _ONLINE_TEXT in path.name]
    paths = [path for path in there if _ONLINE_TEXT not in path.name]
    if not any(_can_be(path, hand_in) or path in refused for path in paths):
        raise UsageError(f"{_EMPTY}; {place} has {', '.join(path.name for path in there[:5]) or 'nothing'}")
    entries, rule, notes = _named(paths, rule, known, hand_in)
    read = {entry.path for entry in entries}
    for path in paths:
        if path not in read:
            harmless = not _can_be(path, hand_in) and path not in refused
            why = "neither a folder, an archive, .py nor .ipynb" if harmless else f"does not fit the names of {rule}"
            left_out.append(Left(path.name, why, harmless=harmless))
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        if entry.also:
            both = [known.get(folded(id), id) for id in entry.also]
            left_out.append(
                Left(entry.path.name, f"has the ids {' and '.join(entry.also)}, so it is no student's", both)
            )
        elif why := wrong_id(entry.id):
            mend = "rename it, or choose another --names"
            left_out.append(Left(entry.path.name, f"the id {entry.id!r} {why}; {mend}"))
        else:
            groups.setdefault(known.get(folded(entry.id), folded(entry.id)), []).append(entry)
    if not groups:
        said = ", ".join(f"{one.name!r}: {one.why}" for one in left_out[:5])
        raise UsageError(f"{_EMPTY}; {place} has {said or 'nothing'}")
    ids = set(known.values())
    found = [
        _submission(id if id in ids else those[0].id, those, take, hand_in, refused) for id, those in groups.items()
    ]
    return Collection(sorted(found, key=lambda one: one.id), rule, left_out, notes)


def _paths(
    place: Path, scratch: Path, hand_in: Sequence[str]
) -> tuple[list[Path], dict[Path, SubmissionError], list[Left]]:
    """Return the folders and files in SUBMISSIONS, why some cannot be read, and what leads out of the zip."""
    if place.is_dir():
        inner = place / _SUBMITTED
        return _visible(inner if inner.is_dir() and not any(map(_of_lms, os.listdir(place))) else place), {}, []
    if not place.is_file() or place.suffix.lower() != ".zip":
        raise UsageError(f"{_EMPTY}; {place} is {'no folder and no .zip' if place.exists() else 'missing'}")
    refused: dict[Path, SubmissionError] = {}
    left_out = []
    try:
        around = _around(names_in(place), hand_in)
        bad = unpack_groups(place, scratch, len(around), _MOST_BYTES, _MOST_FILES)
        top = scratch.joinpath(*around)
        top.mkdir(parents=True, exist_ok=True)
        for name, error in bad:
            parts = parts_of(name)
            if leads_out(name) or parts[: len(around)] != around or len(parts) == len(around):
                left_out.append(Left(shown(name), "leads out of the archive" if leads_out(name) else str(error)))
                continue
            path = top / parts[len(around)].encode()[:_LONGEST].decode(errors="ignore")
            refused[path] = error
            if not path.exists():
                path.mkdir() if len(parts) > len(around) + 1 else path.touch()
    except (SubmissionError, OSError) as damaged:
        raise UsageError(f"{place}: {damaged}") from damaged
    return _visible(top), refused, left_out


def _around(names: list[tuple[str, ...]], hand_in: Sequence[str]) -> tuple[str, ...]:
    """Return the folders around all submissions in a zip: one folder with any name, and `submitted`."""
    around: tuple[str, ...] = ()
    tops = {parts[0] for parts in names if _shows(parts[0]) and (len(parts) > 1 or is_submission(parts[0], hand_in))}
    inside = {parts[1] for parts in names if len(parts) > 1 and parts[0] in tops}
    if len(tops) == 1 and inside and not inside & set(hand_in):
        (top,) = tops
        around = () if _of_lms(top) else (top,)  # it can be the only submission
    below = {parts[len(around)] for parts in names if len(parts) > len(around) + 1 and parts[: len(around)] == around}
    return (*around, _SUBMITTED) if _SUBMITTED in below and not any(map(_of_lms, below)) else around


def _of_lms(name: str) -> bool:
    return bool(_MOODLE.fullmatch(name) or _BRIGHTSPACE.fullmatch(name))


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _shows(path.name))


def _shows(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in _NOTHING


def _can_be(path: Path, hand_in: Sequence[str]) -> bool:
    """Return whether this can be a submission."""
    return path.is_dir() or is_submission(path.name, hand_in)


def _named(
    paths: list[Path], rule: str, known: Mapping[str, str], hand_in: Sequence[str]
) -> tuple[list[_Entry], str, list[str]]:
    """Return what the rule finds, its name, and notes. Without a rule, use the one that most names fit."""
    tried = {rule: _rule(rule)} if rule else {**RULES, "folder": _plain}
    likely = [path for path in paths if _can_be(path, hand_in)]
    found = {
        name: [entry for path in (paths if name in _OF_LMS else likely) for entry in entries_of(path)]
        for name, entries_of in tried.items()
    }
    if not rule:
        rule = _fitting(found, likely, known)
    elif not found[rule] and paths:
        raise UsageError(_no_rule(found, paths))
    notes = []
    if rule == "nbgrader":
        read = {entry.path for entry in found[rule]}
        lab = {stamp.parent.name for path in read for stamp in path.glob(f"*/{_STAMP}")}
        for path in paths:
            if path not in read and any((path / name).is_dir() for name in lab):
                found[rule].append(_Entry(path, path.name))
                notes.append(f"{path.name!r} has no {_STAMP}, so its time is not known")
    return found[rule], rule, notes


def _fitting(found: Mapping[str, list[_Entry]], paths: list[Path], known: Mapping[str, str]) -> str:
    """Return the rule that finds more than half of the students. With a roster, students that it has count first.

    Raises UsageError if there is none, or if two rules find as many.
    """
    every = {
        rule: {known.get(folded(one.id), folded(one.id)) for one in those if not one.also}
        for rule, those in found.items()
    }
    mine = {rule: ids & set(known.values()) for rule, ids in every.items()}
    for ids in (mine, every):
        over = {}
        for rule, those in found.items():
            misfits = len(set(paths) - {one.path for one in those})
            students = max(misfits + len(every[rule]), len(paths) / _FILES_EACH)
            if 2 * len(ids[rule]) > students:
                over[rule] = len(ids[rule])
        plain = over.pop("folder", 0)
        best = [rule for rule, many in over.items() if many == max(over.values())]
        if len(best) > 1:
            said = f"the names fit {' and '.join(best)}, which find as many students"
            raise UsageError(f"{said}; choose one with --names")
        if best or plain:
            return best[0] if best else "folder"
    raise UsageError(_no_rule(found, paths))


def _no_rule(found: Mapping[str, list[_Entry]], paths: list[Path]) -> str:
    fits = {rule: {one.path for one in those} for rule, those in found.items()}
    rule = max(fits, key=lambda rule: len(fits[rule]))
    wrong = ", ".join(repr(path.name) for path in [path for path in paths if path not in fits[rule]][:5])
    said = f"{rule} fits {len(fits[rule])} of {len(paths)}; not: {wrong}" if fits[rule] else wrong
    example = 'for example --names "(?P<id>[^_]+)_.*"'
    return f"names match no rule: {said}; tried: {', '.join(found)}; choose --names, {example}"


def _moodle(path: Path) -> list[_Entry]:
    match = _MOODLE.fullmatch(path.name)
    ids = sorted({*_MOODLE_ID.findall(path.name)})
    return [_Entry(path, match["id"], match["rest"], also=ids if len(ids) > 1 else ())] if match else []


def _canvas(path: Path) -> list[_Entry]:
    match = _CANVAS.fullmatch(path.name)
    # Canvas adds -1 to the name of a file that a student hands in again.
    return [_Entry(path, match["id"], re.sub(r"-\d+(?=\.\w+$)", "", match["rest"]))] if match else []


def _brightspace(path: Path) -> list[_Entry]:
    match = _BRIGHTSPACE.fullmatch(path.name)
    return [_Entry(path, match["id"], time=parsed(match["time"]))] if match else []


def _gradescope(path: Path) -> list[_Entry]:
    about = _metadata(path.parent).get(path.name)
    if about is None:
        return []
    time = _time(str(about.get(":created_at")))
    ids = [str(who.get(":sid") or who.get(":email") or "") for who in about[":submitters"]]
    return [_Entry(path, id, time=time) for id in ids]


@cache
def _metadata(folder: Path) -> dict[str, Any]:
    """Return what Gradescope tells about the submissions in a folder; {} if it is not Gradescope's."""
    try:
        text = (folder / _METADATA).read_text("utf-8")
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # the file can have many megabytes
        return {name: about for name, about in found.items() if about[":submitters"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return {}


def _nbgrader(path: Path) -> list[_Entry]:
    times = [_time(stamp.read_text("utf-8", "replace").strip()) for stamp in path.glob(f"*/{_STAMP}")]
    return [_Entry(path, path.name, time=max(filter(None, times), default=None))] if times else []


def _folder(path: Path) -> list[_Entry]:
    name = path.name if path.is_dir() else re.sub(r"\.py\.txt$|(\.tar)?\.\w+$", "", path.name, flags=re.I)
    return [_Entry(path, name)]


def _plain(path: Path) -> list[_Entry]:
    return [entry for entry in _folder(path) if re.fullmatch(r"[\w.@+-]+", entry.id)]


RULES: Mapping[str, _Rule] = {
    "moodle": _moodle,
    "canvas": _canvas,
    "brightspace": _brightspace,
    "gradescope": _gradescope,
    "nbgrader": _nbgrader,
    "folder": _folder,
}
_OF_LMS = RULES.keys() - {"folder"}
"""The names that these rules fit show that it was handed in. With other rules, it must be a file that can be."""


def _rule(rule: str) -> _Rule:
    """Return the rule that --names gives by its name or as a regular expression."""
    if rule in RULES:
        return RULES[rule]
    try:
        pattern = re.compile(rule, re.S)
    except re.error as error:
        said = f"--names {rule!r} is neither one of {', '.join(RULES)} nor a regular expression: {error}"
        raise UsageError(said) from error
    if "id" not in pattern.groupindex:
        raise UsageError(f'--names {rule!r} has no group (?P<id>...); for example --names "(?P<id>s[0-9]+)_.*"')

    def entries_of(path: Path) -> list[_Entry]:
        match = pattern.fullmatch(path.name)
        if match is None:
            return []
        return [_Entry(path, match["id"] or "", time=_time(match.groupdict().get("time") or ""))]

    return entries_of


def _time(text: str) -> datetime | None:
    """Return a time with its zone; None if the text is something else."""
    time = parsed(text)
    return time if time is not None and time.tzinfo is not None else None


def _submission(
    id: str, entries: list[_Entry], take: str, hand_in: Sequence[str], refused: Mapping[Path, SubmissionError]
) -> Submission:
    times = {entry.time for entry in entries if entry.time is not None}
    rests = {entry.rest for entry in entries}
    if error := next((refused[entry.path] for entry in entries if entry.path in refused), None):
        return Submission(id, entries[0].path.name, [], None, error.reason, error.mend, UNREADABLE)
    one = len({entry.id for entry in entries}) == 1
    if one and "" not in rests and len(rests) == len(entries):  # the files of one submission
        files = [(entry.rest, entry.path) for entry in entries]
        return Submission(id, entries[0].path.name, files, max(times, default=None))
    if len(entries) > 1 and len({(entry.time, hash_of([("", entry.path)])) for entry in entries}) == 1:
        entries = entries[:1]  # each member of a team has handed in the same
    if len(entries) > 1 and (not take or len(times) < len(entries)):
        names = ", ".join(entry.path.name for entry in entries)
        mend = ", because not all names have times" if take else ", or use --take newest if the names have times"
        why = f"{len(entries)} submissions of one id: {names}"
        return Submission(id, entries[0].path.name, [], None, why, f"remove all but one{mend}")
    newest = max(entries, key=lambda entry: entry.time.timestamp() if entry.time is not None else 0)
    others = sorted((one.time, one.path.name) for one in entries if one.time is not None and one is not newest)
    return Submission(id, newest.path.name, as_handed(newest.path, hand_in), newest.time, others=others)
