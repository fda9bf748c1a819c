"""Full, shared and partial state, to look at in one process and to scale on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .catalog import Catalog
from .changes import Changes
from .checkpoint import restore
from .engine import Engine
from .errors import CheckpointError, Error, RelationError, RowError, SqlError, TimeError, ViewError
from .full import Full
from .partial import Partial
from .plan import View
from .shared import Shared


def engine(kind: str, views: Sequence[View], **options: Any) -> Engine:
    """A new engine."""
    kinds: dict[str, type[Engine]] = {"full": Full, "shared": Shared, "partial": Partial}
    if kind not in kinds:
        raise ViewError(f"engine {kind!r}: the kinds of state are {', '.join(kinds)}")
    return kinds[kind](views, **options)
