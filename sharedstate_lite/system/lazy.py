"""Names of a package that are imported on first use, so that importing the package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def lazy_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Return what ``package`` exports as ``name``: the body of its ``__getattr__``. ``modules``: name -> its module.

    For a package whose eager imports would load Spark, PostgreSQL or plotly, or would make a circle. The name is bound
    in the package on first use, so that it wins over a submodule of the same name. Raises AttributeError for a name
    that is not in ``modules``.

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
