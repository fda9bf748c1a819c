"""An Arrow table or a CSR graph that every task of a host reads in one place."""

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
from .csr import CSR, MARK
from .driver import DriverServer, SparkLike, driver
from .handle import SharedHandle

_mapped: WeakValueDictionary[tuple[str, str], pa.Table] = WeakValueDictionary()
"""What this process has mapped, for as long as somebody uses it."""


class Immutable(SharedHandle):
    """A shared table or graph. ``rows`` and ``nbytes`` are its size; a graph's table has one row."""

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
        super().__init__(driver, driver.add(self.kind, {"size": self.nbytes}, file))

    def table(self) -> pa.Table:
        """The table; its buffers are the shared memory, mapped read-only, and are let go of with it.

        Raises Error where it is closed or its driver is gone; a process that has it mapped
        keeps it, and is not told.
        """
        key = (self._application.name, self._name)
        found = _mapped.get(key)
        if found is None:
            head, _, file = self._ask({"op": "map"})
            assert file is not None
            try:
                memory = mmap.mmap(file, int(head["size"]), prot=mmap.PROT_READ)
            finally:
                os.close(file)
            with pa.ipc.open_file(pa.py_buffer(memory)) as reader:
                found = _mapped[key] = reader.read_all()
        return found

    def csr(self) -> CSR:
        """The graph; its arrays are views of the shared memory, and cannot be written to.

        Raises Error where a table was shared.
        """
        table = self.table()
        if not _is_graph(table):
            raise Error(f"{self!r}: what was shared is a table ({', '.join(table.column_names)}); read it by .table()")
        return CSR.of(table)

    def close(self) -> None:
        """End it on every host; whoever asks for it afterwards gets an error. Harmless when repeated."""
        super().close()
        _mapped.pop((self._application.name, self._name), None)

    def _pickled_attributes(self) -> dict[str, Any]:
        return {"rows": self.rows, "nbytes": self.nbytes}


def share(what: Any, spark: SparkLike = None) -> Immutable:
    """Share an Arrow table, record batch or :class:`CSR` (or a scipy CSR matrix) with the tasks of ``spark``.

    It is copied once, into memory that is then sealed, so that later changes of ``what``
    are not seen. ``spark``: default the session that is active. Raises Error for
    anything else, naming the expression, its type, and both ways out.
    """
    if isinstance(what, pa.RecordBatch):
        what = pa.Table.from_batches([what])
    elif not isinstance(what, pa.Table | CSR) and type(what).__module__.startswith("scipy.sparse"):
        rows = what.tocsr()
        weights = rows.data.astype(np.int8) if rows.data.dtype == bool else rows.data
        what = CSR(np.asarray(rows.indptr, np.int64), rows.indices, weights)
    if isinstance(what, CSR):
        what = what.table()
    if not isinstance(what, pa.Table):
        raise unsafe.error("share", what, unsafe.argument_text("share", "what"))
    return Immutable(driver(spark), what)


def _write(table: pa.Table, out: io.IOBase) -> None:
    # A file has one dictionary for a column; pieces of a table may each have their own.
    options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)


def _is_graph(table: pa.Table) -> bool:
    return bool((table.schema.metadata or {}).items() >= MARK.items())
