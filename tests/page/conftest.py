"""The browser's tools."""

from browser import tools

__all__ = ["tools"]
