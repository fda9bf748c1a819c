"""The runtime: one for each host, authenticated, replaced after a kill, and gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from leftovers import held, left, runtimes, until

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session.ship import archive
from sharedstate_lite.worker.handles import client
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime import host, protocol
from sharedstate_lite.worker.runtime.address import Application
from sharedstate_lite.worker.runtime.channel import RpcChannel
from sharedstate_lite.worker.runtime.resource import Head, Reply

ROOT = Path(__file__).resolve().parents[2]


def test_many_at_once_start_one_runtime(application: DriverServer) -> None:
    """Three processes send the first request at once: one runtime starts, and all get an answer."""
    seen = w.ConcurrentSet(application)
    code = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(int(s.add_new([1, 2, 3]).sum()))"
    asking = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        for _ in range(3)
    ]
    told = [int(process.communicate(pickle.dumps(seen))[0]) for process in asking]
    assert sum(told) == 3 and len(told) == 3
    assert len(runtimes(application)) == len(application.runtimes()) == 1


def test_a_runtime_starts_from_an_archive(application: DriverServer, tmp_path: Path) -> None:
    """An executor has the kit as a zip file with a relative path; its runtime imports it from any folder."""
    archive(tmp_path)
    code = """
import pickle, sys
sys.path.insert(0, "sharedstate_lite.zip")
seen = pickle.load(sys.stdin.buffer)
print(sys.modules["sharedstate_lite"].__file__, int(seen.add_new([1, 2]).sum()))
"""
    seen = w.ConcurrentSet(application)
    asking = subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    said = asking.communicate(pickle.dumps(seen))[0].decode().split()
    assert "sharedstate_lite.zip" in said[0] and said[1] == "2"
    assert not seen.add_new([1, 2]).any()


def test_threads_of_one_process_ask_at_once(common: DriverServer) -> None:
    """Threads that ask at once get their own answers."""
    seen = w.ConcurrentSet(common)
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda n: (n, seen.add_new(np.arange(n * 50, n * 50 + 100))), range(40)))
    assert sum(int(new.sum()) for _, new in told) == 40 * 50 + 50
    assert all(len(new) == 100 for _, new in told)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # from Python 3.12
def test_a_fork_opens_its_own_connection(common: DriverServer) -> None:
    """A forked process opens its own connection, and the parent's still works."""
    seen = w.ConcurrentSet(common)
    assert seen.add_new([1]).all()
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.write(theirs, bytes(seen.add_new([1, 2]).tolist()))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(ours, 9) == bytes([False, True])
    assert not seen.add_new([1, 2]).any()
    os.close(ours), os.close(theirs)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # from Python 3.12
def test_a_fork_of_the_driver_does_not_keep_the_runtime(application: DriverServer) -> None:
    """A fork of the driver does not hold the lease."""
    seen = w.ConcurrentSet(application)
    seen.add_new([1])
    child = os.fork()
    if not child:
        signal.pause()
    try:
        application.close()
        until(lambda: not runtimes(application))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_killed_runtime_is_replaced(application: DriverServer) -> None:
    """After kill -9 the next request starts a new runtime: tables are there again, sets are empty."""
    table = w.share(pa.table({"a": [1, 2, 3]}), application)
    seen = w.ConcurrentSet(application)
    assert seen.add_new([1, 2]).all() and table.table().num_rows == 3
    (pid,) = runtimes(application)
    os.kill(pid, signal.SIGKILL)
    assert seen.add_new([1, 2, 3]).all()
    assert table.table().column("a").to_pylist() == [1, 2, 3]
    assert pid not in runtimes(application) and len(runtimes(application)) == 1


def test_a_request_that_must_not_be_repeated_is_lost(application: DriverServer) -> None:
    """A pending request that must not be repeated raises Lost when the runtime is killed."""
    table = w.share(pa.table({"a": [1]}), application)
    table.table()
    (pid,) = runtimes(application)
    os.kill(pid, signal.SIGSTOP)
    lost: list[BaseException] = []

    def ask() -> None:
        try:
            client.request(application.application, {"op": "map", "resource": table._name}, retry=False)
        except w.Lost as error:
            lost.append(error)

    asking = threading.Thread(target=ask, name="asks once")
    asking.start()
    until(lambda: _sent("asks once"))
    os.kill(pid, signal.SIGKILL)
    asking.join(20)
    assert "it is unknown whether the request was executed" in str(lost[0])


def _sent(name: str) -> bool:
    """Whether the thread of that name waits for an answer."""
    for thread in threading.enumerate():
        frame = sys._current_frames().get(thread.ident or 0)
        while thread.name == name and frame is not None:
            if frame.f_code.co_name == "receive":
                return True
            frame = frame.f_back
    return False


def test_no_answer_without_the_secret(common: DriverServer) -> None:
    """A process that connects to the runtime or to the driver without the secret gets no answer."""
    table = w.share(pa.table({"secret": [42]}), common)
    table.table()
    ours = common.application
    for family, where in ((socket.AF_UNIX, host.address(ours.runtime_name())), (socket.AF_INET, ours.driver)):
        with socket.socket(family) as sock:
            sock.connect(where)
            with pytest.raises((protocol.Disconnected, ConnectionError)):
                protocol.authenticate(sock, b"guessed")
        with socket.socket(family) as sock:
            sock.connect(where)
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n" * 8)
            said = sock.recv(4096)
            with contextlib.suppress(ConnectionResetError):
                while more := sock.recv(4096):
                    said += more
            assert len(said) <= protocol.NONCE


def test_a_squatter_on_the_name_is_not_trusted(application: DriverServer) -> None:
    """A foreign process that has bound the runtime's name learns nothing, and the error says what is wrong."""
    seen = w.ConcurrentSet(application)
    ours = application.application
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(host.address(ours.runtime_name()))
        squatter.listen()
        unpack_positions: list[bytes] = []

        def pretend() -> None:
            connection, _ = squatter.accept()
            connection.sendall(bytes(protocol.NONCE))
            unpack_positions.append(connection.recv(4096))
            connection.sendall(bytes(protocol.NONCE))
            connection.close()

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(Error, match="a process that does not belong to application"):
            seen.add_new([1])
        thread.join()
    assert ours.secret not in unpack_positions[0]
    assert seen.add_new([1]).all()


def test_shared_memory_cannot_be_written(common: DriverServer) -> None:
    """Shared memory cannot be changed through arrays, a writable mapping or write()."""
    graph = w.share(w.CSR.from_edges([0, 0, 2], [1, 2, 0], weights=[0.5, 1.5, 2.5]), common)
    csr = graph.csr()
    assert csr.neighbours(0).tolist() == [1, 2] and csr.weights is not None and csr.weights.tolist() == [0.5, 1.5, 2.5]
    for array in (csr.indptr, csr.indices, csr.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    assert all(in_shared_memory(array) for array in (csr.indptr, csr.indices, csr.weights))
    _, _, file = graph._request({"op": "map"})
    assert file is not None
    with pytest.raises(PermissionError):
        mmap.mmap(file, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.pwrite(file, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(file, 1)
    os.close(file)


def in_shared_memory(array: Any) -> bool:
    """Whether an array lies in a mapping of a file in memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:sharedstate-lite" in line:
            first, _, last = line.split()[0].partition("-")
            if int(first, 16) <= array.ctypes.data < int(last, 16):
                return True
    return False


def test_a_closed_handle_leaves_no_memory(application: DriverServer) -> None:
    """After close() and the last use of the table no process holds its memory; later requests raise."""
    table = w.share(pa.table({"a": np.arange(1000)}), application)
    mapped = table.table()
    assert {pid for pid, _ in held(application.application.name)} == {os.getpid(), *runtimes(application)}
    table.close()
    del mapped
    assert left(application) == [application.application.runtime_name(), application.application.driver_name()]
    with pytest.raises(Error, match="Immutable 1: it is closed. Create another one"):
        table.table()
    table.close()


def test_another_host_fetches_once(application: DriverServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime on another host copies a table over the lease once."""
    from sharedstate_lite.worker.runtime import immutable

    table = w.share(pa.table({"a": np.arange(immutable.PIECE // 8 * 2 + 7)}), application)
    monkeypatch.setenv(host.VARIABLE, "elsewhere")
    assert table.table().equals(table.table())
    assert table.table().column("a").to_numpy().tolist()[-1] == immutable.PIECE // 8 * 2 + 6
    (said,) = application.request_all({"op": "metrics"})
    assert said["host"].endswith("elsewhere") and said["resources"]["Immutable 1"]["loads"] == 1


def test_a_driver_that_is_gone_is_named() -> None:
    """A handle whose driver has ended raises at once, and starts no runtime."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gone = Application("nobody", b"x" * 32, ("127.0.0.1", port), "", None)
    with pytest.raises(Error, match=rf"its driver at 127.0.0.1:{port} does not answer"):
        client.request(gone, {"op": "map", "resource": "Immutable 1"})


def test_a_cancelled_request_is_sent_to_its_end() -> None:
    """A request that is cancelled while it is sent is sent to its end, so later requests are understood."""

    async def echo(line: RpcChannel, head: Head, table: pa.Table | None) -> Reply:
        return {"heard": head["op"]}, None

    async def main() -> None:
        ours, theirs = socket.socketpair()
        asks, answers = RpcChannel(ours, echo), RpcChannel(theirs, echo)
        large = asyncio.create_task(asks.request({"op": "large"}, pa.table({"n": np.zeros(1 << 20)})))
        while not select.select([theirs], [], [], 0)[0]:
            await asyncio.sleep(0)
        large.cancel()
        await asyncio.wait([large])
        running = [asyncio.create_task(line.run()) for line in (asks, answers)]
        said, _ = await asyncio.wait_for(asks.request({"op": "small"}), 20)
        assert said["heard"] == "small"
        ours.shutdown(socket.SHUT_RDWR)
        await asyncio.wait(running)

    asyncio.run(main())


def test_kill_of_the_driver_ends_everything(tmp_path: Path) -> None:
    """kill -9 of the driver leaves no runtime, socket or memory file."""
    code = """
import sys
import pyarrow as pa
from sharedstate_lite import worker as w
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime.channel import RpcChannel
from sharedstate_lite.worker.runtime.resource import Head, Reply
driver = DriverServer("127.0.0.1", "127.0.0.1", lambda: True)
w.share(pa.table({"a": [1]}), driver).table()
w.ConcurrentSet(driver).add_new([1])
print(driver.runtimes()[0]["pid"], driver.application.name, flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said, name = process.stdout.readline().decode().split()
    pid = int(said)
    assert {process.pid, pid} <= {holder for holder, _ in held(name)}
    process.kill()
    process.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])
    assert held(name) == []


def test_a_process_with_many_open_files_has_connections_too() -> None:
    """Idle connections with descriptors above 1,023 are checked too: select() could not do that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    application = Application("many files", b"", ("127.0.0.1", 1), "here", None)
    try:
        with contextlib.ExitStack() as files:
            for _ in range(1100):
                files.enter_context(open(os.devnull))
            idle, other = (files.enter_context(sock) for sock in socket.socketpair())
            assert idle.fileno() > 1023
            client.release(application, idle)
            assert client.acquire(application) is idle
            client.release(application, idle)
            other.close()  # it is now readable, so it is not reused, and no runtime listens
            with pytest.raises(Error, match="worker runtime"):
                client.acquire(application)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
