"""A graph as compressed sparse rows: whom each node points to, in two arrays.

The edges of node v are ``indices[indptr[v]:indptr[v + 1]]``, and their weights, where
it has any, the same piece of ``weights``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import Error

MARK = {b"sharedstate_lite": b"csr"}
"""In the metadata of a table that holds one."""


@dataclasses.dataclass(frozen=True, eq=False)
class CSR:
    """``indptr`` int64 (nodes + 1), ``indices`` int32 or int64 (edges), ``weights`` of any number type, or None.

    Raises Error where the three do not fit together.
    """

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        pointers, targets = self.indptr, self.indices
        if pointers.ndim != 1 or targets.ndim != 1 or not len(pointers) or pointers[0] != 0:
            raise Error("CSR: indptr and indices are arrays of one dimension, and indptr begins with 0")
        if pointers[-1] != len(targets) or np.any(np.diff(pointers) < 0):
            raise Error(f"CSR: indptr rises to the number of edges, {len(targets)}; it ends with {pointers[-1]}")
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.nodes:
            raise Error(f"CSR: an edge leads to a node outside 0..{self.nodes - 1}; number the nodes from 0")
        if self.weights is not None and self.weights.shape != targets.shape:
            raise Error(f"CSR: {len(targets)} edges have {self.weights.shape} weights; give one for each")

    @classmethod
    def from_edges(cls, source: Any, target: Any, nodes: int | None = None, weights: Any = None) -> CSR:
        """The graph of the edges ``source[i] -> target[i]``; nodes are numbered from 0, and ``nodes`` of them."""
        start, end = np.asarray(source, np.int64), np.asarray(target, np.int64)
        if start.shape != end.shape or start.ndim != 1:
            raise Error(f"CSR.from_edges: {start.shape} sources and {end.shape} targets; give one of each an edge")
        count = int(max(start.max(initial=-1), end.max(initial=-1))) + 1 if nodes is None else nodes
        if len(start) and (start.min() < 0 or start.max() >= count):
            raise Error(f"CSR.from_edges: a source outside 0..{count - 1}; number the nodes from 0")
        order = np.argsort(start, kind="stable")
        indptr = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(start, minlength=count), out=indptr[1:])
        small = np.int32 if count <= np.iinfo(np.int32).max else np.int64
        return cls(indptr, end[order].astype(small), None if weights is None else np.asarray(weights)[order])

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """How many edges."""
        return len(self.indices)

    def out_degrees(self) -> npt.NDArray[np.int64]:
        """The number of edges from each node."""
        return np.diff(self.indptr)

    def neighbours(self, node: int) -> npt.NDArray[Any]:
        """Where the edges of a node lead; a view, no copy."""
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def table(self) -> pa.Table:
        """The arrays as a table of one row."""
        arrays = {"indptr": self.indptr, "indices": self.indices, "weights": self.weights}
        columns = {}
        for name, array in arrays.items():
            if array is not None:
                values = pa.array(np.ascontiguousarray(array))
                columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        return pa.table(columns).replace_schema_metadata(MARK)

    @classmethod
    def of(cls, table: pa.Table) -> CSR:
        """The graph that a table of :meth:`table` holds; its arrays are views of the table's memory."""
        arrays: dict[str, Any] = {}
        for name in table.column_names:
            # One chunk, and not combined: that would copy it.
            whole: Any = table.column(name).chunk(0)
            arrays[name] = whole.values.to_numpy(zero_copy_only=True)
        # It was checked when it was made, and reading all of it here would map all of it.
        out = object.__new__(cls)
        for name in ("indptr", "indices", "weights"):
            object.__setattr__(out, name, arrays.get(name))
        return out
