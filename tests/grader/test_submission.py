"""checkout.toml: its values, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import SubmissionError
from grader.submission import read_submission
from grader.submission.places import Places

RIGHT = """\
name = "team 7"
base_url = "http://127.0.0.1:{port:gateway}"
build = [["python3", "-m", "venv", ".venv"]]

[[process]]
name = "stock-db"
role = "database"
command = ["redis-server", "--port", "{port}", "--dir", "{data}"]
ready = { tcp = "{port}", timeout_s = 5 }

[[process]]
name = "gateway"
role = "gateway"
port = 5001
command = ["python3", "{submission}/gateway.py", "{{literal}}"]
env = { REDIS_PORT = "{port:stock-db}" }
"""


def read(folder: Path, text: str) -> object:
    (folder / "checkout.toml").write_text(text)
    return read_submission(folder)


def test_everything_of_the_assignment_is_read(tmp_path: Path) -> None:
    """Each field is read, also after a byte order mark, and placeholders become ports, folders and braces."""
    (tmp_path / "checkout.toml").write_text("\ufeff" + RIGHT)
    submission = read_submission(tmp_path)
    database, gateway = submission.processes
    assert (submission.name, len(submission.build)) == ("team 7", 1)
    assert (database.role, database.ready.tcp, database.ready.timeout) == ("database", "{port}", 5.0)
    places = Places({"stock-db": 7001, "gateway": 5001}, lambda name: f"/data/{name}", "/code")
    assert places.fill(database.command[2], "stock-db") == "7001"
    assert places.fill(database.command[4], "stock-db") == "/data/stock-db"
    assert [places.fill(word, "gateway") for word in gateway.command] == ["python3", "/code/gateway.py", "{literal}"]
    assert places.fill(gateway.env["REDIS_PORT"], "gateway") == "7001"
    assert places.fill(submission.urls["order"]) == "http://127.0.0.1:5001/orders"


WRONG = [
    ('role = "database"', 'role = "db"', 7, "process.role"),
    ("{data}", "{datum}", 8, "process.command"),
    ("{port:stock-db}", "{port:stock}", 16, "process.env"),
    ('name = "gateway"', 'name = "stock-db"', 12, "process.name"),
    ("port = 5001", "port = 80", 14, "process.port"),
    ("port = 5001", 'prot = "5001"', 14, "process.prot"),
    ("timeout_s = 5", "timeout_s = -5", 9, "process.ready"),
    ("{port:gateway}", "{port}", 2, "base_url"),
    ("http://127", "https://127", 2, "base_url"),
    ("127.0.0.1:{port:gateway}", "example.com:{port:gateway}", 2, "base_url"),
    ("{port:gateway}", "{port:gateway}0", 2, "base_url"),
    ('tcp = "{port}"', 'tcp = "{port:stock-db}x"', 9, "process.ready"),
    ('tcp = "{port}"', 'http = "http://localhost:{port}0/health"', 9, "process.ready"),
    ('tcp = "{port}"', 'http = "http://stock-db:{port}/health"', 9, "process.ready"),
    ('build = [["python3"', 'build = ["python3", ["python3"', 3, "build"),
    ("{{literal}}", "{literal", 15, "process.command"),
    ('command = ["python3"', 'command = ["python3", 5', 15, "process.command"),
    ('name = "team 7"', "name = 7", 1, "name"),
    ('name = "team 7"', "nmae = 'x'", 1, "nmae"),
]


@pytest.mark.parametrize(("right", "wrong", "line", "field"), WRONG)
def test_an_error_says_line_field_and_example(tmp_path: Path, right: str, wrong: str, line: int, field: str) -> None:
    """Each error has the line, the field and an example; for an unknown field, of the most similar one."""
    assert right in RIGHT
    with pytest.raises(SubmissionError) as error:
        read(tmp_path, RIGHT.replace(right, wrong, 1))
    said = str(error.value)
    assert said.startswith(f"checkout.toml, line {line}, {field}: ")
    nearest = {"process.prot": "port = 5001", "nmae": 'name = "team 7"'}
    assert f"\n  example: {nearest.get(field, '')}" in said


@pytest.mark.parametrize("text", ["", "name = ", "[process]\nname = 'x'", "\x00", RIGHT.replace("base_url", "#")])
def test_whatever_is_in_the_file_it_is_a_submission_error(tmp_path: Path, text: str) -> None:
    """An empty, broken or incomplete file is a SubmissionError."""
    with pytest.raises(SubmissionError, match=r"(?s)checkout\.toml.*\n  example: "):
        read(tmp_path, text)
    with pytest.raises(SubmissionError, match=r"nowhere has no checkout\.toml"):
        read_submission(tmp_path / "nowhere")


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable file is an error of the submission, not of the grader."""

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(SubmissionError, match=r"checkout\.toml cannot be read \(Permission denied\)"):
        read(tmp_path, RIGHT)
