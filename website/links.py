"""Finds broken links in a built site, and anything that its pages would load from a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements whose address the browser loads without a click, and the attribute that contains it."""
NOT_LOADED = {"canonical", "prev", "next", "alternate"}
"""Kinds of ``<link>`` that only name another page."""


@dataclass
class Page(HTMLParser):
    """The addresses on a page, the names that a link can lead to, and what the browser loads."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        address = given.get(LOADED.get(tag, "href"))
        if address is None or given.get("rel") in NOT_LOADED:
            return
        self.links.append(address)
        if tag in LOADED:
            self.loaded.append(address)


def read(path: Path) -> Page:
    """Return what is on a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(folder: Path) -> Iterator[str]:
    """Yield a sentence for each link of the site in ``folder`` that leads nowhere, and each file from a network."""
    pages = {path.resolve(): read(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name}: loads {address} from a network"
        # The page for unknown addresses can be shown at any address, so its links begin with the site's own.
        for address in page.links if name.name != "404.html" else ():
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: {address} does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{name}: {address} has no such heading"
