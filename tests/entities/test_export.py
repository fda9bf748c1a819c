"""An exported program, served by Python alone: kills, full disks, snapshots, and what the command refuses."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from served import COUNTERS, ROOT, SHOP, send, served

from sharedstate_lite.entities.export import export
from sharedstate_lite.entities.log import ServeError
from sharedstate_lite.entities.serve import DISK, load

PLENTY = 60.0
"""Seconds that a test waits for what takes a moment."""


def until(true: Callable[[], Any]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PLENTY
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported shop."""
    folder = tmp_path_factory.mktemp("exported")
    export(SHOP, folder)
    return folder


@pytest.fixture(scope="module")
def counters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported counters, with a method that visits a set."""
    folder = tmp_path_factory.mktemp("counters")
    method = '    def mix(self):\n        self.words = tuple({"a", "b", "c", "d", "e", "f"})\n'
    source = COUNTERS.replace("    def find(self):\n", method + "    def find(self):\n")
    source = source.replace("routes={", 'routes={\n    "POST /mix/{counter}": Counter.mix,')
    (folder / "source.py").write_text(source)
    export(folder / "source.py", folder / "out")
    return folder / "out"


def test_a_folder_of_its_own(shop: Path) -> None:
    """The runtime, the program, and how to start them; nothing of the rest of the library."""
    assert {path.name for path in shop.iterdir()} == {"__main__.py", "checkout.toml", "shop.py", "sharedstate_lite"}
    assert {path.name for path in (shop / "sharedstate_lite").iterdir()} == {"__init__.py", "entities"}
    assert not list(shop.rglob("*spark*")) and not list(shop.rglob("show*"))
    code = "import sys; sys.path.insert(0, '.'); import shop, sharedstate_lite.entities.__main__; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=shop, capture_output=True, text=True, check=True
    )
    found = {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert found == {"__main__", "shop", "sharedstate_lite"}
    (shop / "sharedstate_lite" / "entities" / "old.py").write_text("")
    export(SHOP, shop)
    assert not (shop / "sharedstate_lite" / "entities" / "old.py").exists()


def test_what_export_refuses(tmp_path: Path) -> None:
    """A folder that it has not written, and a program that needs more than Python; nothing is written."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ServeError, match="is not empty and was not written by 'export'; choose another folder"):
        export(SHOP, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    for line, name in (
        ("import numpy as np\n", "numpy"),
        ("from . import helper\n", "."),
        ("import grader\n", "grader"),
    ):
        (tmp_path / "p.py").write_text(line + SHOP.read_text())
        with pytest.raises(ServeError, match=rf"p\.py: imports {name}; an exported program imports only"):
            export(tmp_path / "p.py", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_export_from_an_exported_folder(shop: Path, tmp_path: Path) -> None:
    """To another folder: the same files. To the folder itself: refused, and nothing has changed."""
    export(SHOP, tmp_path / "one")
    with pytest.raises(subprocess.CalledProcessError) as error:
        command(tmp_path / "one", "export", ".", program="shop.py")
    assert "contains the runtime that runs this command" in error.value.stderr
    command(tmp_path / "one", "export", "../two", program="shop.py")
    one, two = ({path.relative_to(root) for path in root.rglob("*.*") if path.suffix != ".pyc"}
                for root in (tmp_path / "one", tmp_path / "two"))  # fmt: skip
    assert one == two


def test_one_program_a_file(tmp_path: Path) -> None:
    """No file, none, or two."""
    with pytest.raises(FileNotFoundError, match=r"no\.py"):
        load(tmp_path / "no.py")
    (tmp_path / "none.py").write_text("")
    with pytest.raises(ServeError, match="defines 0 programs; define exactly one Program"):
        load(tmp_path / "none.py")


def test_the_checkout_program_is_short() -> None:
    """It has no line about requests, retries, logs or undoing."""
    code = [line for line in SHOP.read_text().splitlines() if line.strip() and not line.strip().startswith('"""')]
    assert len(code) < 100


def test_the_shop_keeps_what_it_has_acknowledged(shop: Path, tmp_path: Path) -> None:
    """With ``python -I``: an order is created, refused, paid once; a kill and a start later it is as it was."""
    with served(shop, tmp_path) as address:
        item = send(address, "POST", "/stock/item/create/5")[1]["item_id"]
        user = send(address, "POST", "/payment/create_user")[1]["user_id"]
        order = send(address, "POST", f"/orders/create/{user}", key="k")[1]["order_id"]
        for path in (f"/stock/add/{item}/3", f"/payment/add_funds/{user}/9", f"/orders/addItem/{order}/{item}/2"):
            assert send(address, "POST", path) == (200, {})
        assert send(address, "POST", f"/orders/checkout/{order}") == (400, {"error": "out of credit"})
        assert send(address, "GET", f"/stock/find/{item}") == (200, {"stock": 3, "price": 5})
        send(address, "POST", f"/payment/add_funds/{user}/2")
        for _ in range(2):
            assert send(address, "POST", f"/orders/checkout/{order}") == (200, {})
    with served(shop, tmp_path) as address:
        assert send(address, "POST", f"/orders/create/{user}", key="k")[1] == {"order_id": order}
        assert send(address, "GET", f"/orders/find/{order}")[1] == {
            "order_id": order, "paid": True, "items": [[item, 2]], "user_id": user, "total_cost": 10,
        }  # fmt: skip
        assert send(address, "GET", f"/stock/find/{item}")[1]["stock"] == 1
        assert send(address, "GET", f"/payment/find_user/{user}")[1]["credit"] == 1


def test_kills_under_load(counters: Path, tmp_path: Path) -> None:
    """Four clients add until the server is killed: each unit that was acknowledged is there, none was added twice."""
    done, tried = 0, 0
    for turn in range(3):
        with served(counters, tmp_path, program="source.py") as address:
            if turn == 0:
                send(address, "POST", "/many/4/0")
            found = sum(send(address, "GET", f"/find/{n}")[1]["n"] for n in range(4))
            assert done <= found <= tried
            acknowledged = [0] * 4

            def client(n: int, address: str = address, acknowledged: list[int] = acknowledged) -> None:
                try:
                    for _ in range(25):
                        send(address, "POST", f"/add/{n}/1")
                        acknowledged[n] += 1
                except OSError:
                    pass

            clients = [threading.Thread(target=client, args=(n,)) for n in range(4)]
            for each in clients:
                each.start()
            until(lambda acknowledged=acknowledged: sum(acknowledged) > 20)
        for each in clients:
            each.join()
        done, tried = found + sum(acknowledged), found + sum(acknowledged) + 4
    with served(counters, tmp_path, program="source.py") as address:
        assert done <= sum(send(address, "GET", f"/find/{n}")[1]["n"] for n in range(4)) <= tried


def test_sets_are_visited_in_the_same_order(counters: Path, tmp_path: Path) -> None:
    """Each start has the same hashes, whatever the environment says."""
    with served(counters, tmp_path, program="source.py", PYTHONHASHSEED="5") as address:
        send(address, "POST", "/many/1/0")
        send(address, "POST", "/mix/0")
        words = send(address, "GET", "/find/0")[1]["words"]
    with served(counters, tmp_path, program="source.py", PYTHONHASHSEED="7") as address:
        assert send(address, "GET", "/find/0")[1]["words"] == words


def test_a_full_disk(counters: Path, tmp_path: Path) -> None:
    """The process ends with 70 before it answers. What it had answered is there at the next start."""
    code = (
        f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, {resource.RLIM_INFINITY}));"
        "sys.argv = ['.', 'serve', 'source.py', '--port', '0', '--data', sys.argv[1]]; sys.path.insert(0, '.');"
        "runpy.run_path('.', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    added = 0
    with subprocess.Popen(command, cwd=counters, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            address = process.stdout.readline().strip()
            send(address, "POST", "/many/1/0")
            with pytest.raises(OSError):
                for _ in range(200):
                    assert send(address, "POST", "/add/0/1")[0] == 200
                    added += 1
            assert process.wait(PLENTY) == DISK
            assert "File too large" in (err := process.stderr.read()) and "the next start replays the log" in err
        finally:
            process.kill()
    with served(counters, tmp_path, program="source.py") as address:
        assert 10 < added == send(address, "GET", "/find/0")[1]["n"]


def test_a_snapshot_while_requests_arrive(counters: Path, tmp_path: Path) -> None:
    """A child process makes it from the log; a start reads it, and the log after it alone."""
    small, data = tmp_path / "small", tmp_path / "data"
    shutil.copytree(counters, small)
    module = small / "sharedstate_lite" / "entities" / "serve.py"
    module.write_text(module.read_text().replace("LOG_SIZE = 16 << 20", "LOG_SIZE = 4_000"))
    with served(small, data, program="source.py") as address:
        send(address, "POST", "/many/2/0")
        send(address, "POST", "/add/1/3", key="k")
        send(address, "POST", "/mix/1")
        before, n, end = send(address, "GET", "/find/1"), 0, time.monotonic() + PLENTY
        while not (data / "snapshot.2").exists():
            assert time.monotonic() < end
            n = send(address, "POST", f"/add/0/{int(n < 100)}")[1]
    assert {path.name for path in data.iterdir()} >= {"log.1", "log.2", "snapshot.2"}
    (data / "log.1").unlink()
    with served(counters, data, program="source.py") as address:
        assert send(address, "GET", "/find/1") == before and send(address, "GET", "/find/0")[1]["n"] == n
        assert send(address, "POST", "/add/1/3", key="k") == (200, 3)


def test_a_change_of_program(counters: Path, tmp_path: Path) -> None:
    """A snapshot by the old program, and the new one goes on from there; without it, the new one is refused."""
    changed = tmp_path / "changed"
    shutil.copytree(counters, changed)
    source = (counters / "source.py").read_text()
    (changed / "source.py").write_text(source.replace("self.n += n", "self.n += 2 * n"))
    data = tmp_path / "data"
    with served(counters, data, program="source.py") as address:
        send(address, "POST", "/many/1/0")
        send(address, "POST", "/add/0/5")
        with pytest.raises(subprocess.CalledProcessError) as error:
            command(counters, "serve", "--data", str(data), "--port", "0")
        assert "ServeError: " in error.value.stderr and "is in use by process" in error.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as error:
        command(changed, "serve", "--data", str(data), "--port", "0")
    assert error.value.returncode == 1 and "has requests of another program (program" in error.value.stderr
    command(counters, "snapshot", "--data", str(data))
    with served(changed, data, program="source.py") as address:
        assert send(address, "POST", "/add/0/5") == (200, 15)


def command(folder: Path, name: str, *words: str, program: str = "source.py") -> str:
    """Run a command of an exported program."""
    line = [sys.executable, "-I", ".", name, program, *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True, timeout=PLENTY).stdout


def test_options_in_one_word(shop: Path) -> None:
    """``-Is`` hides that the hashes cannot be fixed: refused, rather than started for ever."""
    words = [sys.executable, "-Is", ".", "serve", "shop.py", "--port", "0", "--data", "data"]
    done = subprocess.run(words, cwd=shop, capture_output=True, text=True, timeout=PLENTY)
    assert done.returncode == 1 and "write -I and -E as separate options" in done.stderr


def test_spark_needs_the_library(shop: Path, tmp_path: Path) -> None:
    """An exported folder has no Spark: refused, with the reason."""
    with pytest.raises(subprocess.CalledProcessError) as error:
        command(shop, "serve", "--spark", "--port", "0", "--data", str(tmp_path / "data"), program="shop.py")
    assert error.value.returncode == 1 and "--spark needs the library and PySpark" in error.value.stderr


def test_the_command_of_the_library(tmp_path: Path) -> None:
    """``export`` by its name; what it makes is a submission."""
    words = ["-m", "sharedstate_lite.entities", "export", str(SHOP), str(tmp_path / "out")]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, timeout=PLENTY)
    toml = tomllib.loads((tmp_path / "out" / "checkout.toml").read_text())
    assert toml["process"][0]["command"][:4] == ["python3", "-I", ".", "serve"]
