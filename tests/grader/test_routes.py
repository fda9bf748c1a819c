"""Ids in the paths of requests."""

from __future__ import annotations

import numpy as np
import pytest

from grader.shop.routes import AGENTS, Routes, middle
from grader.terms import Kind


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("user:7", b"user:7"),
        ("YQ==", b"YQ=="),
        ("(a,b);c@d!$&'*+", b"(a,b);c@d!$&'*+"),
        ("0007", b"0007"),
        ("a/b", b"a%2Fb"),
        ("a b?c#d%", b"a%20b%3Fc%23d%25"),
        ("ü", b"%C3%BC"),
        (12, b"12"),
    ],
)
def test_an_id_is_written_as_common_clients_write_it(part: object, said: bytes) -> None:
    """Characters that a path may contain are not quoted, so a system with ids such as `user:7` need not decode."""
    assert middle(part) == said and middle(part, 1) == said + b"/1"


def test_requests_of_several_kinds_go_where_each_belongs() -> None:
    """One wave may have several kinds of requests, and each kind takes the forms of the clients in turn."""
    services = {"order": "http://127.0.0.1:1", "stock": "http://127.0.0.1:2/s/", "payment": "http://127.0.0.1:3"}
    routes = Routes(services)
    kinds = [Kind.CHECKOUT, Kind.ADD_FUNDS, Kind.ADD_STOCK, Kind.ADD_FUNDS, Kind.CHECKOUT] * len(AGENTS)
    shapes, place = routes.shapes(np.array(kinds, dtype=np.int64))
    paths = {Kind.CHECKOUT: (1, b"/checkout/"), Kind.ADD_FUNDS: (3, b"/add_funds/"), Kind.ADD_STOCK: (2, b"/s/add/")}
    for kind, at in zip(kinds, place, strict=True):
        port, path = paths[kind]
        assert (routes.targets[shapes[at].target].port, shapes[at].before) == (port, b"POST " + path)
    assert len(shapes) == 3 * len(AGENTS) == len(set(place.tolist()))
