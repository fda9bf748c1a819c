"""A graph in compressed sparse row (CSR) format.

The edges of node v lead to the nodes ``indices[indptr[v]:indptr[v + 1]]``. If the edges have weights, these are in the
same slice of ``weights``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error
from . import unsafe

METADATA = {b"sharedstate_lite": b"csr"}
"""The schema metadata of a table that contains a graph."""


@dataclasses.dataclass(frozen=True, eq=False)
class CSR:
    """A graph, which consists of three NumPy arrays.

    ``indptr`` contains integers and has the shape (nodes + 1). ``indices`` contains integers and has the shape (edges).
    ``weights`` contains integers or floats and has the shape (edges), or it is None. Raises Error if an array has
    another type, or if the arrays do not fit together.
    """

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        pointers, targets = self.indptr, self.indices
        _check("indptr", pointers, "integers", "iu")
        _check("indices", targets, "integers", "iu")
        if self.weights is not None:
            _check("weights", self.weights, "numbers", "iuf")
        if pointers.ndim != 1 or targets.ndim != 1 or not len(pointers) or pointers[0] != 0:
            raise Error("CSR: indptr and indices must have one dimension, and indptr must start with 0.")
        if pointers[-1] != len(targets) or np.any(pointers[1:] < pointers[:-1]):
            raise Error(
                "CSR: the values of indptr must not decrease, and the last one must be the number of edges "
                f"({len(targets)}), but it is {pointers[-1]}."
            )
        if len(targets) and not 0 <= targets.min() <= targets.max() < self.nodes:
            raise Error(f"CSR: an edge leads to a node outside 0..{self.nodes - 1}. Number the nodes from 0.")
        if self.weights is not None and self.weights.shape != targets.shape:
            raise Error(
                f"CSR: weights has the shape {self.weights.shape}, but there are {len(targets)} edges. "
                "Pass one weight for each edge."
            )

    @classmethod
    def from_edges(cls, source: Any, target: Any, nodes: int | None = None, weights: Any = None) -> CSR:
        """Return the graph with the edges ``source[i] -> target[i]``, sorted by source.

        The nodes are numbered from 0. ``nodes`` is the number of nodes; the default is the highest node number plus 1.
        Raises Error if a value is invalid, or if there is not enough memory for that many nodes.

        >>> CSR.from_edges([0, 0, 2], [1, 2, 0]).neighbours(0)
        array([1, 2], dtype=int32)
        """
        start, end = _whole("source", source), _whole("target", target)
        if start.shape != end.shape or start.ndim != 1:
            raise Error(
                f"CSR.from_edges: source has the shape {start.shape} and target the shape {end.shape}. "
                "Pass one source and one target for each edge."
            )
        if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 0):
            raise Error(f"CSR.from_edges: nodes={nodes!r} is not valid. Pass an integer of at least 0.")
        count = int(max(start.max(initial=-1), end.max(initial=-1))) + 1 if nodes is None else int(nodes)
        for what, ends in (("source", start), ("target", end)):
            if len(ends) and (ends.min() < 0 or ends.max() >= count):
                raise Error(f"CSR.from_edges: a {what} is outside 0..{count - 1}. Number the nodes from 0.")
        given = None if weights is None else np.asarray(weights)
        if given is not None and given.shape != start.shape:
            raise Error(
                f"CSR.from_edges: weights has the shape {given.shape}, but there are {len(start)} edges. "
                "Pass one weight for each edge."
            )
        try:
            indptr = np.zeros(count + 1, np.int64)
            np.cumsum(np.bincount(start, minlength=count), out=indptr[1:])
        except (MemoryError, ValueError):
            raise Error(
                f"CSR.from_edges: {count} nodes do not fit in memory. Number the nodes from 0 without gaps."
            ) from None
        order = np.argsort(start, kind="stable")
        small = np.int32 if count <= np.iinfo(np.int32).max else np.int64
        return cls(indptr, end[order].astype(small), None if given is None else given[order])

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.indptr) - 1

    @property
    def edges(self) -> int:
        """The number of edges."""
        return len(self.indices)

    def neighbours(self, node: int) -> npt.NDArray[Any]:
        """Return the nodes to which the edges of ``node`` lead, as a view."""
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def table(self) -> pa.Table:
        """Return the graph as a table with one row, and one list column for each array."""
        arrays = {"indptr": self.indptr, "indices": self.indices, "weights": self.weights}
        columns = {}
        for name, array in arrays.items():
            if array is not None:
                values = pa.array(np.ascontiguousarray(array))
                columns[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
        return pa.table(columns).replace_schema_metadata(METADATA)

    @classmethod
    def of(cls, table: pa.Table) -> CSR:
        """Return the graph from a table that :meth:`table` created. Its arrays are views of the table's memory."""
        arrays: dict[str, Any] = {}
        for name in table.column_names:
            # combine_chunks() would copy the data.
            chunk: Any = table.column(name).chunk(0)
            arrays[name] = chunk.values.to_numpy(zero_copy_only=True)
        # The graph was checked when it was created. Checking it again would read all of the shared memory.
        out = object.__new__(cls)
        for name in ("indptr", "indices", "weights"):
            object.__setattr__(out, name, arrays.get(name))
        return out


def _check(name: str, array: Any, of: str, kinds: str) -> None:
    """Raise Error unless ``array`` is a NumPy array of one of these kinds, in native byte order, of at most 64 bits."""
    there = isinstance(array, np.ndarray)
    if not there or array.dtype.kind not in kinds or not array.dtype.isnative or array.dtype.itemsize > 8:
        what = f"numpy array of {array.dtype}" if there else unsafe.type_name(array)
        kind = "int64" if kinds == "iu" else "float64"
        raise Error(f"CSR: {name} is a {what}. Pass a numpy array of {of}, such as np.asarray({name}, np.{kind}).")


def _whole(name: str, values: Any) -> npt.NDArray[np.int64]:
    """Return node numbers as int64. Raises Error for values that are not integers, or that do not fit in int64."""
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.int64)
    # A pandas Int64 column becomes an object array of ints.
    integers = array.dtype.kind in "iu" or all(isinstance(one, int) for one in array.flat)
    if not integers or not np.iinfo(np.int64).min <= array.min() <= array.max() <= np.iinfo(np.int64).max:
        raise Error(
            f"CSR.from_edges: {name} has the type {array.dtype}. Number the nodes with integers that fit in np.int64."
        )
    return array.astype(np.int64)
