"""Find the submissions of a class in a folder or in an LMS's zip, and the id and time of each.

The names are those that the LMS's own code gives: Moodle's mod/assign/classes/downloader.php, Canvas's
lib/content_zipper.rb, and nbgrader's `submitted` folder. Gradescope's are those of its exports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ..errors import SubmissionError, UsageError
from ..submission.archive import unpack
from .one import ARCHIVES, Files, as_handed
from .results import hash_of
from .roster import folded, wrong_id

_MOST_BYTES, _MOST_FILES = 4_000_000_000, 400_000
"""The maximum size and number of files of an LMS's zip."""
_KINDS = (".py", ".ipynb", *ARCHIVES)
_MOODLE = re.compile(r".*_(?P<id>\d+)_assignsubmission_file_?(?P<rest>.*)", re.S)
"""Up to Moodle 4.0, the names of folders end with an underscore."""
_ONLINE_TEXT = "_assignsubmission_onlinetext"
"""In the names of Moodle's folders for text that was typed into a form."""
_CANVAS = re.compile(r"(?:.+?_)?(?:LATE_)?(?P<id>\d+|anon_[^_]+)_\d+_(?P<rest>.+)", re.S)
"""After the student's name come the student's ID and the number of the upload."""
_STAMP, _METADATA = "timestamp.txt", "submission_metadata.yml"
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
    """The name that the student has given to the file, if the LMS has put something before it."""
    time: datetime | None = None


def collect(
    place: Path, rule: str, take: str, known: Mapping[str, str], hand_in: Sequence[str], scratch: Path
) -> Collection:
    """Return the submissions in a folder or zip. Raises UsageError if there are none, or no rule fits their names.

    ``rule``: one of RULES, a regular expression, or "" to try RULES; ``known``: what `known_ids` returns; ``scratch``:
    where a zip is unpacked.
    """
    there = _paths(place, scratch, hand_in)
    paths = [path for path in there if (path.is_dir() or path.suffix in _KINDS) and _ONLINE_TEXT not in path.name]
    left_out = [path.name for path in there if path not in paths]
    if not paths:
        raise UsageError(f"{_EMPTY}; {place} has {', '.join(left_out[:5]) or 'nothing'}")
    entries, rule = _named(paths, rule)
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        if why := wrong_id(entry.id):
            raise UsageError(f"{entry.path.name!r}: the id {entry.id!r} {why}; rename it, or choose another --names")
        groups.setdefault(known.get(folded(entry.id), folded(entry.id)), []).append(entry)
    ids = set(known.values())
    found = [_submission(id if id in ids else those[0].id, those, take, hand_in) for id, those in groups.items()]
    return Collection(sorted(found, key=lambda one: one.id), rule, left_out)


def _paths(place: Path, scratch: Path, hand_in: Sequence[str]) -> list[Path]:
    if place.is_dir():
        return _visible(place)
    if not place.is_file() or place.suffix != ".zip":
        raise UsageError(f"{_EMPTY}; {place} is {'no folder and no .zip' if place.exists() else 'missing'}")
    try:
        unpack(place, scratch, _MOST_BYTES, _MOST_FILES)
    except SubmissionError as error:
        raise UsageError(f"{place}: {error}") from error
    paths = _visible(scratch)
    if len(paths) != 1 or not paths[0].is_dir() or _MOODLE.fullmatch(paths[0].name):
        return paths
    inside = _visible(paths[0])  # one folder around all submissions, or the only submission
    return paths if any(path.name in hand_in for path in inside) else inside


def _visible(folder: Path) -> list[Path]:
    none = ("__MACOSX", _METADATA)
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in none)


def _named(paths: list[Path], rule: str) -> tuple[list[_Entry], str]:
    """Return an entry for each path that the rule fits. Without a rule, use the first that fits all paths."""
    tried = {rule: _rule(rule)} if rule else {**RULES, "folder": _plain}
    for name, entry_of in tried.items():
        entries = [entry_of(path) for path in paths]
        found = [entry for entry in entries if entry is not None]
        if len(found) == len(entries):
            return found, name
    wrong = [path.name for path, entry in zip(paths, entries, strict=True) if entry is None]
    said = f"names match no rule: {', '.join(map(repr, wrong[:5]))}; tried: {', '.join(tried)}"
    raise UsageError(f'{said}; choose --names, for example --names "(?P<id>[^_]+)_.*"')


def _moodle(path: Path) -> _Entry | None:
    match = _MOODLE.fullmatch(path.name)
    return match and _Entry(path, match["id"], match["rest"])


def _canvas(path: Path) -> _Entry | None:
    match = _CANVAS.fullmatch(path.name)
    # Canvas adds -1 to the name of a file that a student hands in again.
    return match and _Entry(path, match["id"], re.sub(r"-\d+(?=\.\w+$)", "", match["rest"]))


def _gradescope(path: Path) -> _Entry | None:
    about = _metadata(path.parent).get(path.name)
    if about is None:
        return None
    who, time = about[":submitters"][0], about.get(":created_at")
    return _Entry(path, str(who.get(":sid") or who[":email"]), time=_time(str(time)))


@cache
def _metadata(folder: Path) -> dict[str, Any]:
    """Return what Gradescope tells about the submissions in a folder; {} if it is not Gradescope's."""
    try:
        text = (folder / _METADATA).read_text("utf-8")
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # the file can have many megabytes
        return {name: about for name, about in found.items() if about[":submitters"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return {}


def _nbgrader(path: Path) -> _Entry | None:
    times = [_time(stamp.read_text("utf-8", "replace").strip()) for stamp in path.glob(f"*/{_STAMP}")]
    return _Entry(path, path.name, time=max(filter(None, times), default=None)) if times else None


def _folder(path: Path) -> _Entry:
    return _Entry(path, path.name if path.is_dir() else path.name.removesuffix(path.suffix).removesuffix(".tar"))


def _plain(path: Path) -> _Entry | None:
    entry = _folder(path)
    return entry if re.fullmatch(r"[\w.@+-]+", entry.id) else None


RULES: Mapping[str, Callable[[Path], _Entry | None]] = {
    "moodle": _moodle,
    "canvas": _canvas,
    "gradescope": _gradescope,
    "nbgrader": _nbgrader,
    "folder": _folder,
}


def _rule(rule: str) -> Callable[[Path], _Entry | None]:
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

    def entry_of(path: Path) -> _Entry | None:
        match = pattern.fullmatch(path.name)
        return match and _Entry(path, match["id"] or "", time=_time(match.groupdict().get("time") or ""))

    return entry_of


def _time(text: str) -> datetime | None:
    """Return a time with its zone; None if the text is something else."""
    try:
        time = datetime.fromisoformat(re.sub(r" ?(UTC|Z)$", "+00:00", text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _submission(id: str, entries: list[_Entry], take: str, hand_in: Sequence[str]) -> Submission:
    times = {entry.time for entry in entries if entry.time is not None}
    rests = {entry.rest for entry in entries}
    one = len({entry.id for entry in entries}) == 1
    if one and "" not in rests and len(rests) == len(entries):  # the files of one submission
        files = [(entry.rest, entry.path) for entry in entries]
        return Submission(id, entries[0].path.name, files, max(times, default=None))
    if len(entries) > 1 and len({(entry.time, hash_of([("", entry.path)])) for entry in entries}) == 1:
        entries = entries[:1]  # each member of a team has handed in the same
    if len(entries) > 1 and (not take or len(times) < len(entries)):
        names = ", ".join(entry.path.name for entry in entries)
        mend = ", because not all times are known" if take else ", or use --take newest if the times are known"
        why = f"{len(entries)} submissions of one id: {names}; remove all but one{mend}"
        return Submission(id, entries[0].path.name, [], None, why)
    newest = max(entries, key=lambda entry: entry.time.timestamp() if entry.time is not None else 0)
    return Submission(id, newest.path.name, as_handed(newest.path, hand_in), newest.time)
