"""One thing that the reader changes with a slider, and what is shown for it.

>>> from sharedstate_lite import show
>>> show.interact(lambda budget: f"{budget // 3} keys", 9, budget=range(3, 16, 3))
'3 keys'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import Error
from .checks import attended


def interact(draw: Callable[..., Any], start: Any, **choices: Sequence[Any]) -> Any:
    """Show what ``draw`` returns for a choice: with a slider in JupyterLab and VS Code, at ``start`` elsewhere.

    ``choices`` names one argument of ``draw`` and its values in order, such as ``budget=range(3, 16, 3)``. Unattended,
    as for the site, a sentence says where the slider is. Raises Error unless there is one name, and ``start`` is one of
    its values.
    """
    name, values = next(iter(choices.items()), ("", ()))
    if len(choices) != 1 or start not in values:
        raise Error(
            f"interact: {start!r} is not one of the values of one argument; pass such as budget=range(3, 16, 3)"
        )
    from IPython.core.getipython import get_ipython

    if getattr(get_ipython(), "kernel", None) is None:
        return draw(start)
    if attended():
        import ipywidgets

        slider = ipywidgets.SelectionSlider(options=[*values], value=start, description=name, continuous_update=False)
        ipywidgets.interact(draw, **{name: slider})
        return None
    from IPython.display import HTML, display

    display(HTML(f"<p><i>In JupyterLab, a slider changes {name}. Here it is {start}.</i></p>"))  # type: ignore[no-untyped-call]
    return draw(start)


__all__ = ["interact"]
