"""The copy of a submission contains nothing from outside, and is built once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from boxes import sandbox

from grader.classroom.results import hash_of
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


@pytest.mark.parametrize("links", [1, 1_500])
def test_links_without_an_end_are_refused(tmp_path: Path, links: int) -> None:
    """A link to itself, and 1,500 links in a row, are an error of the submission."""
    team = submission(tmp_path / "team")
    for number in range(links):
        (tmp_path / "team" / f"link{number}").symlink_to(f"link{(number + 1) % links}")
    with pytest.raises(SubmissionError, match="link0 links to itself or to too many links; replace it with the file"):
        prepare(team, tmp_path / "cache", 10)


def test_paths_of_a_submission_have_limits(tmp_path: Path) -> None:
    """100 parts are copied. One more, or a path of more than 3,000 bytes, is refused with its beginning."""
    for name, path, said in (
        ("good", "a/" * 98 + "a/f", ""),
        ("deep", "a/" * 99 + "a/f", "has 101 parts; the limit is 100; remove it"),
        ("empty", "a/" * 99 + "a/a/", "has 101 parts; the limit is 100; remove it"),
        ("long", f"{'n' * 250}/" * 12 + "f", "has 3,011 bytes; the limit is 3,000; remove it"),
    ):
        team = submission(tmp_path / name)
        (tmp_path / name / path).parent.mkdir(parents=True)
        if path.endswith("/"):
            (tmp_path / name / path).mkdir()
        else:
            (tmp_path / name / path).touch()
        if said:
            with pytest.raises(SubmissionError, match=f"^the path '.*{said}$") as raised:
                prepare(team, tmp_path / "cache", 10)
            assert len(str(raised.value)) < 500
        else:
            assert (prepare(team, tmp_path / "cache", 10).folder / path).is_file()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_number_of_files_has_a_limit(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many files, or folders, as the limit are copied, and not one more. What is never copied does not count."""
    monkeypatch.setattr(build, "MOST_FILES", 6)
    team = submission(tmp_path / "team")  # with one file
    (tmp_path / "team" / ".git" / "a" / "b").mkdir(parents=True)
    for number in range(6 if kind == "folder" else 5):
        path = tmp_path / "team" / f"n{number}"
        path.mkdir() if kind == "folder" else path.touch()
    prepare(team, tmp_path / "cache", 10)
    path = tmp_path / "team" / "n6"
    path.mkdir() if kind == "folder" else path.symlink_to("n0")
    with pytest.raises(SubmissionError, match=r"bytes or 6 files or folders \(exceeded at n6\); remove data files"):
        prepare(team, tmp_path / "cache", 10)


def test_the_hash_of_a_submission_stays(tmp_path: Path) -> None:
    """A folder has the hash that earlier versions of the grader gave it, so what they have stored stays valid."""
    team = tmp_path / "team"
    for name, content in {"app.py": "print(1)\n", "src/b/run.sh": "ls", "src/a.txt": "", "src.txt": "\u00e4"}.items():
        (team / name).parent.mkdir(parents=True, exist_ok=True)
        (team / name).write_text(content)
    (team / "src" / "b" / "run.sh").chmod(0o755)
    for skipped in (".git", "src/node_modules"):
        (team / skipped).mkdir()
        (team / skipped / "file").touch()
    (team / "to-file").symlink_to("src/a.txt")
    handed = hash_of([("solution", team), ("app.py", team / "app.py")])
    assert handed == "93965e0bc1cd7e4d71c0dfb47f72aefec319358def419d7a8eff45b906aa4590"
    (team / "src" / "to-folder").symlink_to("b")
    (team / "src" / ".venv").symlink_to("/usr")
    (team / "empty").mkdir()
    assert build.content_hash(team) == "c7092096f0030942a39300229abc0850e463dccfaf6c1a16799697500cb42d3c"


def test_names_that_are_not_text(tmp_path: Path) -> None:
    """A name that is not UTF-8 is hashed and copied as it is, and named in errors."""
    team, name = submission(tmp_path / "team"), os.fsdecode(b"n\xff")
    (tmp_path / "team" / name).write_text("content")
    assert (prepare(team, tmp_path / "cache", 10).folder / name).read_text() == "content"
    os.mkfifo(tmp_path / "team" / f"{name}-pipe")
    with pytest.raises(SubmissionError, match="n\ufffd-pipe is neither a file nor a folder"):
        prepare(team, tmp_path / "cache", 10)


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
