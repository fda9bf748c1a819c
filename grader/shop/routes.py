"""Builds requests as bytes: the service, method and path of each kind.

The requests imitate several common clients in turn, so that a system cannot tell audit reads from load.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import quote, urlsplit

import numpy as np

from ..errors import UsageError
from ..terms import Kind
from ..wire.jobs import Longs, Shape, Target

ROUTES: dict[Kind, tuple[str, str, str]] = {
    Kind.CHECKOUT: ("order", "POST", "/checkout/"),
    Kind.CREATE_ORDER: ("order", "POST", "/create/"),
    Kind.ADD_ITEM: ("order", "POST", "/addItem/"),
    Kind.FIND_ORDER: ("order", "GET", "/find/"),
    Kind.CREATE_USER: ("payment", "POST", "/create_user"),
    Kind.ADD_FUNDS: ("payment", "POST", "/add_funds/"),
    Kind.FIND_USER: ("payment", "GET", "/find_user/"),
    Kind.CREATE_ITEM: ("stock", "POST", "/item/create/"),
    Kind.ADD_STOCK: ("stock", "POST", "/add/"),
    Kind.FIND_ITEM: ("stock", "GET", "/find/"),
    Kind.PAY: ("payment", "POST", "/pay/"),
    Kind.SUBTRACT: ("stock", "POST", "/subtract/"),
    Kind.BATCH_ORDERS: ("order", "POST", "/batch_init/"),
    Kind.BATCH_USERS: ("payment", "POST", "/batch_init/"),
    Kind.BATCH_ITEMS: ("stock", "POST", "/batch_init/"),
}
_PLAIN = "!$&'()*+,;=:@"
"""The characters other than letters, digits and `-._~` that a path segment can contain unquoted (RFC 3986, 3.3). Common
clients do not quote them, and a system with ids such as `user:7` may not decode paths."""
AGENTS = ("python-requests/2.32.3", "curl/8.5.0", "okhttp/4.12.0", "Apache-HttpClient/5.3.1 (Java/17)")


def middle(*parts: object) -> bytes:
    """Quote ids and numbers and join them to form the last part of a path."""
    return "/".join(quote(str(part), safe=_PLAIN) for part in parts).encode()


class Routes:
    """The addresses of the services and the forms of all requests."""

    def __init__(self, urls: dict[str, str], allow_remote: bool = False) -> None:
        """Raises UsageError if a URL is not an http:// address, or is remote although ``allow_remote`` is false."""
        self.targets: list[Target] = []
        self._shapes: dict[Kind, list[Shape]] = {}
        places: dict[tuple[str, int], int] = {}
        for kind, (service, method, path) in ROUTES.items():
            parts = urlsplit(urls[service])
            where = _address(urls[service], allow_remote)
            if where not in places:
                places[where] = len(self.targets)
                self.targets.append(Target(*where))
            before = f"{method} {parts.path.rstrip('/')}{path}".encode()
            length = "Content-Length: 0\r\n" if method == "POST" else ""
            self._shapes[kind] = [
                Shape(
                    places[where],
                    before,
                    f" HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n{length}\r\n".encode(),
                )
                for agent in AGENTS
            ]

    def shapes(self, kinds: Longs) -> tuple[list[Shape], Longs]:
        """Return the forms that requests of these kinds need, and the index of each request's form."""
        forms: list[Shape] = []
        place = np.arange(len(kinds), dtype=np.int64)
        for kind in np.unique(kinds):
            mine = kinds == kind
            place[mine] = place[mine] % len(AGENTS) + len(forms)
            forms += self._shapes[Kind(kind)]
        return forms, place


def _address(url: str, allow_remote: bool) -> tuple[str, int]:
    """Return the IP address and the port of a URL. Raises UsageError if it is invalid, or remote and not allowed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError as error:
        raise UsageError(f"{url}: {error}; use an address like http://127.0.0.1:8000") from error
    if parts.scheme != "http" or not host:
        raise UsageError(f"{url or repr(url)} is not an http:// address; use one like http://127.0.0.1:8000")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{url}: unknown host {host!r} ({error}); check the address") from error
    # localhost may also have an IPv6 address, but most services listen only on 127.0.0.1.
    address = str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])
    if not allow_remote and not ipaddress.ip_address(address).is_loopback:
        raise UsageError(f"{host} is another machine; the grader sends load there only with --allow-remote")
    return address, port
