"""One module walks, measures, copies and removes folders, whatever is in them."""

from __future__ import annotations

import ast
import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grader import folders

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {"walk": "os", "fwalk": "os", "rmtree": "shutil", "copytree": "shutil", "TemporaryDirectory": "tempfile"}
USER = 65_534


STUDENTS = ("student/command.py", "student/breaks.py")
"""`check` and `break`, which also run on Windows, which `folders` does not support."""


def found_outside(text: str) -> list[str]:
    """The calls in a module that walk or remove folders without `grader.folders`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and {one.name for one in node.names} & set(FORBIDDEN):
            found += [one.name for one in node.names if FORBIDDEN.get(one.name) == node.module]
        if isinstance(node, ast.Attribute) and (node.attr == "rglob" or _is(node)):
            found.append(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("glob"):
            deep = [one for one in ast.walk(node) if isinstance(one, ast.Constant) and "**" in str(one.value)]
            found += ["glob"] * bool(deep or any(one.arg == "recursive" for one in node.keywords))
    return found


def _is(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and FORBIDDEN.get(node.attr) == node.value.id


def test_nothing_else_walks_or_removes() -> None:
    """Only students' commands and this module use what is recursive, follows links, or stops at long paths."""
    modules = set((ROOT / "grader").rglob("*.py")) - {ROOT / "grader" / name for name in ("folders.py", *STUDENTS)}
    assert {str(path): found for path in modules if (found := found_outside(path.read_text("utf-8")))} == {}
    for text in (
        "import os\nos.walk('.')",
        "from shutil import rmtree",
        "shutil.copytree(a, b)",
        "path.rglob('*')",
        "path.glob(f'**/bin/{name}')",
        "glob(place, recursive=True)",
        "tempfile.TemporaryDirectory()",
    ):
        assert found_outside(text), text
    assert found_outside("path.glob('*.py')\nfolders.walk(path)\nast.walk(tree)") == []


def nest(top: Path, depth: int, name: str = "d") -> None:
    """Nest folders, each with a file of 4,096 bytes and an empty folder beside the next one."""
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        for made in (name, "empty"):
            os.mkdir(made, dir_fd=at)
        file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at)
        os.write(file, bytes(4096))
        os.close(file)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


@pytest.fixture
def top() -> Iterator[Path]:
    """An empty folder that every user may enter. Nothing of it stays, whatever a test does."""
    made = Path(tempfile.mkdtemp(prefix="folders-"))
    made.chmod(0o755)
    yield made
    subprocess.run(["rm", "-rf", str(made)], check=True)


@contextmanager
def ordinary(top: Path) -> Iterator[None]:
    """Be an ordinary user, to whom the folder belongs."""
    if os.geteuid():
        yield
        return
    os.chown(top, USER, USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)


def du(folder: Path) -> int:
    """The bytes in a folder as `du` counts them, without the folder itself."""
    told = subprocess.run(["du", "-sB1", str(folder)], capture_output=True, text=True, check=True).stdout
    return int(told.split()[0]) - folder.lstat().st_blocks * 512


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def few_descriptors() -> Iterator[None]:
    """Allow as many open files as a small system does, or 150 more than other tests have left open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(256, 150 + max(map(int, os.listdir("/proc/self/fd"))))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("depth", "name"), [(1_500, "d"), (20, "x" * 255), (400, "x" * 255)])
def test_any_nesting_is_measured_and_removed(top: Path, depth: int, name: str) -> None:
    """Neither 1,500 folders nor a path of 100,000 bytes hides anything or stays behind."""
    inner = top / "inner"
    inner.mkdir()
    nest(inner, depth, name)
    before = opened()
    with few_descriptors():
        assert folders.measure(inner) == (du(inner), 3 * depth)
        assert len(list(folders.paths(inner))) == depth
        folders.remove(inner)
    assert os.listdir(top) == [] and opened() == before


CROWDED = """
import resource, sys
from pathlib import Path
from grader import folders
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
try:
    print(folders.measure(Path(sys.argv[1])))
except OSError as error:
    print(error.strerror)
"""


def test_a_walk_says_that_too_many_files_are_open(top: Path) -> None:
    """It does not leave out folders, which would hide what they contain from a limit."""
    nest(top, 50, "d")
    # In a process of its own: the threads of other tests open files, too, while a limit is so low.
    done = subprocess.run([sys.executable, "-c", CROWDED, str(top)], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Too many open files\n", "")


def test_folders_without_permissions(top: Path) -> None:
    """An ordinary user measures and removes own folders of any mode. A walk names the first one that it cannot list."""
    for mode in (0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600):
        inner = top / "a" / f"{mode:o}" / "inner"
        inner.mkdir(parents=True)
        (inner / "file").write_bytes(bytes(8192))
        if os.geteuid() == 0:
            for path in (inner / "file", inner, inner.parent, top / "a"):
                os.chown(path, USER, USER)
        inner.chmod(mode)
        inner.parent.chmod(mode)
    with ordinary(top):
        with pytest.raises(PermissionError, match="/a/0'"):
            for level in folders.walk(top):
                level.folders.sort(key=lambda entry: int(entry.name) if entry.name.isdecimal() else 0)
        found = folders.measure(top)
        assert found[1] == 1 + 3 * 7 and found[0] >= 7 * 8192
        folders.remove(top / "a")
    assert os.listdir(top) == []


def filled(top: Path, outside: Path) -> None:
    """Everything that a folder can contain."""
    (top / "plain").write_bytes(bytes(10_000))
    (top / "linked").hardlink_to(top / "plain")
    (top / "to-file").symlink_to(outside / "kept")
    (top / "to-folder").symlink_to(outside)
    (top / "to-itself").symlink_to("to-itself")
    (top / "to-above").symlink_to("..")
    (top / "of\nlines").mkdir()
    Path(os.fsdecode(bytes(top) + b"/no-utf8-\xff\xfe")).mkdir()
    Path(os.fsdecode(bytes(top) + b"/no-utf8-\xff\xfe/\x80")).write_bytes(b"x")
    (top / ("n" * 255)).write_bytes(b"y" * 5000)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(top / "socket"))
    if os.geteuid() == 0:
        os.mknod(top / "device", 0o20600, os.makedev(1, 3))
    with (top / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(bytes(100_000))


def test_everything_is_measured_as_on_disk_and_removed(top: Path) -> None:
    """Sparse files count by their blocks and hard links once, as with `du`. Links are not followed."""
    inner, outside = top / "inner", top / "outside"
    inner.mkdir()
    outside.mkdir()
    (outside / "kept").write_bytes(bytes(1 << 20))
    filled(inner, outside)
    size, files = folders.measure(inner)
    assert abs(size - du(inner)) <= du(inner) / 100
    assert files == len(os.listdir(inner)) + 1
    folders.remove(inner)
    assert os.listdir(top) == ["outside"] and os.listdir(outside) == ["kept"]
    (top / "link").symlink_to("outside")
    folders.remove(top / "link")
    folders.remove(top / "missing")
    assert os.listdir(top) == ["outside"] and os.listdir(outside) == ["kept"]


def test_a_copy_is_the_same(top: Path) -> None:
    """Contents, modes, times and links are copied. What is skipped is not, and a pipe is refused unread."""
    inner, outside = top / "inner", top / "outside"
    inner.mkdir()
    outside.mkdir()
    filled(inner, outside)
    for name in ("pipe", "socket", "device", "sparse"):
        (inner / name).unlink(missing_ok=True)
    (inner / ".git" / "deep").mkdir(parents=True)
    (inner / "plain").chmod(0o751)
    os.utime(inner / "plain", ns=(10**18, 10**18 + 1))
    folders.copy(inner, top / "copy", {".git"})
    shutil.rmtree(inner / ".git")
    assert list(folders.paths(inner)) == list(folders.paths(top / "copy"))
    for name in map(os.fsdecode, os.listdir(bytes(inner))):
        one, other = inner / name, top / "copy" / name
        assert one.is_symlink() == other.is_symlink() and one.is_dir() == other.is_dir()
        if one.is_symlink():
            assert os.readlink(one) == os.readlink(other)
        elif one.is_file():
            assert one.read_bytes() == other.read_bytes()
            assert (one.stat().st_mode, one.stat().st_mtime_ns) == (other.stat().st_mode, other.stat().st_mtime_ns)
    os.mkfifo(inner / "pipe")
    with pytest.raises(OSError, match="neither a file nor a folder"):
        folders.copy(inner, top / "again")


@pytest.mark.parametrize("change", ["removed", "link", "file"])
def test_a_folder_that_changes_is_left_out(top: Path, change: str) -> None:
    """A folder that is removed, or replaced by a link or a file, after it was listed, is not entered."""
    (top / "a" / "b").mkdir(parents=True)
    (top / "c").mkdir()
    outside = top / "c" / "outside"
    outside.mkdir()
    failed: list[OSError] = []
    seen = []
    for level in folders.walk(top / "a", failed.append):
        seen.append(level.path())
        if level.path() == "":
            (top / "a" / "b").rmdir()
            if change == "link":
                (top / "a" / "b").symlink_to(top / "c")
            elif change == "file":
                (top / "a" / "b").touch()
    assert seen == [""] and [error.filename for error in failed] == [str(top / "a" / "b")]


@pytest.mark.parametrize("moved", ["d/d/d", "d/d/d/d/d/d"])
def test_what_is_moved_does_not_hide_what_stays(top: Path, moved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a folder is moved while the walk is below it, everything outside of it is still found, and nothing else is."""
    monkeypatch.setattr(folders, "_AT_ONCE", 2)
    inner, outside = top / "inner", top / "outside"
    for made in (inner, outside):
        made.mkdir()
    nest(inner, 10)
    (outside / "other").mkdir()
    before = opened()
    seen = []
    for level in folders.walk(inner):
        level.folders.sort(key=lambda entry: entry.name)  # d is walked before "empty" of each folder
        seen.append(level.path())
        if level.path() == "/".join("d" * 10):
            (inner / moved).rename(outside / "d")
    kept = moved.count("/") + 1
    assert {f"{'d/' * depth}empty" for depth in range(kept)} <= set(seen)
    assert not any("other" in path for path in seen) and len(seen) == len(set(seen)) and opened() == before


def test_removing_says_what_stays(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be removed is named, and everything else is gone."""
    if os.geteuid():
        pytest.skip("an ordinary user cannot make a file that it cannot remove; run the tests as root")
    for name in ("a", "b", "c"):
        (top / name).mkdir()
        (top / name / "file").touch()
        os.chown(top / name, USER, USER)
    os.chown(top / "b", os.getuid(), os.getgid())
    with ordinary(top):
        with pytest.raises(PermissionError, match="Permission denied, so it stays behind: .*/b/file"):
            folders.remove(top)
        assert os.listdir(top) == ["b"] and not capsys.readouterr().err
        folders.discard(top)
    assert f"{top}/b/file cannot be removed (Permission denied" in capsys.readouterr().err


def test_a_temporary_folder_hides_no_error(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that cannot be removed at the end of a block is printed, and the error of the block is raised."""

    def stays(path: Path) -> None:
        raise PermissionError(errno.EACCES, "denied", str(path))

    with folders.temporary("one-", top) as made:
        (made / "file").touch()
    assert os.listdir(top) == []
    monkeypatch.setattr(folders, "remove", stays)
    with pytest.raises(KeyError, match="first"), folders.temporary("one-", top) as made:
        raise KeyError("first")
    assert f"{made} cannot be removed (denied)" in capsys.readouterr().err


@pytest.mark.parametrize("ends", [lambda walk: next(walk), lambda walk: [next(walk), next(walk)]])
def test_a_walk_that_is_not_finished_closes_its_folders(top: Path, ends: Callable[[Iterator[object]], object]) -> None:
    """A loop over a walk may end early, also by an error in another folder."""
    nest(top, 5)
    before = opened()
    walk = folders.walk(top)
    ends(walk)
    assert opened() > before
    del walk
    assert opened() == before
