"""A bin, which is what runs in rounds, the recipe by which every Python worker builds it, and what runs the rounds.

Spark may run a bin in another worker in each round, and may run a round again. A bin is therefore in a state store
whenever no round runs. The *head* of a bin in the store is a JSON text with a token, which changes with each write. A
bin in memory is up to date if its token equals the one in the store (:mod:`.worker`).

If Spark loses the executor on which a task has finished, it runs the task again. The state on disk is then from the
first attempt, and the state in memory from the second one. Both must write the same, so a token is a hash of the token
before and of a salt that all tasks of a running query share.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...storage.arrangement import Arrangement
from .inbox import RoundKind
from .message import BinMessage, Heads, Store


@dataclass
class Recipe(ABC):
    """What a worker needs to build the bins of a query. It is pickled once, and is the same in all workers.

    ``generation`` names the state: bins in the memory of workers belong to it. Each stage has ``bins`` bins.
    """

    generation: str
    bins: int
    checked: bool = field(default=True, kw_only=True)
    """If false, a worker trusts its memory without comparing tokens. Tests and lessons use this to show the wrong
    answers that the token prevents."""
    use_rpc: bool = field(default=True, kw_only=True)
    """Whether a worker calls the worker that has a bin in memory. Otherwise, it reads the bin from the store."""
    salt: str = field(default_factory=lambda: secrets.token_hex(16), kw_only=True)
    """A random text of which tokens are made. Each start of the query has another one, because the batch in progress
    can have other rows then."""

    @property
    def numbers(self) -> int:
        """How many numbers the bins of a stage have, from 0. Each number is a bin; managed state also has slots."""
        return self.bins

    @abstractmethod
    def build(self, stage: int, number: int) -> Bin:
        """Return a new bin without state."""

    def close(self) -> None:  # noqa: B027
        """Drop what a task keeps in memory. Called when the task ends."""


@dataclass
class Bin(ABC):
    """The state of one bin of a stage, and what it does with messages."""

    recipe: Any
    """The `Recipe` that has built the bin."""
    stage: int
    number: int
    token: str = ""
    found: str = "new"
    """How much of the bin the process had in memory before the last round: "new" (the store had no state of the bin),
    "used" (in memory, and the store's token confirmed it), "stale" (in memory, but another process has written since)
    or "missing" (not in memory)."""
    port: int = 0
    """The port on which other workers can reach this process, or 0 if they cannot."""
    changed: bool = True
    """Whether the last call of `step` may have changed the state. If not, nothing is written."""

    @abstractmethod
    def step(self, messages: list[BinMessage]) -> list[BinMessage]:
        """Process the messages of one round, which come in any order, and return those that the bin sends.

        An error of the kit undoes the round in all bins, and the driver raises it.
        """

    @abstractmethod
    def save(self, store: Store) -> None:
        """Write the state after `step`: new runs, and the text of `head`."""

    @abstractmethod
    def load(self, head: dict[str, Any], store: Store) -> None:
        """Replace the state by the one in the store, whose decoded head is ``head``."""

    def head(self, **state: Any) -> str:
        """Return the text of a head with this token, and with ``state``, which must be values for JSON."""
        return json.dumps({"token": self.token, "port": self.port, **state})

    def renew_token(self) -> None:
        """Replace the token by the next one. Every attempt of a round makes the same."""
        self.token = sha256(f"{self.recipe.salt} {self.token}".encode()).hexdigest()[:16]

    def arrangements(self) -> Iterable[Arrangement]:
        """Return the arrangements of the bin, which use the worker's string dictionary (:mod:`.strings`)."""
        return ()


class Rounds(ABC):
    """What runs the rounds of a driver: a `Query` on Spark, or `LocalRounds` in this process."""

    @abstractmethod
    def run(
        self, messages: Iterable[BinMessage] | Path, kind: RoundKind, epoch: int, about: dict[str, Any] | None = None
    ) -> list[BinMessage]:
        """Run one round, and return its messages to the driver, and those to bins of the same or an earlier stage.

        ``about``, of values for JSON, is logged with the round. Raises the error of a bin, and then the round has
        changed nothing.
        """

    def settle(
        self,
        messages: list[BinMessage] | Path,
        kind: RoundKind,
        epoch: int,
        take: Callable[[list[BinMessage]], list[BinMessage] | Path],
        about: dict[str, Any] | None = None,
    ) -> None:
        """Run a round, and further rounds until no message is left to deliver.

        ``take`` uses what a round has sent, and returns the messages of the next round.
        """
        while True:
            messages = take(self.run(messages, kind, epoch, about))
            if not messages:
                return
            kind, about = RoundKind.ROUND, None

    def raise_interrupt(self) -> None:  # noqa: B027
        """Raise the exception that interrupted this thread, if the round was committed nevertheless."""

    @abstractmethod
    def heads(self) -> Heads:
        """Return the decoded heads of all bins after the last round."""

    @abstractmethod
    def blobs(self, stage: int, parts: Collection[str]) -> Mapping[str, list[bytes]]:
        """Return the runs of some parts of a stage's state, from all bins, after the last round."""
