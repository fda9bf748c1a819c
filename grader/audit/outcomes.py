"""The outcome of an order over all its attempts: OK, FAIL, INDETERMINATE or, if there was no attempt, NONE.

OK: at least one attempt was answered 2xx. FAIL: every attempt was either answered 4xx or never written to a socket.
INDETERMINATE: everything else. A 4xx on a retry does not settle an earlier attempt that got no answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..terms import denied, done

NONE, FAIL, INDETERMINATE, OK = 0, 1, 2, 3


def outcomes(orders: int, subject: NDArray[Any], status: NDArray[Any]) -> NDArray[np.int8]:
    """Return the outcome of each order, int8[orders], given the order (``subject``) and the status of every attempt.

    Subject -1 marks a checkout of an unknown order, as in the contract phase. Such attempts are ignored.
    """
    subject, status = subject[subject >= 0], status[subject >= 0]
    kind = np.full(len(status), INDETERMINATE, dtype=np.int8)
    kind[done(status)] = OK
    kind[denied(status)] = FAIL
    result = np.full(orders, NONE, dtype=np.int8)
    np.maximum.at(result, subject, kind)
    return result
