"""The browser's tools."""

from chromium import tools

__all__ = ["tools"]
