"""The browser's tools, which tests/page needs too."""

from chromium import tools

__all__ = ["tools"]
