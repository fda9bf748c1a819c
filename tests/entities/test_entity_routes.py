"""Routes: which request leads where, and which routes are refused."""

from __future__ import annotations

from typing import Any

import pytest
from carriers import cell

from sharedstate_lite.entities import EntityError, Program
from sharedstate_lite.entities.routes import MOST, MOST_MANY, HttpError, Routes

SHOP = """
from __future__ import annotations
import random
@entity
class User:
    def __init__(self, name: str):
        self.name = name
    def __key__(self):
        return self.name
@entity
class Order:
    def __init__(self, order_id: str, user: User, n: int = 1):
        self.order_id, self.user, self.n = order_id, user, n
    def __key__(self):
        return self.order_id
    def add(self, user: User, n: int, why: str = ""):
        self.n += n
    def free(self, by):
        return by
    def rate(self, by: float):
        self.n = int(self.n * by)
    def find(self):
        return self.n
def drawn(i, n):
    return str(i), User[str(random.randrange(n))]
def numbered(i, n):
    return str(i), User[str(i % n)]
class Other:
    def add(self):
        pass
"""
SCOPE: dict[str, Any] = cell(SHOP)
Order, User, new, many = (SCOPE[name] for name in ("Order", "User", "new", "many"))


def routes(all: dict[str, Any]) -> Routes:
    """The routes of a program."""
    return Routes(Program(User, Order, routes=all))


WHY = "POST /orders/add/{order}/{user}/{n:int}/{why}"
ALL = {
    "POST /orders/create/{user}": new(Order, "order_id"),
    "POST /orders/create/{user}/{n:int}": new(Order, "order_id"),
    "POST /orders/add/{order}/{user}/{n:int}": Order.add,
    WHY: Order.add,
    "GET /orders/{order}": Order.find,
    "POST /many/{n:int}/{k:int}": many("k", Order, SCOPE["numbered"]),
}


@pytest.mark.parametrize(
    ("request_line", "pattern", "args"),
    [
        ("POST /orders/create/ann", "POST /orders/create/{user}", ["ann"]),
        ("POST /orders/create/ann/0", "POST /orders/create/{user}/{n:int}", ["ann", 0]),
        ("POST /orders/add/a%2Fb/%C3%A9/007?x=1", "POST /orders/add/{order}/{user}/{n:int}", ["a/b", "é", 7]),
        ("POST /orders/add/{order}/user:7/1/a+b", WHY, ["{order}", "user:7", 1, "a+b"]),
        (f"POST /orders/add/a/b/{MOST}", "POST /orders/add/{order}/{user}/{n:int}", ["a", "b", MOST]),
        ("GET /orders/" + "k" * 256, "GET /orders/{order}", ["k" * 256]),
        (f"POST /many/3/{MOST_MANY}", "POST /many/{n:int}/{k:int}", [3, MOST_MANY]),
    ],
)  # fmt: skip
def test_found(request_line: str, pattern: str, args: list[Any]) -> None:
    """The route, and its parts: numbers as numbers, keys without their percent signs, no query."""
    method, _, path = request_line.partition(" ")
    route, found = routes(ALL).find(method.encode(), path.encode())
    assert (route.pattern, found) == (pattern, args)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /orders/create/ann", 404),
        ("DELETE /orders/a", 404),
        ("POST /", 404),
        ("POST *", 404),
        ("POST /orders/create/ann/1/2", 404),
        ("GET /orders/a/", 404),
        ("GET /orders/", 400),
        ("GET /orders/" + "k" * 257, 400),
        ("GET /orders/%ff", 400),
        *[(f"POST /orders/create/ann/{n}", 400) for n in ("-1", "+1", "1.0", "²", "٣", "%31", "1_0", "", 2**53 + 1)],
        ("POST /orders/create/ann/" + "0" * 17, 400),
        (f"POST /many/3/{MOST_MANY + 1}", 400),
    ],
)  # fmt: skip
def test_not_found(request_line: str, status: int) -> None:
    """404: no such route. 400: what should be a number or a key is none."""
    method, _, path = request_line.partition(" ")
    with pytest.raises(HttpError) as error:
        routes(ALL).find(method.encode(), path.encode())
    assert error.value.status == status


@pytest.mark.parametrize(
    ("pattern", "target", "says"),
    [
        ("PUT /a/{order}", Order.find, "a route is a method and a path, such as POST"),
        ("POST /a{order}", Order.find, "a route is a method and a path, such as POST"),
        ("POST /{order:str}", Order.find, "a route is a method and a path, such as POST"),
        ("GET /a/{user}", new(Order, "id"), "it creates entities, which a GET must not do; use POST"),
        ("POST /a", Order.find, "its first part is not a key such as {item}"),
        ("POST /{order:int}", Order.find, "its first part is not a key such as {item}"),
        ("POST /{order}", print, "its target is no method of the program"),
        ("POST /{order}/{by}", Order.free, "Order.free takes by: no type; use these names"),
        ("POST /{order}", SCOPE["Other"].add, "its target is no method of the program"),
        ("POST /{order}", Order.__init__, "its target is no method of the program"),
        ("POST /{order}/{user}", Order.add, "Order.add takes user: User, n: int, why: str; use these names"),
        ("POST /{order}/{n:int}/{user}", Order.add, "Order.add takes user: User, n: int, why: str; use these names"),
        ("POST /{order}/{user}/{n}", Order.add, "Order.add takes user: User, n: int, why: str; use these names"),
        ("POST /{order}/{x}", Order.find, "Order.find takes nothing; use these names"),
        ("POST /{order}/{by}", Order.rate, "Order.rate takes by: float; use these names"),
        ("POST /{user}/{order}", new(Order, "id"), "Order.__init__ takes user: User, n: int; use these names"),
        ("POST /{n:int}", many("k", Order, SCOPE["numbered"]), "many needs {k:int}, and a function with"),
        ("POST /{k}/{n:int}", many("k", Order, SCOPE["numbered"]), "many needs {k:int}, and a function with"),
        ("POST /{k:int}/{m:int}", many("k", Order, SCOPE["numbered"]), "many needs {k:int}, and a function with"),
        ("POST /{k:int}/{n:int}", many("k", Order, SCOPE["drawn"]), "its function uses random, which may differ"),
        ("POST /{k:int}", many("k", Order, lambda i: open(str(i))), "its function uses open, which may differ"),
    ],
)  # fmt: skip
def test_refused(pattern: str, target: Any, says: str) -> None:
    """EntityError with the route, what is wrong, and what to write."""
    with pytest.raises(EntityError, match="Route: ") as error:
        routes({pattern: target})
    assert f"{pattern}: " in str(error.value) and says in str(error.value)


def test_two_routes_in_one_place() -> None:
    """A word beside a part in braces, and the same path twice: which one a request means is not clear."""
    with pytest.raises(EntityError, match="one route has a word where another has a part in braces"):
        routes({"POST /a/{order}": Order.find, "POST /a/c/{order}": Order.find})
    with pytest.raises(EntityError, match=r"it has the same path as POST /a/\{order\}; change one"):
        routes({"POST /a/{order}": Order.find, "POST /a/{x}": Order.find})
