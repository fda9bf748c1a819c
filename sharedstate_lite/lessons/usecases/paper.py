"""The results of the paper, for comparison with ours.

Renoir is compiled Rust, its tasks are threads of one process, and its baselines are Renoir programs without sharing.
Our tasks are Python processes and share through a socket, so factors may differ for reasons other than sharing.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024, and its raw results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ...errors import Error


@dataclass(frozen=True)
class Figure:
    """``times`` as fast with sharing as without; None if the paper gives no factor."""

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
    """The paper's factors of a use case (1 to 6), by measurement and place. Raises Error for another case."""
    if not any(figure.case == case for figure in FIGURES):
        raise Error(f"use case {case}: the paper has 1 to {max(figure.case for figure in FIGURES)}.")
    return {f"{one.what}; {one.where}": one.times for one in FIGURES if one.case == case and one.times is not None}


def beside(case: int, ours: Mapping[str, float]) -> pd.DataFrame:
    """The paper's figures of a use case, followed by ours. Raises Error for another case."""
    times(case)
    rows = [(one.what, one.where, one.times) for one in FIGURES if one.case == case]
    rows += [(what, "here", factor) for what, factor in ours.items()]
    return pd.DataFrame(rows, columns=["what", "where", "times as fast"])
