"""An Arrow table or CSR graph in sealed shared memory, which every task on a host maps read-only."""

from __future__ import annotations

import io
import mmap
import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from ...errors import Error
from ..runtime import host
from . import unsafe
from .csr import CSR, METADATA
from .driver import DriverServer, SparkLike, driver
from .handle import SharedHandle

_mapped: WeakValueDictionary[tuple[str, str], pa.Table] = WeakValueDictionary()
"""The tables that this process has mapped and is still using, by application name and handle name."""


class Immutable(SharedHandle):
    """A shared table or graph, which :func:`share` creates.

    ``rows`` is its number of rows, which is 1 for a graph. ``nbytes`` is its size in bytes.
    """

    kind = "Immutable"
    rows: int
    nbytes: int

    def __init__(self, driver: DriverServer, table: pa.Table) -> None:
        file = host.memory_file(driver.application.name)
        try:
            with os.fdopen(os.dup(file), "wb") as out:
                _write(table, out)
            host.seal(file)
        except BaseException:
            os.close(file)
            raise
        self.rows, self.nbytes = table.num_rows, os.fstat(file).st_size
        super().__init__(driver, driver.register(self.kind, {"size": self.nbytes}, file))

    def table(self) -> pa.Table:
        """Return the table. Its buffers are in the shared memory, which is mapped read-only until the table is freed.

        Raises Error if the handle is closed or its driver has exited. Tables that are already mapped stay valid.
        """
        key = (self._application.name, self._name)
        found = _mapped.get(key)
        if found is None:
            head, _, file = self._request({"op": "map"})
            assert file is not None
            try:
                memory = mmap.mmap(file, int(head["size"]), prot=mmap.PROT_READ)
            finally:
                os.close(file)
            with pa.ipc.open_file(pa.py_buffer(memory)) as reader:
                found = _mapped[key] = reader.read_all()
        return found

    def csr(self) -> CSR:
        """Return the graph. Its arrays are read-only views of the shared memory. Raises Error if it is not a graph."""
        table = self.table()
        if not (table.schema.metadata or {}).items() >= METADATA.items():
            raise Error(
                f"{self!r}: it is a table ({', '.join(table.column_names)}), not a graph. Read it with .table()."
            )
        return CSR.of(table)

    def close(self) -> None:
        """Close the handle on every host, so that later requests raise Error.

        A second call does nothing. Raises Error in a task.
        """
        super().close()
        _mapped.pop((self._application.name, self._name), None)

    def _attributes(self) -> dict[str, Any]:
        return {"rows": self.rows, "nbytes": self.nbytes}


def share(what: Any, spark: SparkLike = None) -> Immutable:
    """Share an Arrow table, a record batch, a :class:`CSR` or a SciPy sparse matrix with the tasks of ``spark``.

    The data is copied once into memory, which is then sealed, so later changes to ``what`` have no effect. ``spark`` is
    a session; the default is the active one. Raises Error for any other value. The message contains the expression, its
    type, and two ways to share it.
    """
    if isinstance(what, pa.RecordBatch):
        what = pa.Table.from_batches([what])
    elif not isinstance(what, pa.Table | CSR) and type(what).__module__.startswith("scipy.sparse"):
        matrix = what.tocsr()
        weights = matrix.data.astype(np.int8) if matrix.data.dtype == bool else matrix.data
        what = CSR(np.asarray(matrix.indptr, np.int64), matrix.indices, weights)
    if isinstance(what, CSR):
        what = what.table()
    if not isinstance(what, pa.Table):
        raise unsafe.error("share", what, unsafe.argument_text("share", "what"))
    return Immutable(driver(spark), what)


def _write(table: pa.Table, out: io.IOBase) -> None:
    # An IPC file has one dictionary per column, but each chunk of a table can have its own dictionary.
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)
