"""The copy of a submission contains nothing from outside, and is built once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from boxes import sandbox

from grader.errors import SubmissionError, UsageError
from grader.processes import Built, build
from grader.processes import prepare as prepare_in
from grader.submission import Submission


@pytest.fixture(params=[1, 2, 3])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> int:
    """A tier that this machine has."""
    (tmp_path / "scratch").mkdir()
    sandbox(request.param, tmp_path / "scratch").close()
    return int(request.param)


def prepare(submission: Submission, cache: Path, seconds: float, tier: int = 3) -> Built:
    """Where no command runs, the tier does not matter."""
    return prepare_in(submission, cache, seconds, tier)


def submission(folder: Path, *build: tuple[str, ...]) -> Submission:
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text("print(1)\n")
    return Submission("team", folder, {}, (), build)


def test_it_is_built_once_a_content(tmp_path: Path, tier: int) -> None:
    """The same files are built once, at the same path. Other files are built again."""
    made = "echo {submission} > where; head -c 16 /dev/urandom > made"
    team = submission(tmp_path / "team", ("sh", "-c", made))
    built = prepare(team, tmp_path / "cache", 10, tier)
    first = built.folder
    once = (first / "made").read_bytes()
    assert prepare(team, tmp_path / "cache", 10, tier) == built and (first / "made").read_bytes() == once
    assert (first / "where").read_text().strip() == str(first)
    (team.folder or first).joinpath("app.py").write_text("print(2)\n")
    other = prepare(team, tmp_path / "cache", 10, tier)
    second = other.folder
    assert other.hash != built.hash and second != first and (second / "made").read_bytes() != once
    assert os.stat(first / "app.py").st_mode & 0o444 == 0o444


@pytest.mark.parametrize("leads", ["/etc/passwd", "/etc", "../secret", "../../..", "inner/../../secret"])
def test_a_link_out_of_the_submission_is_refused(tmp_path: Path, leads: str) -> None:
    """A link to a file or folder outside, absolute or relative, never gets into the copy."""
    (tmp_path / "secret").write_text("hidden checks")
    team = submission(tmp_path / "team")
    (tmp_path / "team" / "inner").mkdir()
    (tmp_path / "team" / "link").symlink_to(leads)
    with pytest.raises(SubmissionError, match="link links outside the submission"):
        prepare(team, tmp_path / "cache", 10)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Copying a pipe would hang."""
    team = submission(tmp_path / "team")
    os.mkfifo(tmp_path / "team" / "pipe")
    with pytest.raises(SubmissionError, match="pipe is neither a file nor a folder"):
        prepare(team, tmp_path / "cache", 10)


def test_a_name_that_is_no_text_is_copied(tmp_path: Path) -> None:
    """A file whose name is not UTF-8, which a tar archive can contain, is built like others."""
    team = submission(tmp_path / "team")
    for name in (b"\xff", b"\xfe"):
        (tmp_path / "team" / os.fsdecode(name)).write_text("print(3)\n")
        built = prepare(team, tmp_path / "cache", 10)
    assert len(list(built.folder.iterdir())) == 3


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    """A database of 40 GB is refused by its size, without reading it."""
    team = submission(tmp_path / "team")
    with (tmp_path / "team" / "dump.sql").open("wb") as file:
        file.truncate(40 << 30)
    with pytest.raises(SubmissionError, match=r"more than 200,000,000 bytes .*\(exceeded at dump\.sql\)"):
        prepare(team, tmp_path / "cache", 10)


def test_unreadable_files_and_caches_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable file is an error of the submission; a missing cache folder is one of the user."""
    team = submission(tmp_path / "team")
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match="XDG_CACHE_HOME"):
        prepare(team, tmp_path / "cache", 10)

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(SubmissionError, match=r"app\.py cannot be read \(Permission denied\)"):
        prepare(team, tmp_path / "other", 10)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("sh", "-c", "echo no wheel for that; exit 3"), "exited with 3:\nno wheel for that"),
        (("no-such-program",), "unknown program 'no-such-program'"),
        (("sleep", "60"), "took longer than 1 s"),
    ],
)
def test_a_build_that_fails_says_why(tmp_path: Path, tier: int, command: tuple[str, ...], said: str) -> None:
    """The error shows the command, its exit status and its last output. The next run builds again."""
    team = submission(tmp_path / "team", command)
    for _ in range(2):
        with pytest.raises(SubmissionError, match=said):
            prepare(team, tmp_path / "cache", 1, tier)


def test_a_build_has_a_temporary_folder(tmp_path: Path, tier: int) -> None:
    """TMPDIR is writable by access(2) too, which compilers ask, even below a folder that only root can enter."""
    asks = "import os; open('got', 'w').write(str(os.access(os.environ['TMPDIR'], os.R_OK | os.W_OK | os.X_OK)))"
    folder = prepare(submission(tmp_path / "team", ("python3", "-c", asks)), tmp_path / "cache", 10, tier).folder
    assert (folder / "got").read_text() == "True"


def test_a_build_has_one_home(tmp_path: Path, tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command finds what an earlier one installed in HOME. The home is removed after each build."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = ("sh", "-c", "echo tool > $HOME/tool"), ("sh", "-c", "cat $HOME/tool > got")
    folder = prepare(submission(tmp_path / "team", first, second), tmp_path / "cache", 10, tier).folder
    assert (folder / "got").read_text() == "tool\n"
    with pytest.raises(SubmissionError, match="exited with 1"):
        prepare(submission(tmp_path / "bad", first, ("false",)), tmp_path / "other", 10, tier)
    assert not list(tmp_path.glob("checkout-build-*"))


def test_only_tier_3_lets_a_build_read_and_change_other_files(tmp_path: Path, tier: int) -> None:
    """A build reads and writes files beside its folder only in tier 3."""
    secret, forged = tmp_path / "secret", tmp_path / "results.json"
    secret.write_text("hidden checks")
    steals = ("sh", "-c", f"cat {secret} > got; echo forged > {forged}; true")
    folder = prepare(submission(tmp_path / "team", steals), tmp_path / "cache", 10, tier).folder
    assert ((folder / "got").read_text(), forged.exists()) == (("hidden checks", True) if tier == 3 else ("", False))


def test_a_build_has_limits(tmp_path: Path, tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless output does not fill the memory, and endless files reach the limit."""
    team = submission(tmp_path / "loud", ("sh", "-c", "head -c 3000000 /dev/zero; exit 1"))
    with pytest.raises(SubmissionError, match="exited with 1") as raised:
        prepare(team, tmp_path / "cache", 10, tier)
    assert len(str(raised.value)) < 700_000
    monkeypatch.setattr(build, "EVERY", 0.05)
    monkeypatch.setattr(build.Limits, "files", 300)
    team = submission(tmp_path / "many", ("sh", "-c", "n=0; while :; do n=$((n+1)); : > f$n; done"))
    with pytest.raises(SubmissionError, match="build: its folder contains .* files; the limit is 300"):
        prepare(team, tmp_path / "cache", 60, tier)


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ([("sh", "-c", ": " + 150_000 * "x")], "'sh' cannot be started: Argument list too long"),
        ([(300 * "x",)], "unknown program 'xxx"),
        ([("sh", "-c", "rm -rf {submission}; true"), ("true",)], "'true' cannot be started: No such file|it is built"),
    ],
)
def test_a_command_that_cannot_start_is_the_submissions_error(
    tmp_path: Path, tier: int, commands: list[tuple[str, ...]], said: str
) -> None:
    """A command that is too long, a name that is too long, and a folder that is gone do not make the run void."""
    try:
        prepare(submission(tmp_path / "team", *commands), tmp_path / "cache", 10, tier)
        found = "it is built"  # the sandbox keeps the folder
    except SubmissionError as error:
        found = str(error)
    assert re.search(said, found), found
