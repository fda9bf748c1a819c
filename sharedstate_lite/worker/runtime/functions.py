"""Users' functions in the runtime: unpickles them, and makes a table of what their calls return."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pyarrow as pa

from ...errors import Error
from .resource import Head


class FunctionRegistry:
    """The functions that tasks have sent to a resource, by digest. ``name`` is the name of the resource."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._functions: dict[str, Any] = {}

    async def add(self, digest: str, table: pa.Table) -> None:
        """Unpickle a function and keep it."""
        self._functions[digest] = await asyncio.to_thread(unpickled, self._name, table.column("code")[0].as_py())

    def find(self, head: Head) -> Any:
        """Return the function that a request names, or None if it has not been sent yet."""
        return self._functions.get(head["digest"])


def unpickled(name: str, code: bytes) -> Any:
    """Return a pickled function. Raises Error if the runtime cannot import what it needs."""
    try:
        return pickle.loads(code)
    except Exception as error:  # unpickling imports users' modules
        raise Error(
            f"{name}: the runtime cannot unpickle the function ({type(error).__name__}: {error}). "
            "The modules that it imports must be on sys.path when the runtime starts."
        ) from error


def result_table(name: str, results: list[Any], head: Head) -> pa.Table:
    """Return the results of the calls as a table with one row for each, and with the schema of the request if any."""
    for position, result in enumerate(results):
        if not isinstance(result, dict):
            raise Error(
                f"{name}: row {position}: the function returned a {type(result).__qualname__}. "
                "Return a dict that maps column names to values."
            )
    try:
        # from_pylist() uses only the columns of the schema or of the first row, and drops all others.
        names = dict.fromkeys(name for result in results for name in result)
        if head["schema"]:
            schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(head["schema"])))
            if odd := [name for name in names if name not in schema.names]:
                raise Error(
                    f"{name}: the results have a column {odd[0]!r} that is not in the schema. Add it to the schema."
                )
            return pa.Table.from_pylist(results, schema)
        return pa.table({name: [result.get(name) for result in results] for name in names})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Error(f"{name}: the results cannot be converted to a table ({error}). Pass a schema to map().") from None
