"""Find the submissions of a class in a folder or in an LMS's zip, and the id and time of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from ..errors import SubmissionError, UsageError
from ..submission.archive import unpack
from .one import ARCHIVES, Files, as_handed
from .roster import Student, folded, wrong_id

_MOST_BYTES, _MOST_FILES = 4_000_000_000, 400_000
"""The maximum size and number of files of an LMS's zip."""
_STAMP, _METADATA = "timestamp.txt", "submission_metadata.yml"
_ONLINE_TEXT = "_assignsubmission_onlinetext_"
"""In the names of Moodle's folders for text that was typed into a form."""
_KINDS = (".py", ".ipynb", *ARCHIVES)
_NAMES = {
    "moodle": re.compile(r"(?P<name>.*)_(?P<id>\d+)_assignsubmission_file_?(?P<rest>.*)", re.S),
    "canvas": re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)", re.S),
    "gradescope": re.compile(r"submission_(?P<id>\d+)"),
}
RULES = ("moodle", "canvas", "gradescope", "nbgrader", "folder")
_EMPTY = "SUBMISSIONS has no submission: one folder, .zip, .py or .ipynb each"


@dataclass(frozen=True)
class Submission:
    """What a student has handed in. If ``why`` is not empty, it is not clear what counts."""

    id: str
    entry: str
    """The name of the folder or file in SUBMISSIONS."""
    files: Files
    time: datetime | None = None
    """When it was handed in; None: unknown."""
    why: str = ""


@dataclass(frozen=True)
class Collection:
    """All submissions, sorted by id, the rule that has found the ids, and names that belong to no submission."""

    submissions: list[Submission]
    rule: str
    left_out: list[str]


@dataclass(frozen=True)
class _Entry:
    path: Path
    id: str
    rest: str = ""
    time: datetime | None = field(default=None)


def collect(
    place: Path, rule: str, take: str, roster: Mapping[str, Student], hand_in: Sequence[str], scratch: Path
) -> Collection:
    """Return the submissions in a folder or zip. Raises UsageError if there are none, or no rule fits their names.

    ``rule``: one of RULES, a regular expression, or "" to try RULES; ``scratch``: where a zip is unpacked.
    """
    paths = _paths(place, scratch, hand_in)
    left_out = [
        path.name for path in paths if path.is_file() and path.suffix not in _KINDS or _ONLINE_TEXT in path.name
    ]
    paths = [path for path in paths if path.name not in left_out]
    if not paths:
        raise UsageError(f"{_EMPTY}; {place} has {', '.join(left_out[:5]) or 'nothing'}")
    entries, rule = _named(paths, rule)
    known = {folded(word): one.id for one in roster.values() for word in (one.lms_id, one.id) if word}
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        if why := wrong_id(entry.id):
            raise UsageError(f"{entry.path.name!r}: the id {entry.id!r} {why}; rename it, or choose another --names")
        groups.setdefault(known.get(folded(entry.id), folded(entry.id)), []).append(entry)
    found = [
        _submission(known.get(folded(those[0].id), those[0].id), those, take, hand_in) for those in groups.values()
    ]
    return Collection(sorted(found, key=lambda one: one.id), rule, left_out)


def _paths(place: Path, scratch: Path, hand_in: Sequence[str]) -> list[Path]:
    if place.is_file() and place.suffix == ".zip":
        try:
            unpack(place, scratch, _MOST_BYTES, _MOST_FILES)
        except SubmissionError as error:
            raise UsageError(f"{place}: {error}") from error
        paths = _visible(scratch)
        inside = _visible(paths[0]) if len(paths) == 1 and paths[0].is_dir() else []
        if inside and not any(_NAMES[name].fullmatch(paths[0].name) for name in ("moodle", "gradescope")):
            names = {path.name for path in inside}
            return paths if names & {_STAMP, *hand_in} else inside
        return paths
    if not place.is_dir():
        raise UsageError(f"{_EMPTY}; {place} is {'no folder and no .zip' if place.exists() else 'missing'}")
    return _visible(place)


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name != "__MACOSX")


def _named(paths: list[Path], rule: str) -> tuple[list[_Entry], str]:
    """Return an entry for each path that the rule fits. Without a rule, use the first that fits all paths."""
    tried = (rule,) if rule else RULES
    for one in tried:
        entries = [_entry(path, one, bool(rule)) for path in paths]
        found = [entry for entry in entries if entry is not None]
        if len(found) == len(entries):
            return found, one
    wrong = [path.name for path, entry in zip(paths, entries, strict=True) if entry is None]
    said = f"names match no rule: {', '.join(map(repr, wrong[:5]))}; tried: {', '.join(tried)}"
    raise UsageError(f'{said}; choose --names, for example --names "(?P<id>[^_]+)_.*"')


def _entry(path: Path, rule: str, asked: bool) -> _Entry | None:
    if rule == "folder":
        id = path.name if path.is_dir() else path.name.removesuffix(path.suffix).removesuffix(".tar")
        return _Entry(path, id) if asked or re.fullmatch(r"[\w.@+-]+", id) else None
    if rule == "nbgrader":
        stamps = [path / _STAMP, *path.glob(f"*/{_STAMP}")] if path.is_dir() else []
        texts = [stamp.read_text("utf-8", "replace").strip() for stamp in stamps if stamp.is_file()]
        return _Entry(path, path.name, time=max(filter(None, map(_time, texts)), default=None)) if texts else None
    pattern = _NAMES.get(rule) or _regex(rule)
    if (match := pattern.fullmatch(path.name)) is None:
        return None
    groups = match.groupdict()
    if rule == "gradescope":
        return _gradescope(path, groups["id"])
    rest = re.sub(r"-\d+(?=\.\w+$)", "", groups.get("rest") or "") if rule == "canvas" else groups.get("rest") or ""
    return _Entry(path, groups["id"] or "", rest, _time(groups.get("time") or ""))


def _regex(rule: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(rule, re.S)
    except re.error as error:
        raise UsageError(
            f"--names {rule!r} is neither one of {', '.join(RULES)} nor a regular expression: {error}"
        ) from error
    if "id" not in pattern.groupindex:
        raise UsageError(f'--names {rule!r} has no group (?P<id>...); for example --names "(?P<id>s[0-9]+)_.*"')
    return pattern


def _time(text: str) -> datetime | None:
    """Return a time with its zone; None if the text is something else."""
    try:
        time = datetime.fromisoformat(re.sub(r" ?(UTC|Z)$", "+00:00", text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _gradescope(path: Path, number: str) -> _Entry:
    """Return an entry with the student id and time of Gradescope's list, if it is there."""
    try:
        about: Any = yaml.safe_load((path.parent / _METADATA).read_text("utf-8"))[path.name]
        who = about[":submitters"][0]
        id, time = str(who.get(":sid") or who[":email"]), about.get(":created_at")
    except (OSError, ValueError, KeyError, TypeError, IndexError, yaml.YAMLError):
        return _Entry(path, number)
    return _Entry(path, id, time=time if isinstance(time, datetime) and time.tzinfo else _time(str(time)))


def _submission(id: str, entries: list[_Entry], take: str, hand_in: Sequence[str]) -> Submission:
    if all(entry.rest for entry in entries) and len({entry.rest for entry in entries}) == len(entries):
        times = [entry.time for entry in entries if entry.time is not None]
        return Submission(id, entries[0].path.name, [(e.rest, e.path) for e in entries], max(times, default=None))
    if len(entries) > 1:
        times = [entry.time for entry in entries if entry.time is not None]
        if take != "newest" or len(set(times)) < len(entries):
            names = ", ".join(entry.path.name for entry in entries)
            said = f"{len(entries)} submissions of one id: {names}"
            return Submission(id, entries[0].path.name, [], None, f"{said}; remove all but one{_newest(take)}")
        entries = [max(entries, key=lambda entry: entry.time or datetime.min)]
    (entry,) = entries
    return Submission(id, entry.path.name, as_handed(entry.path, hand_in), entry.time)


def _newest(take: str) -> str:
    return ", because not all times are known" if take else ", or use --take newest if the times are known"
