"""The results that the paper reports, for comparison with our measurements.

Renoir is written in Rust and compiled, its tasks are threads in one process, and its baselines are Renoir programs
without sharing. Our tasks are Python processes that share state through a socket. The factors can therefore differ
for reasons other than sharing.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024, and its raw results.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Error


@dataclass(frozen=True)
class Figure:
    """One result of the paper for use case ``case``.

    ``times`` is how many times as fast the program is with sharing, or None if the paper does not report a factor.
    ``what`` is the measured program, and ``where`` is the system and the number of hosts.
    """

    case: int
    what: str
    where: str
    times: float | None


FIGURES = (
    Figure(1, "PageRank, shared graph", "Renoir, one host", 1.24),
    Figure(1, "PageRank, shared graph", "Renoir, four hosts", 3.16),
    Figure(1, "components, shared graph", "Renoir, one host", 2.09),
    Figure(2, "deduplication, shared set", "Renoir: faster, less memory, less network", None),
    Figure(3, "enrichment, shared pool", "Renoir, one host", 51.9),
    Figure(3, "enrichment, shared pool", "Renoir, four hosts", 18.2),
    Figure(4, "enrichment, asynchronous", "Renoir, up to", 2.0),
    Figure(5, "Grand Challenge, request-response", "Renoir: no broker needed", None),
    Figure(6, "enrichment, shared cache", "Renoir, up to", 10.0),
)


def times(case: int) -> dict[str, float]:
    """Return the paper's factors for a use case, by "program; system". Raises Error unless ``case`` is 1 to 6."""
    if not any(figure.case == case for figure in FIGURES):
        raise Error(f"there is no use case {case}. Pass a number from 1 to {max(figure.case for figure in FIGURES)}.")
    return {f"{one.what}; {one.where}": one.times for one in FIGURES if one.case == case and one.times is not None}
