"""Systems for the tests of explore: right ones of labs/checkout and the zoo, and those of wrong/expected.toml."""

from __future__ import annotations

import contextlib
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zoo

from grader.explore.explorer import Explorer
from grader.files import write_all
from grader.lab.shops import read_master, texts
from grader.session import Wish
from grader.submission import read_submission
from grader.terms import Limits

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2] / "labs" / "checkout"
MUTANTS = {mutant.name: mutant for mutant in zoo.MUTANTS}
RIGHT = [*zoo.RIGHT, *zoo.LABS]


@dataclass(frozen=True)
class Wrong:
    """A row of expected.toml."""

    name: str
    kind: str = ""
    rule: str = ""
    steps: int = 0
    not_for_it: str = ""
    """Why explore does not find it."""
    does: str = ""
    """What is wrong with it; a mutant's name says it."""
    base: str = ""
    change: list[dict[str, str]] = field(default_factory=list)


SHOPS = {shop.name: shop for shop in read_master(CHECKOUT)[1]}
"""Those of labs/checkout/break.toml."""
_BASES = {shop.name: {"base": shop.base} for shop in SHOPS.values() if shop.change}
_ROWS = [
    Wrong(name, **row, **_BASES.get(name, {}))
    for name, row in tomllib.loads((HERE / "wrong" / "expected.toml").read_text()).items()
]
WRONG, NOT_FOR_IT = [each for each in _ROWS if each.rule], [each for each in _ROWS if each.not_for_it]


def plant(name: str, folder: Path) -> Path:
    """Copy a right or a wrong system into a folder. Raises ValueError unless each changed text occurs exactly once."""
    wrong = next((each for each in _ROWS if each.name == name), None)
    base = (wrong.base or name) if wrong else name
    if name in SHOPS:
        write_all(folder, texts(CHECKOUT, SHOPS[name]))
    elif base in MUTANTS:
        zoo.plant(MUTANTS[base], folder)
    elif base in RIGHT:
        zoo.right(base, folder)
    else:
        shutil.copytree(CHECKOUT / base, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for change in wrong.change if wrong else ():
        source = folder / change["file"]
        text = source.read_text()
        if text.count(change["right"]) != 1:
            raise ValueError(f"{name}: {base}/{change['file']} must contain its text exactly once")
        source.write_text(text.replace(change["right"], change["wrong"]))
    toml = folder / "checkout.toml"  # gunicorn is found in every environment
    toml.write_text(toml.read_text().replace('"gunicorn",', '"python3", "-m", "gunicorn",'))
    return folder


@contextlib.contextmanager
def exploring(folder: Path, convergence: float = Limits.convergence) -> Iterator[Explorer]:
    """An explorer of a system, after its runs without a fault."""
    wish = Wish(read_submission(folder), ("explore",), Limits(convergence=convergence), 0, 0, "", "explore")
    with Explorer(wish, folder.name) as explorer:
        explorer.plain()
        yield explorer


def figures(explorer: Explorer) -> dict[str, Any]:
    """What an exploration has come to, for a line of a cache."""
    found = next(iter(explorer.found.values()), None)
    return {
        "ran": dict(explorer.ran),
        "found": found
        and {"kind": found.kind, "rules": list(found.rules), "steps": len(found.steps), "case": found.case},
        "unrepeated": explorer.unrepeated,
        "unreached": explorer.unreached,
        "void": explorer.void,
    }
