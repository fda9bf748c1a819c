"""The grader's rooms have the same order in docs/grader.md, in the contracts of pyproject.toml and on disk."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
FACES = {"__init__", "__main__"}


def rooms() -> set[str]:
    """Modules and folders directly in grader/."""
    found = {path.stem for path in (ROOT / "grader").glob("*.py")} - FACES
    return found | {path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")}


def test_every_room_has_its_place() -> None:
    """Every room is in a layer; one that is not could import anything."""
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["name"] == "the grader's rooms"]
    named = {name.strip().removeprefix("grader.") for layer in layers for name in layer.split("|")}
    assert named == rooms()


def test_the_page_names_every_room() -> None:
    """docs/grader.md has a line for each room, in the order of the layers."""
    page = (ROOT / "docs" / "grader.md").read_text().partition("The rooms of the grader")[2]
    told = [
        name.rstrip("/")
        for line in re.findall(r"^\| (`.+?`) \|", page, re.M)
        for name in re.findall(r"`([a-z/]+)`", line)
    ]
    assert rooms() <= set(told)
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["name"] == "the grader's rooms"]
    height = {n.strip().removeprefix("grader."): i for i, layer in enumerate(layers) for n in layer.split("|")}
    heights = [height[name] for name in told if name in height]
    assert heights == sorted(heights, reverse=True)


def test_judging_knows_nothing_of_the_live_half() -> None:
    """The four judging rooms may not import clocks, sockets, processes and random numbers."""
    name = "a record is judged without clock, socket, process or chance"
    (contract,) = [contract for contract in CONTRACTS if contract["name"] == name]
    assert set(contract["source_modules"]) == {f"grader.{room}" for room in ("audit", "verdict", "record", "report")}
    live = {f"grader.{room}" for room in ("phases", "processes", "sandbox", "shop", "wire")}
    assert live | {"time", "socket", "subprocess", "random"} <= set(contract["forbidden_modules"])
