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

from ...errors import Error
from . import unsafe

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
        _check("indptr", pointers, "whole numbers", "iu")
        _check("indices", targets, "whole numbers", "iu")
        if self.weights is not None:
            _check("weights", self.weights, "numbers", "iuf")
        if pointers.ndim != 1 or targets.ndim != 1 or not len(pointers) or pointers[0] != 0:
            raise Error("CSR: indptr and indices are arrays of one dimension, and indptr begins with 0")
        if pointers[-1] != len(targets) or np.any(pointers[1:] < pointers[:-1]):
            raise Error(f"CSR: indptr rises to the number of edges, {len(targets)}; it ends with {pointers[-1]}")
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.nodes:
            raise Error(f"CSR: an edge leads to a node outside 0..{self.nodes - 1}; number the nodes from 0")
        if self.weights is not None and self.weights.shape != targets.shape:
            raise Error(f"CSR: {len(targets)} edges have {self.weights.shape} weights; give one for each")

    @classmethod
    def from_edges(cls, source: Any, target: Any, nodes: int | None = None, weights: Any = None) -> CSR:
        """The graph of the edges ``source[i] -> target[i]``; nodes are numbered from 0, and ``nodes`` of them.

        Raises Error for what are no such numbers, so many that there is no memory for a node each included.
        """
        start, end = _whole("source", source), _whole("target", target)
        if start.shape != end.shape or start.ndim != 1:
            raise Error(f"CSR.from_edges: {start.shape} sources and {end.shape} targets; give one of each an edge")
        if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 0):
            raise Error(f"CSR.from_edges: nodes={nodes!r}: it is their number, from 0")
        count = int(max(start.max(initial=-1), end.max(initial=-1))) + 1 if nodes is None else int(nodes)
        for what, ends in (("source", start), ("target", end)):
            if len(ends) and (ends.min() < 0 or ends.max() >= count):
                raise Error(f"CSR.from_edges: a {what} outside 0..{count - 1}; number the nodes from 0")
        given = None if weights is None else np.asarray(weights)
        if given is not None and given.shape != start.shape:
            raise Error(f"CSR.from_edges: {len(start)} edges have {given.shape} weights; give one for each")
        try:
            indptr = np.zeros(count + 1, np.int64)
            np.cumsum(np.bincount(start, minlength=count), out=indptr[1:])
        except (MemoryError, ValueError):
            raise Error(
                f"CSR.from_edges: there is no memory for {count} nodes; number those there are from 0, without gaps"
            ) from None
        order = np.argsort(start, kind="stable")
        small = np.int32 if count <= np.iinfo(np.int32).max else np.int64
        return cls(indptr, end[order].astype(small), None if given is None else given[order])

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


def _check(name: str, array: Any, of: str, kinds: str) -> None:
    """Raise Error for what is no array of such numbers, as this machine computes with and Arrow knows."""
    there = isinstance(array, np.ndarray)
    if not there or array.dtype.kind not in kinds or not array.dtype.isnative or array.dtype.itemsize > 8:
        what = f"numpy array of {array.dtype}" if there else unsafe.type_name(array)
        raise Error(f"CSR: {name} is a {what}; give a numpy array of {of}, such as np.asarray({name}, '{kinds[-1]}8')")


def _whole(name: str, values: Any) -> npt.NDArray[np.int64]:
    """Numbers of nodes. Raises Error for what would have to be cut to be some."""
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.int64)
    # To Python a column of pandas' own Int64 has whole numbers too.
    whole = array.dtype.kind in "iu" or all(isinstance(one, int) for one in array.flat)
    if not whole or not np.iinfo(np.int64).min <= array.min() <= array.max() <= np.iinfo(np.int64).max:
        raise Error(f"CSR.from_edges: {name} has {array.dtype}; nodes are whole numbers, as np.int64 has them")
    return array.astype(np.int64)
