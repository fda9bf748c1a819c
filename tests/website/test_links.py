"""Broken links are found, and files from a network."""

from __future__ import annotations

from pathlib import Path

from website.links import broken


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A file or heading that does not exist is named; so is what the browser would load from elsewhere."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h2 id="here">x</h2><a href="#here"></a><a href="#gone"></a>')
    (tmp_path / "b.html").write_text(
        '<a href="a/#here"></a><a href="a/index.html#no"></a><a href="c.html"></a><a href="https://example.org">ok</a>'
        '<script src="https://example.org/x.js"></script><img src="data:image/png;base64,AA"><link rel="canonical" '
        'href="https://example.org/"><link rel="stylesheet" href="//example.org/x.css"><a href="a%2Findex.html"></a>'
    )
    (tmp_path / "404.html").write_text('<a href="/anywhere"></a>')
    assert list(broken(tmp_path)) == [
        "a/index.html: #gone has no such heading",
        "b.html: loads https://example.org/x.js from a network",
        "b.html: loads //example.org/x.css from a network",
        "b.html: a/index.html#no has no such heading",
        "b.html: c.html does not exist",
    ]
