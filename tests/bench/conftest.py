"""One session, and one server with products, for the ladders of sharing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from goods import CATEGORIES, PRODUCTS
from sparks import spark

from sharedstate_lite import postgres
from sharedstate_lite.data import products


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A server with products and their index."""
    with postgres.Server() as server:
        postgres.write(server, "product", products.table(PRODUCTS, categories=CATEGORIES), key=["id"])
        with server.connect() as connection:
            connection.execute("CREATE INDEX ON product (category, hits DESC, id)")
        yield server


__all__ = ["server", "spark"]
