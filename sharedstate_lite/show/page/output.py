"""What a cell displays: HTML without a script, which every viewer shows, and the widget, which hides it.

GitHub, nbconvert and a notebook that is not trusted show the HTML. JupyterLab and VS Code show the widget. Without
a reader, as in the tests and for the site, the output has the JSON instead, and the site's page mounts it.
"""

from __future__ import annotations

from typing import Any

from ..checks import attended
from . import PAGE


class PageOutput:
    """Base class of what page.js shows. A subclass has its data, its HTML and its widget."""

    live = True
    """Whether there is anything for the script to do."""

    def data(self) -> dict[str, Any]:
        """Return the JSON for the script: ``kind``, which names its function, and what that takes."""
        raise NotImplementedError

    def html(self) -> str:
        """Return HTML that needs no script, inside one element of the class ``ssl``."""
        raise NotImplementedError

    def widget(self) -> Any:
        """Return the widget for JupyterLab and VS Code."""
        raise NotImplementedError

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown: dict[str, Any] = {"text/plain": repr(self), "text/html": self.html()}
        return shown | {PAGE: self.data()} if self.live else shown

    def _ipython_display_(self, **_: Any) -> None:
        """Display the HTML and the widget as two outputs. If the widget is shown, it hides the other one."""
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        if self.live and attended():
            display(self.widget())  # type: ignore[no-untyped-call]
