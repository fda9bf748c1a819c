"""An event loop on each host, which runs the coroutines of all tasks on that host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

from ...errors import Error, is_integer
from .driver import SparkLike, driver
from .functions import FunctionHandle, pickled

Function = Callable[..., Coroutine[Any, Any, Any]]


class AsyncRuntime(FunctionHandle):
    """Runs the coroutines of all tasks on a host, with at most ``in_flight`` calls at the same time.

    - ``setup`` is a function, plain or ``async``, whose result all calls on the host share, such as
      ``aiohttp.ClientSession``. The runtime calls it before the first call, and closes the result with the handle.
    - ``timeout`` is the maximum number of seconds for one call. A call that takes longer is cancelled and fails.
    - ``retries`` is how often a call that has failed is repeated. The waits before that double, from 0.1 s up to 10 s,
      and other calls run in the meantime. A call can fail after it has changed something: repeat it only if the
      service accepts that.
    - ``rate`` is the maximum number of calls per second on a host, at equal intervals. Retries count as calls.
    - With ``return_exceptions``, a call that fails does not fail its batch. Its row has NULLs, and the column ``error``
      contains the message. In the other rows, this column is NULL.

    If the runtime is killed, pending calls are not repeated: `map` raises Lost. Raises Error for an invalid value.
    """

    kind = "AsyncRuntime"
    _has_setup: bool

    def __init__(
        self,
        spark: SparkLike = None,
        in_flight: int = 16,
        *,
        setup: Callable[[], Any] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        rate: float | None = None,
        return_exceptions: bool = False,
    ) -> None:
        if not is_integer(in_flight) or in_flight < 1:
            raise Error(f"AsyncRuntime: in_flight={in_flight!r} is not valid. Pass an integer of at least 1.")
        if not is_integer(retries) or retries < 0:
            raise Error(f"AsyncRuntime: retries={retries!r} is not valid. Pass an integer of at least 0.")
        for name, value, what in (("timeout", timeout, "seconds"), ("rate", rate, "calls per second")):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                why = f"{name}={value!r} is not valid. Pass a positive number of {what}, or None for no limit."
                raise Error(f"AsyncRuntime: {why}")
        options = {
            "in_flight": int(in_flight),
            "setup": None if setup is None else pickled("AsyncRuntime", setup, "setup", 2).hex(),
            "timeout": timeout,
            "retries": int(retries),
            "rate": rate,
            "return_exceptions": bool(return_exceptions),
        }
        found = driver(spark)
        self._has_setup = setup is not None
        super().__init__(found, found.register(self.kind, options))

    def map(self, coroutine: Function, batch: Any, schema: pa.Schema | None = None) -> Any:
        """Call ``coroutine(row)`` for each row of ``batch``. Return one row for each, in order.

        ``coroutine`` is an ``async def`` function that takes a row as a dict and returns a dict. With ``setup``, the
        call is ``coroutine(row, shared)``, where ``shared`` is the result of ``setup``. The function runs in the
        runtime, and the values that it captures are sent with it. These can be immutable values and handles such as a
        ConnectionPool, which it can query with ``await pool.fetch(sql, parameters)``.

        If ``batch`` is a pandas DataFrame, the result is one too, with the same index; otherwise it is an Arrow table.
        It has the columns of ``schema`` or, if ``schema`` is None, the columns of the results. Missing values are NULL.
        Raises Error if the function captures mutable values, if a call raises an exception, or if a result has a column
        that is not in the schema. Raises Lost if the runtime exits before it answers.
        """
        call = f"{self._name}.map"
        if not inspect.iscoroutinefunction(coroutine):
            raise Error(f"{call}: {coroutine!r} is not a coroutine function. Define it with async def.")
        given = ("row", "shared") if self._has_setup else ("row",)
        try:
            inspect.signature(coroutine).bind(*given)
        except TypeError as error:
            raise Error(
                f"{call}: the coroutine cannot be called with ({', '.join(given)}): {error}. "
                "Without setup=, a coroutine takes (row); with setup=, it takes (row, shared)."
            ) from None
        return self._map(coroutine, batch, schema)

    def _attributes(self) -> dict[str, Any]:
        return {"_has_setup": self._has_setup}
