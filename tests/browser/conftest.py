"""The browser's tools, which tests/page needs too."""

from browser import tools

__all__ = ["tools"]
