"""Imports the names of a package on first use, so that importing the package itself is fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def lazy_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Import and return the object that ``package`` exports as ``name``. Call this in the package's ``__getattr__``.

    ``modules`` maps each exported name to the submodule that defines it. Use this for a package whose eager imports
    would load Spark, PostgreSQL or plotly, or would create an import cycle. The object also becomes an attribute of the
    package, so that it takes precedence over a submodule with the same name. Raises AttributeError if ``name`` is not
    in ``modules``.

    >>> lazy_name("sharedstate_lite.plan", {"View": "view"}, "View").__module__
    'sharedstate_lite.plan.view'

    Source: PEP 562.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    found = getattr(import_module(f"{package}.{modules[name]}"), name)
    setattr(sys.modules[package], name, found)
    return found


__all__ = ["lazy_name"]
