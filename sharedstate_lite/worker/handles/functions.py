"""Sends users' functions to the runtime. A function is checked, pickled by cloudpickle, and sent once."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import pyarrow as pa

from ...errors import Error
from . import captures, unsafe
from .batches import as_table, like
from .handle import SharedHandle


def pickled(call: str, function: Any, name: str, position: int) -> bytes:
    """Return a function in pickled form. Raises Error if it is not a function, or if it captures mutable values.

    ``call`` is the function that the user has called, and ``name`` and ``position`` identify the argument in that call.
    """
    # Functions of all kinds and classes have a name; other callable objects, such as a connection of sqlite3, do not.
    if not callable(function) or not hasattr(function, "__name__") and not isinstance(function, functools.partial):
        why = ": pass a function that makes one, and the runtime will call it"
        raise unsafe.error(call, function, unsafe.argument_text(call, name, position), why)
    captures.check(call, function)
    return _code(call, function)


def _code(call: str, function: Any) -> bytes:
    from pyspark import cloudpickle

    try:
        code: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    except Exception as error:  # a value's own code can run
        raise Error(
            f"{call}: the function cannot be sent to the runtime ({error}). "
            "If it comes from a library, wrap it in a function of your own, such as lambda: library.connect()."
        ) from error
    return code


class FunctionHandle(SharedHandle):
    """A handle that calls users' functions in the runtime."""

    def _map(self, function: Any, batch: Any, schema: pa.Schema | None) -> Any:
        """Have the runtime call a function for each row of a batch. Return the results in the kind of the batch."""
        call = f"{self._name}.map"
        table = as_table(call, batch)
        if len(set(table.column_names)) < len(table.column_names):
            raise Error(f"{call}: two of the columns {table.column_names} have the same name. Rename one.")
        if schema is not None and not isinstance(schema, pa.Schema):
            raise Error(f"{call}: schema is a {type(schema).__qualname__}. Pass a pa.schema([...]).")
        captures.check(call, function)
        code = _code(call, function)
        digest = hashlib.sha256(code).hexdigest()
        written = schema.serialize().to_pybytes().hex() if schema is not None else ""
        head = {"op": "map", "digest": digest, "schema": written}
        while True:
            said, answer, _ = self._request(head, table, retry=False)
            if not said.get("unknown"):
                assert answer is not None
                return like(answer, batch, one_each=True)
            self._request({"op": "function", "digest": digest}, pa.table({"code": pa.array([code], pa.large_binary())}))
