"""Values that cannot be shared: the message has the caller's expression, the type, and two ways to share."""

from __future__ import annotations

import pickle
import socket
import threading
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from leftovers import left, runtimes, until

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.handles.driver import driver as driver_of


class Prices:
    """A user's class."""

    table = {"a": 1}


@pytest.mark.parametrize("ways", [r"which every task maps read-only \(w\.share\(", "let the runtime own it"])
def test_the_message_has_the_callers_expression(common: DriverServer, ways: str) -> None:
    """The message has the argument as the caller wrote it, also over several lines."""
    prices, rows = {"a": 1}, [[1], [2]]
    with pytest.raises(Error, match=rf"^share: prices is a dict, which is not safe to share.*{ways}"):
        w.share(prices, common)
    with pytest.raises(Error, match=rf"^share: rows\[0\] is a list, .*{ways}"):
        w.share(rows[0], common)
    with pytest.raises(Error, match=rf"^share: Prices.table is a dict, .*{ways}"):
        w.share(
            spark=common,
            what=Prices.table,
        )
    with pytest.raises(Error, match=rf"^share: what is a dict, .*{ways}"):
        list(map(w.share, [prices]))
    with pytest.raises(Error, match=rf"^share: np.zeros\(3\) is a numpy.ndarray, .*{ways}"):
        w.share(np.zeros(3), common)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1, 2}, r"is a set.*w.share\(pa.table\(\{'value': list\(it\)\}\)\).*w.ConcurrentSet"),
        (pd.DataFrame({"a": [1]}), r"is a pandas.*DataFrame.*pa.Table.from_pandas\(it\)"),
        (threading.Lock(), r"is a _thread.lock.*one request at a time"),
        (socket.socket, "is a type"),
        (lambda: 1, "is a function"),
        (Prices(), r"is a test_worker_unsafe.Prices.*w.share\(table\).*ConcurrentSet, Cache, ConnectionPool"),
        (None, "is a NoneType"),
    ],
)
def test_everything_else_is_refused(common: DriverServer, value: Any, said: str) -> None:
    """Anything but an Arrow table or a graph raises with its type and a matching hint."""
    before = dict(common.registered)
    with pytest.raises(Error, match=f"share: value {said}"):
        w.share(value, common)
    assert common.registered == before


def test_what_is_shared_is_a_copy(common: DriverServer) -> None:
    """Changing the numpy array behind a table after share() does not change the shared table."""
    values = np.arange(5)
    shared = w.share(pa.table({"a": values}), common)
    values[0] = 99
    assert shared.table().column("a").to_pylist() == [0, 1, 2, 3, 4]
    batch = w.share(pa.record_batch({"a": values}), common)
    assert batch.table().column("a").to_pylist() == [99, 1, 2, 3, 4] and batch.rows == 5


def test_pieces_with_dictionaries_of_their_own(common: DriverServer) -> None:
    """Chunks with dictionaries of their own are shared with one dictionary."""
    pieces = [pa.array(texts).dictionary_encode() for texts in (["x", "y"], ["z", "x"])]
    with w.share(pa.table({"a": pa.chunked_array(pieces)}), common) as shared:
        table = shared.table()
        assert table.column("a").to_pylist() == ["x", "y", "z", "x"]
    with pytest.raises(Error, match="it is closed"):  # although this process has mapped it
        shared.table()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (([0, 1], [0, 0], None), r"the last one must be the number of edges \(2\), but it is 1"),
        (([1, 2], [0], None), "indptr must start with 0"),
        (([0, 1], [1], None), r"outside 0\.\.0"),
        (([0, 1], [0], [1.0, 2.0]), r"weights has the shape \(2,\)"),
        (([0, 2, 1, 3], [0, 1, 2], None), "indptr must not decrease"),
        ((np.array([0, 2, 1, 3], np.uint64), [0, 1, 2], None), "indptr must not decrease"),
        (([0.0, 1.0], [0], None), "indptr is a numpy array of float64. Pass a numpy array of integers"),
        (([0, 1], np.array([0], ">i4"), None), "indices is a numpy array of >i4"),
        (([0, 1], [0], [True]), "weights is a numpy array of bool"),
    ],
)
def test_invalid_graphs_are_refused(arrays: tuple[Any, Any, Any], said: str) -> None:
    """Arrays that do not fit together raise before they are shared."""
    pointers, targets, weights = arrays
    with pytest.raises(Error, match=said):
        w.CSR(np.array(pointers), np.array(targets), None if weights is None else np.array(weights))


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        (([0], [2**62], 3), "a target is outside 0..2"),
        (([0.7], [1.2]), "source has the type float64. Number the nodes with integers"),
        (([0], ["a"]), "target has the type <U1"),
        (([0, None], [1, 2]), "source has the type object"),
        (([2**53 + 1], [0]), "9007199254740994 nodes do not fit in memory"),
        (([], [], -1), "nodes=-1"),
        (([0], [0], 1, [1, 2]), r"weights has the shape \(2,\)"),
    ],
)
def test_invalid_edges_are_refused(edges: tuple[Any, ...], said: str) -> None:
    """Invalid node numbers, too many nodes and surplus weights raise instead of being truncated."""
    with pytest.raises(Error, match=said):
        w.CSR.from_edges(*edges)


def test_a_graph_has_the_edges_that_it_was_made_of() -> None:
    """Neighbours and degrees equal those of the list of edges, also for nodes without edges."""
    rng = np.random.default_rng(0)
    source, target, weight = rng.integers(0, 40, 300), rng.integers(0, 50, 300), rng.random(300)
    graph = w.CSR.from_edges(source, target, 50, weight)
    assert (graph.nodes, graph.edges) == (50, 300)
    again = w.CSR.of(graph.table())
    for node in range(50):
        assert again.neighbours(node).tolist() == target[source == node].tolist()


def test_a_table_is_no_graph(common: DriverServer) -> None:
    """csr() of a shared table raises and says how to read it."""
    shared = w.share(pa.table({"a": [1]}), common)
    with pytest.raises(Error, match=r"it is a table \(a\), not a graph. Read it with .table\(\)"):
        shared.csr()


def test_a_handle_is_an_address(common: DriverServer) -> None:
    """A handle pickles to less than 1 KB, without the DSN; its repr has no secret."""
    handles = [
        w.share(pa.table({"a": np.arange(100_000)}), common),
        w.ConcurrentSet(common),
        w.ConnectionPool(common, "postgresql://user:hidden@127.0.0.1:1/db"),
        w.Cache(common),
    ]
    for handle in handles:
        arrived = pickle.loads(pickle.dumps(handle))
        assert len(pickle.dumps(handle)) < 1_000 and b"hidden" not in pickle.dumps(handle)
        assert repr(arrived) == repr(handle) and common.application.secret.hex() not in repr(handle)
        with pytest.raises(Error, match="only the driver that created a handle can close it"):
            arrived.close()


def test_other_sessions_are_refused() -> None:
    """Anything but a session of Spark Classic raises with its type."""
    with pytest.raises(Error, match="builtins.str is not a session of Spark Classic"):
        driver_of("local[2]")  # type: ignore[arg-type]


def test_the_end_of_the_context_ends_the_runtime() -> None:
    """The runtime ends when the Spark context stops, and when its JVM ends, without close()."""
    for how in ("context", "jvm"):
        on = [True]
        with socket.create_server(("127.0.0.1", 0)) as jvm:
            driver = DriverServer("127.0.0.1", "127.0.0.1", lambda on=on: on[0], jvm.getsockname())  # type: ignore[misc]
            gateway, _ = jvm.accept()
            assert w.ConcurrentSet(driver).add_new([1]).all() and runtimes(driver)
            if how == "context":
                on[0] = False
            else:
                gateway.close()
            until(lambda driver=driver: not runtimes(driver) and not left(driver))  # type: ignore[misc]
            gateway.close()
        assert not driver.alive
