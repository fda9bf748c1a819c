"""The copy of a submission that runs: nothing from outside gets into it, and it is built once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.errors import SubmissionError
from grader.processes import prepare
from grader.submission import Submission


def submission(folder: Path, *build: tuple[str, ...]) -> Submission:
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text("print(1)\n")
    return Submission("team", folder, {}, (), build)


def test_it_is_built_once_a_content(tmp_path: Path) -> None:
    """The same files are not built again, other files are, and the path does not change between runs."""
    log = tmp_path / "log"
    team = submission(tmp_path / "team", ("sh", "-c", f"echo built >> {log} && echo {{submission}} > where"))
    first, mark = prepare(team, tmp_path / "cache", 10)
    assert prepare(team, tmp_path / "cache", 10) == (first, mark) and log.read_text() == "built\n"
    assert (first / "where").read_text().strip() == str(first)
    (team.folder or first).joinpath("app.py").write_text("print(2)\n")
    second, other = prepare(team, tmp_path / "cache", 10)
    assert other != mark and second != first and log.read_text() == "built\nbuilt\n"
    assert os.stat(first / "app.py").st_mode & 0o444 == 0o444


@pytest.mark.parametrize("leads", ["/etc/passwd", "/etc", "../secret", "../../..", "inner/../../secret"])
def test_a_link_out_of_the_submission_is_refused(tmp_path: Path, leads: str) -> None:
    """To a file or a folder, absolute or relative: what it leads to never becomes part of the copy."""
    (tmp_path / "secret").write_text("hidden checks")
    team = submission(tmp_path / "team")
    (tmp_path / "team" / "inner").mkdir()
    (tmp_path / "team" / "link").symlink_to(leads)
    with pytest.raises(SubmissionError, match="link: a link that leaves the submission"):
        prepare(team, tmp_path / "cache", 10)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe would hang who copies it."""
    team = submission(tmp_path / "team")
    os.mkfifo(tmp_path / "team" / "pipe")
    with pytest.raises(SubmissionError, match="pipe: neither a file nor a folder"):
        prepare(team, tmp_path / "cache", 10)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("sh", "-c", "echo no wheel for that; exit 3"), "ended with 3:\nno wheel for that"),
        (("no-such-program",), "there is no program 'no-such-program'"),
        (("sleep", "60"), "took longer than 1 s"),
    ],
)
def test_a_build_that_fails_says_why(tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    """The command, what became of it, and its last words; and it is tried again the next time."""
    team = submission(tmp_path / "team", command)
    for _ in range(2):
        with pytest.raises(SubmissionError, match=said):
            prepare(team, tmp_path / "cache", 1)
