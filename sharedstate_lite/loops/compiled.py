"""Runs the loops: in Python while a process handles few rows, and compiled by Numba after that.

A loop is a function over int64 and uint64 arrays that a reader can step through. ``@loop`` states its one signature.
The function itself stays as it is, so it can be called and debugged in Python. A compiled copy of it replaces it behind
the names of `sharedstate_lite.loops` once the process has moved `SWITCH` rows. Until then, Numba is not imported.

The environment variable SHAREDSTATE_LITE_LOOPS selects how loops run:

    python      in Python, always
    bounds      compiled from the start, with every index checked
    compiled    compiled from the start

Compiled loops are cached in the kit's cache folder. The name of the folder is a digest of all sources of the loops and
of Numba's version. Numba's own rule compares only the file of the loop itself, so a caller would keep the old code of a
helper in another file.

Source: Lam et al., Numba: a LLVM-based Python JIT compiler, LLVM-HPC 2015.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from ..errors import Error
from ..system.cache import cache_dir
from ..system.notes import note

VARIABLE = "SHAREDSTATE_LITE_LOOPS"
"""The environment variable that selects how loops run."""
MODES = ("python", "bounds", "compiled")
SWITCH = 4000
"""A process compiles its loops when it has moved this many rows. In Python, they take about as long as importing Numba
and loading the compiled loops."""
MODULES = ("search", "batches", "lookups", "joins", "keys", "groups", "sums", "extremes", "strings")
"""The modules that define loops. Each uses loops only of those before it and of itself."""

F = TypeVar("F", bound=Callable[..., Any])
_SIGNATURES: dict[str, tuple[Callable[..., Any], str]] = {}


def loop(signature: str) -> Callable[[F], F]:
    """Register a function as a loop with exactly one ``signature``, such as ``"i8(const i8[::1], i8)"``.

    An array that is ``const`` can also be one that is read-only, such as one of Arrow.
    The function must write to buffers that it receives. If it returns a number of rows, -1 minus the number of a row
    means that it stopped at this row.
    """

    def registered(function: F) -> F:
        _SIGNATURES[function.__name__] = (function, signature)
        return function

    return registered


def functions() -> dict[str, tuple[Callable[..., Any], str]]:
    """Import the modules of `MODULES`, and return each loop with its signature, by name."""
    for module in MODULES:
        import_module(f"{__package__}.{module}")
    return _SIGNATURES


def in_python() -> dict[str, Callable[..., Any]]:
    """Return the loops as Python functions. Their uint64 arithmetic wraps around without a warning, as compiled."""

    def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any) -> Any:
            with np.errstate(over="ignore"):
                return function(*arguments)

        return run

    return {name: quiet(function) for name, (function, _) in functions().items()}


def compile_loops(bounds: bool = False) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Compile the loops, or load them from the cache, and yield each with its name. Raises ImportError without Numba.

    With ``bounds``, an index outside an array raises IndexError.
    """
    import numba

    settings: Any = numba.config
    Locator.folder = _folder(bounds, numba.__version__)
    before, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, f"{__name__}.Locator"
    made: dict[str, Callable[..., Any]] = {}
    try:
        for name, (function, signature) in functions().items():
            assert isinstance(function, FunctionType)
            # A copy of the function calls the compiled copies of other loops, which are among its globals.
            copy = FunctionType(function.__code__, function.__globals__ | made, name)
            copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
            made[name] = numba.njit(_parsed(signature), cache=Locator.folder is not None, boundscheck=bounds)(copy)
            yield name, made[name]
    finally:
        settings.CACHE_LOCATOR_CLASSES = before


def _parsed(signature: str) -> str:
    """Return a signature in Numba's words, which have no short form for a read-only array."""

    def array(found: re.Match[str]) -> str:
        layout = "C" if "::1" in found[2] else "A"
        return f"Array({found[1]}, {found[2].count(',') + 1}, {layout!r}, readonly=True)"

    return re.sub(r"const (\w+)\[([:,1]+)\]", array, signature)


def _folder(bounds: bool, version: str) -> Path | None:
    digest = hashlib.sha256(version.encode())
    for source in sorted((each for each in files(__package__).iterdir() if each.name.endswith(".py")), key=str):
        digest.update(source.name.encode() + source.read_bytes())
    try:
        return cache_dir("loops", f"{digest.hexdigest()[:16]}{'-bounds' * bounds}")
    except Error as error:
        note(f"loops are compiled again in each process: {error}")
        return None


class Locator:
    """Tells Numba where the compiled loops are cached."""

    folder: Path | None = None

    def __init__(self, line: int) -> None:
        self.line = line

    @classmethod
    def from_function(cls, function: Any, path: str) -> Locator:
        """Return the locator of a function."""
        return cls(function.__code__.co_firstlineno)

    def ensure_cache_path(self) -> None:
        """Do nothing, because the folder exists."""

    def get_cache_path(self) -> str:
        """Return the folder. A later call of `compile_loops` can use another one."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """Return the same stamp for all sources, because the folder's name already depends on them."""
        return ""

    def get_disambiguator(self) -> str:
        """Return the line of the function."""
        return str(self.line)


class Switch:
    """Binds the names of the loops in ``namespace``, first to Python functions and later to compiled ones."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace, self.lock = namespace, threading.Lock()
        self.left = SWITCH
        self.started = False

    def start(self) -> None:
        """Bind every name for the first time."""
        with self.lock:
            if self.started:
                return
            mode = os.environ.get(VARIABLE) or "later"
            if mode not in (*MODES, "later"):
                raise Error(f"{VARIABLE}={mode} is not valid; set it to {', '.join(MODES)}, or unset it")
            self.namespace.update(in_python())
            self.left = SWITCH if mode == "later" else 0
            if mode in ("bounds", "compiled"):
                self._compile(mode == "bounds")
            self.started = True

    def moved(self, rows: int) -> None:
        """Count rows that are about to be moved, and switch to compiled loops when they are many."""
        if self.left <= 0:
            return
        self.start()
        if 0 < self.left <= rows:
            with self.lock:
                self._compile()
        self.left -= rows

    def _compile(self, bounds: bool = False) -> None:
        try:
            for number, (name, function) in enumerate(compile_loops(bounds)):
                if not number and Locator.folder is not None and len(list(Locator.folder.glob("*.nbi"))) < 2:
                    note("compiling the loops, which takes about half a minute and is done once")
                self.namespace[name] = function
        except ImportError:
            note("Numba is not installed, so loops run in Python, about 100 times as slowly")
