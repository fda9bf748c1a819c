"""A small lab: two tasks, four checks, of which two are hidden."""

from __future__ import annotations

import json
from pathlib import Path

LAB = """number = 9
title = "Sums"
minutes = 5
hand_in = ["solution.py"]
memory_mib = 512

[tasks]
1 = "add"
2 = "The sum"

[points]
"add" = 20
"add.drawn" = 10
"sum.signs" = 40
"sum.restart" = 30

[cases]
"add" = 9
"add.drawn" = 2
"sum.signs" = 4
"sum.restart" = 1
"""
SOLUTION = '''"""Sums of numbers."""


def add(a, b):
    """Add two numbers."""
    ### BEGIN SOLUTION task 1: add both
    return a + b
    ### END SOLUTION


class Sum:
    """A sum of changes."""

    def __init__(self):
        self.total = 0

    def step(self, changes):
        """Add the changes of an epoch, and return the sum."""
        ### BEGIN SOLUTION task 2: the sum of everything so far
        for change in changes:
            self.total = add(self.total, change)
        return self.total
        ### END SOLUTION

    def save(self):
        """Return the state."""
        ### BEGIN SOLUTION task 2: what load needs
        return self.total
        ### END SOLUTION

    def load(self, saved):
        """Continue from a state."""
        ### BEGIN SOLUTION task 2: the sum
        self.total = saved
        ### END SOLUTION
'''
CHECKS = '''"""The checks of lab 9."""

import itertools
from functools import partial

from grader.lab import Case, check


def sums(epochs):
    """The sum after each epoch."""
    return list(itertools.accumulate(map(sum, epochs)))


@check("add", task=1)
def adds(student):
    """add(a, b) adds two numbers."""
    for a, b in itertools.product((0, 1, 2), repeat=2):
        yield Case(f"add({a}, {b})", a + b, partial(student.call, "add", a, b))


@check("sum.signs", task=2, rule=3)
def signs(student):
    """A negative change makes the sum smaller."""
    for epochs in ([[1]], [[1], [2]], [[1], [-1]], [[2, -1], [1]]):
        yield Case(str(epochs), sums(epochs), partial(student.play, "Sum", "step", epochs))
'''
HIDDEN = '''"""The hidden checks of lab 9."""

from functools import partial

from checks import sums
from grader.lab import Case, check, drawn

SECRET = "public"
NUMBERS = drawn(f"{SECRET} numbers", 2, 10, 99)


@check("add.drawn", task=1)
def adds_drawn(student):
    """add(a, b) adds other numbers, too."""
    for a, b in (NUMBERS, [NUMBERS[1], NUMBERS[0]]):
        yield Case(f"add({a}, {b})", sums([[a, b]])[0], partial(student.call, "add", a, b))


@check("sum.restart", task=2, cpu=10)
def restart(student):
    """A sum continues after a restart."""

    def restarted():
        one = student.new("Sum")
        one.step([1])
        saved = one.save()
        student.restart()
        other = student.new("Sum")
        other.load(saved)
        return other.step([2])

    yield Case("[1] | restart | [2]", 3, restarted)
'''
MUTANTS = """# Wrong solutions.

[concatenates]
replace = [["return a + b", "return int(f'{a}{b}')"]]
check = "add"
trace = "add(1, 0)"
says = "The digits are put next to each other."

[loses-the-tens]
replace = [["return a + b", "return a + b - a // 10"]]
check = "add.drawn"
trace = "add(11, 69)"
says = "The tens of the first number are not added."

[only-grows]
replace = [["self.total = add(self.total, change)", "self.total = max(self.total, add(self.total, change))"]]
check = "sum.signs"
trace = "[[1], [-1]]"
says = "The sum never becomes smaller."
rule = 3

[forgets]
replace = [["        self.total = saved", "        pass"]]
check = "sum.restart"
trace = "[1] | restart | [2]"
says = "load() does nothing."
"""
CELLS = [
    ("markdown", "# Lab 9: Sums\n\nAdd numbers.", []),
    ("code", "import solution", []),
    ("markdown", "## Task 1: add (30 points)", []),
    ("code", "assert solution.add(1, 2) == 3", []),
    ("markdown", "Most students forget the sign.", ["teacher"]),
    ("markdown", "## Task 2: The sum (70 points)", []),
]


def write(folder: Path, cells: list[tuple[str, str, list[str]]] = CELLS, **files: str) -> Path:
    """Write the master into ``folder``. ``files`` replaces texts: lab, solution, checks, hidden, mutants."""
    made = [
        {"cell_type": kind, "id": f"cell-{at}", "metadata": {"tags": tags}, "source": source}
        | ({"outputs": [], "execution_count": at} if kind == "code" else {})
        for at, (kind, source, tags) in enumerate(cells)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lab.toml").write_text(files.get("lab", LAB))
    (folder / "solution.py").write_text(files.get("solution", SOLUTION))
    (folder / "checks.py").write_text(files.get("checks", CHECKS))
    (folder / "hidden.py").write_text(files.get("hidden", HIDDEN))
    (folder / "mutants.toml").write_text(files.get("mutants", MUTANTS))
    (folder / "lab.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}))
    return folder
