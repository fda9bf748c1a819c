"""checkout.toml: its values, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import SubmissionError
from grader.submission import Submission, read_submission
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


def read(folder: Path, text: str) -> Submission:
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


COMMAND = 'command = ["python3", "{submission}/gateway.py", "{{literal}}"]'
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
    ('name = "team 7"', 'python = "2.7"', 1, "python"),
    ('name = "team 7"', 'python = "python3.12"', 1, "python"),
    ('name = "team 7"', "python = 3.12", 1, "python"),
    ("port = 5001", 'address = "10.0.0.2"', 14, "process.address"),
    ("port = 5001", 'address = "127.0.0.2/8"', 14, "process.address"),
    ("{port:gateway}", "{address}", 2, "base_url"),
    ("{port:stock-db}", "{address:stock}", 16, "process.env"),
    ("port = 5001", 'routes = { "/stock/" = "http://127.0.0.1:5000" }', 15, "process.command"),
    (COMMAND, "", 11, "process.command"),
    (COMMAND, 'routes = { "stock" = "http://127.0.0.1:5000" }', 15, "process.routes"),
    (COMMAND, 'routes = { "/stock" = "http://stock-service:5000" }', 15, "process.routes"),
    (COMMAND, 'routes = { "/stock" = "http://127.0.0.1:{port:stock}" }', 15, "process.routes"),
    (COMMAND, 'routes = { "/stock" = [] }', 15, "process.routes"),
    (COMMAND, "routes = {}", 15, "process.routes"),
    ('tcp = "{port}"', "command = []", 9, "process.ready"),
    ('tcp = "{port}"', 'command = ["redis-cli", "{datum}"]', 9, "process.ready"),
    ('tcp = "{port}"', 'tcp = "{port}", command = ["redis-cli"]', 9, "process.ready"),
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


MORE = """\
python = "3.12"
base_url = "http://{address:front}:{port:front}"

[[process]]
name = "order"
address = "127.0.0.2"
port = 5000
command = ["gunicorn", "-b", "{address}:5000"]
ready = { command = ["check", "{address}"], timeout_s = 90 }

[[process]]
name = "stock"
address = "127.0.0.3"
port = 5000
command = ["gunicorn", "-b", "{address}:5000"]
ready = { http = "http://{address}:{port}/health" }

[[process]]
name = "front"
routes = { "/orders/" = ["http://{address:order}:5000/", "http://{address:stock}:5000/"], "/pay" = "http://localhost" }
"""


def test_what_a_docker_compose_repository_needs_is_read(tmp_path: Path) -> None:
    """Two processes have one port at two addresses; the gateway has its routes in order, and waits for its port."""
    submission = read(tmp_path, MORE)
    order, stock, front = submission.processes
    assert submission.python == "3.12" and (order.port, stock.port) == (5000, 5000)
    assert (order.ready.command, order.ready.timeout) == (("check", "{address}"), 90.0)
    assert [prefix for prefix, _ in front.routes] == ["/orders/", "/orders/", "/pay"]
    assert (front.role, front.command, front.ready.tcp) == ("gateway", (), "{port}")
    places = Places({"front": 7}, lambda name: name, "/code", {p.name: p.address for p in submission.processes})
    assert places.fill(submission.urls["order"]) == "http://127.0.0.1:7/orders"
    assert places.fill(stock.command[2], "stock") == "127.0.0.3:5000"
    assert places.fill(front.routes[0][1], "front") == "http://127.0.0.2:5000/"


def test_one_port_twice_needs_two_addresses(tmp_path: Path) -> None:
    """The error is at the second port, and says what to write."""
    with pytest.raises(SubmissionError, match=r"line 14, process\.port: 5000 is used by another .* an address"):
        read(tmp_path, MORE.replace("127.0.0.3", "127.0.0.2"))


def test_the_number_of_processes_is_limited(tmp_path: Path) -> None:
    """64 processes are read. One more is an error with its line."""
    tables = [f'[[process]]\nname = "p{number}"\ncommand = ["true"]\n' for number in range(65)]
    start = 'base_url = "http://127.0.0.1:{port:p0}"\n'
    assert len(read(tmp_path, start + "".join(tables[:64])).processes) == 64
    with pytest.raises(SubmissionError, match=r"line 194, process: there are 65 \[\[process\]\] tables; at most 64"):
        read(tmp_path, start + "".join(tables))


@pytest.mark.parametrize(
    "text",
    [
        *("", "name = ", "[process]\nname = 'x'", "\x00", RIGHT.replace("base_url", "#")),
        *(RIGHT.replace("5001", digits) for digits in ("1" * 5_000, f"0x{'f' * 5_000}")),
        *(RIGHT.replace('"{port}", t', f"{digits}, t") for digits in (f"0x{'f' * 5_000}", f'"{"1" * 5_000}"')),
        *(f"build = {'[' * 20_000}", f"a = {'{a = ' * 5_000}"),
    ],
    ids=str.split("nothing half not-a-list NUL no-url digits hex ready-hex ready-digits lists tables"),
)  # fmt: skip
def test_whatever_is_in_the_file_it_is_a_submission_error(tmp_path: Path, text: str) -> None:
    """An empty, broken or incomplete file, a number of 5,000 digits and deep nesting are a SubmissionError."""
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
