"""What an order's attempts amount to: OK, FAIL or INDETERMINATE; NONE where there was no attempt.

OK if any attempt was answered 2xx. FAIL if every attempt got a definite 4xx or was never written to a socket.
INDETERMINATE otherwise. A 4xx on a retry does not settle an earlier attempt that promised nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..terms import NEVER_WRITTEN

NONE, FAIL, INDETERMINATE, OK = 0, 1, 2, 3


def outcomes(orders: int, subject: NDArray[Any], status: NDArray[Any]) -> NDArray[np.int8]:
    """The outcome of each of so many orders, from its attempts: int8[orders].

    Subject -1 is a checkout of no order of ours, such as the contract's of an unknown one.
    """
    subject, status = subject[subject >= 0], status[subject >= 0]
    kind = np.full(len(status), INDETERMINATE, dtype=np.int8)
    kind[(status >= 200) & (status < 300)] = OK
    kind[(status >= 400) & (status < 500)] = FAIL
    kind[np.isin(status, NEVER_WRITTEN)] = FAIL
    result = np.full(orders, NONE, dtype=np.int8)
    np.maximum.at(result, subject, kind)
    return result
