"""Each room's ``__init__`` shows one example, and the example is true."""

from __future__ import annotations

import pytest
from examples import SESSION, documented, modules, run, run_all


@pytest.mark.parametrize("package", [name for name, text in documented().items() if SESSION not in text])
def test_the_example_of_a_room(package: str) -> None:
    """It runs, and prints what the docstring says."""
    run(package)


@pytest.mark.parametrize("module", modules())
def test_the_examples_of_a_module(module: str) -> None:
    """Every example in a docstring runs, and prints what the docstring says."""
    run_all(module)
