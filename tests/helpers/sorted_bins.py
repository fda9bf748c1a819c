"""The oracle of entities on Spark: bins in memory, without a store."""

from __future__ import annotations

from collections.abc import Iterable

from sharedstate_lite.entities import EntityBin
from sharedstate_lite.entities.bins import EntityMessage


class Sorted(EntityBin):
    """A bin that handles the messages of a round in the order of their requests."""

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of a round."""
        return super().handle(sorted(messages, key=lambda message: message.request))
