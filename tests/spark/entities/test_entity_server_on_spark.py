"""Purchases by HTTP through Spark: answers and effects agree, also when the server is killed in the middle of calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from purchases import ALONE_SOURCE, BALANCE, ITEMS, PRICE, SOURCE, STOCK, USERS, drawn, path_of, wrong
from pyspark.sql import SparkSession
from sparks import until

from sharedstate_lite.entities import Program
from sharedstate_lite.entities.http1 import HttpConnection
from sharedstate_lite.entities.on_spark import SparkEntities
from sharedstate_lite.entities.serve import load
from sharedstate_lite.entities.serve_on_spark import SparkService

ROOT = Path(__file__).resolve().parents[3]
MAKE = {"items": f"/items/{ITEMS}/{STOCK}/{PRICE}", "users": f"/users/{USERS}/{BALANCE}"}


def program(folder: Path, source: str = SOURCE) -> tuple[Path, Program]:
    """The file of the program, and the program; Spark's workers cannot import it."""
    file = folder / "shop_of_tests.py"
    file.write_text(source)
    found = load(file)
    del sys.modules["program_shop_of_tests"]
    return file, found


def send(address: str, path: str, key: str) -> bytes:
    """The status and the body that a request is answered with."""
    request = Request(address + path, method="POST", headers={"Idempotency-Key": key})
    try:
        with urlopen(request, timeout=120) as found:
            return b"%d %s" % (found.status, found.read())
    except HTTPError as error:
        with error:
            return b"%d %s" % (error.code, error.read())


class Together(SparkService):
    """A service that waits for ``count`` requests without a recorded answer before it runs a micro-batch."""

    count = 0

    def run(self) -> None:
        """Run micro-batches if all requests are there."""
        if self.waiting == self.count:
            super().run()


def served(front: SparkEntities, paths: dict[str, str]) -> list[bytes]:
    """Serve, and send all requests at once. Return the answers in their order."""
    service = Together(front)
    service.count = len(paths)

    async def run() -> list[bytes]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(service.request), "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with ThreadPoolExecutor(len(paths)) as pool:
            calls = [loop.run_in_executor(pool, send, address, path, key) for key, path in paths.items()]
            found = await asyncio.gather(*calls)
        server.close()
        return found

    return asyncio.run(run())


def test_purchases_by_http(spark: SparkSession, tmp_path: Path) -> None:
    """Purchases at once, with one bin: one micro-batch. Repeated, also after a start: the same answers."""
    wanted, (_, shop) = drawn(1, 20), program(tmp_path)
    paths = {key: path_of(purchase) for key, purchase in wanted.items()}
    with SparkEntities(shop, tmp_path / "data", 1, spark) as front:
        assert served(front, MAKE) == [
            b'200 {"msg": "%d of %s"}' % each for each in ((ITEMS, b"Item"), (USERS, b"User"))
        ]
        before = front.rounds
        said = served(front, paths)
        assert served(front, paths) == said
        assert front.rounds == before + 1
    with SparkEntities(shop, tmp_path / "data", 1, spark) as front:
        assert served(front, paths) == said
        told = {key: (int(each[:3]), json.loads(each[4:])) for key, each in zip(paths, said, strict=True)}
        assert wrong(wanted, told, front.state()) == []


CLIENTS = """
import http.client, json, sys, threading, time
folder, threads = sys.argv[1], int(sys.argv[2])
paths = json.load(open(folder + "/paths.json"))
said = {key: [] for key in paths}

def send(key):
    while True:
        try:
            host = open(folder + "/address").read()
            connection = http.client.HTTPConnection(host, timeout=120)
            connection.request("POST", paths[key], headers={"Idempotency-Key": key})
            found = connection.getresponse()
            said[key].append([found.status, found.read().decode()])
            return connection.close()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)  # the server is down

def client(keys):
    for number, key in enumerate(keys):
        send(key)
        if number % 3 == 0:
            send(key)

for _ in range(2):
    keys = list(paths)
    running = [threading.Thread(target=client, args=(keys[n::threads],)) for n in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
print(json.dumps(said))
"""


def kill(server: subprocess.Popen[str]) -> None:
    """SIGKILL to a server, its JVM and its workers. None of them writes any more afterwards."""
    children = psutil.Process(server.pid).children(recursive=True)
    os.killpg(server.pid, signal.SIGKILL)
    assert server.wait(60) == -signal.SIGKILL
    assert server.stdout is not None
    server.stdout.close()
    assert psutil.wait_procs(children, timeout=60)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "source"), [(1, SOURCE), (8, SOURCE), (8, ALONE_SOURCE)], ids=["one", "8", "alone"])
def test_kills_in_the_middle_of_calls(request: pytest.FixtureRequest, tmp_path: Path, bins: int, source: str) -> None:
    """SIGKILL to the server's process group, at random moments, three times: one answer a key, and one effect."""
    rng, (file, shop), data = Random(len(source) + bins), program(tmp_path, source), tmp_path / "data"
    wanted = drawn(bins, 80)
    (tmp_path / "paths.json").write_text(json.dumps({key: path_of(each) for key, each in wanted.items()}))
    log = data / "query" / "log.jsonl"
    words = ["serve", str(file), "--port", "0", "--data", str(data), "--spark", "--bins", str(bins)]
    with contextlib.ExitStack() as stack:
        for life in range(4):
            server = subprocess.Popen(
                [sys.executable, "-m", "sharedstate_lite.entities", *words],
                cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
            stack.callback(lambda each=server: each.poll() is None and kill(each))
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address.startswith("http://"), address
            (tmp_path / "new").write_text(address.removeprefix("http://"))
            (tmp_path / "new").replace(tmp_path / "address")
            if life == 0:
                assert all(send(address, path, key).startswith(b"200") for key, path in MAKE.items())
                command = [sys.executable, "-c", CLIENTS, str(tmp_path), "4"]
                clients = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
                stack.callback(clients.kill)
            if life == 3:
                said = json.loads(clients.communicate(timeout=900)[0])
            else:
                batches, moment = len(log.read_text().splitlines()) + rng.randrange(1, 5), rng.random() / 2
                until(server, lambda least=batches: len(log.read_text().splitlines()) >= least)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(moment)
                assert clients.poll() is None
            kill(server)
    assert all(len(each) >= 2 and all(one == each[0] for one in each) for each in said.values())
    told = {key: (each[0][0], json.loads(each[0][1])) for key, each in said.items()}
    with SparkEntities(shop, data, bins, request.getfixturevalue("spark")) as front:
        assert wrong(wanted, told, front.state()) == []
