"""Names of fields, classes, parameters and methods: each works as any other, or is refused in one sentence."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import served
from carriers import Bins, Front, Plain, Split, cell
from test_serve_on_spark import on_a_machine, start

import sharedstate_lite.entities as entities
from sharedstate_lite.entities import AskMessage, EntityError, Epochs, Locks, Program, Reference
from sharedstate_lite.entities.serve import EntityService

SIZE = 40
SQL = """all and any as asc between by case cast check column constraint create cross default desc distinct else end
except exists false foreign from full group having in inner insert intersect into is join key left like limit not null
offset on or order outer primary references right row select set some table then to true union unique update using value
values view when where window with"""
TYPES = {"int", "str", "bool", "float", "list", "dict", "tuple"}
USED = {"Refused", "entity", "self"}
"""Names that the programs below use themselves."""


def allowed(names: Iterable[str]) -> list[str]:
    """Those that Python's grammar allows, special ones left out."""
    return sorted({name for name in names if name.isidentifier() and not keyword.iskeyword(name) and name[:2] != "__"})


def in_code(file: str) -> set[str]:
    """Every name in a source file of the room."""
    tree = ast.parse((Path(entities.__file__).parent / file).read_text(encoding="utf-8"))
    found = {getattr(node, field, "") for node in ast.walk(tree) for field in ("id", "attr", "arg", "name")}
    return {name for name in found if isinstance(name, str)}


NAMES = allowed({*entities.__all__, *dir(builtins), *keyword.softkwlist, *SQL.split()})
"""Public names, and names of Python and of SQL."""
PUBLIC = {name for each in entities.__all__ for name in dir(getattr(entities, each))}
MEMBERS = allowed({*NAMES, *PUBLIC, *in_code("plain.py"), *in_code("declare.py"), "of", "store"})
"""These, those of every public class, and those of the references that the plain carrier makes."""
GIVEN = {
    "field": [name for name in MEMBERS if name not in ("cls", "key")],
    "method": [name for name in MEMBERS if name not in ("cls", "key")],
    "parameter": [name for name in NAMES if name not in USED],
    "class": [name for name in NAMES if name not in TYPES | USED],
}

INIT = "    def __init__(self, a: str):\n        self.a = self.b = a\n"
HEAD = "from __future__ import annotations\n"
FIELDS = """
@entity
class Fields{i}:
{annotations}
    def __init__(self, id0: str, n0: int):
        self.id0 = id0
{sets}
    def __key__(self):
        return self.id0
    def add0(self, n0: int) -> list[int]:
{adds}
        return [{mine}]
@entity
class FieldsSeen{i}:
    def __init__(self, id0: str):
        self.id0 = id0
    def __key__(self):
        return self.id0
    def see0(self, it0: Fields{i}):
        return [it0.add0(1), [{others}]]
"""
METHODS = """
@entity
class Methods{i}:
    def __init__(self, id0: str, n0: int):
        self.id0, self.n0 = id0, n0
    def __key__(self):
        return self.id0
{methods}
    def all0(self):
        return [{mine}]
@entity
class MethodsSeen{i}:
    def __init__(self, id0: str):
        self.id0 = id0
    def __key__(self):
        return self.id0
{asking}
    def see0(self, it0: Methods{i}):
        return [it0.all0(), [{others}]]
"""
PARAMETERS = """
@entity
class Parameters{i}:
    def __init__(self, id0: str, n0: int):
        self.id0, self.n0 = id0, n0
    def __key__(self):
        return self.id0
    def look0(self, it0: Parameters{i}, {taken}):
        while it0.n0 > 5:
            return []
        try:
            Parameters{i}["none"].n0
        except Refused:
            it0.n0
            return [{taken}]
    def see0(self, it0: Parameters{i}):
        return self.look0(it0, {given})
"""
CLASS = """
@entity
class {name}:
    some0: list[{name}]
    def __init__(self, id0: str, n0: int):
        self.id0, self.n0, self.some0 = id0, n0, [{name}["none"]]
    def __key__(self):
        return self.id0
    def see0(self, it0: {name}):
        made0 = {name}("other", 3)
        for each0 in self.some0:
            try:
                each0.n0
            except Refused:
                return [it0.n0, made0.n0, {name}["other"].n0, made0.key]
"""


def lines(text: str, names: list[str], **given: Any) -> str:
    """The text once for each name."""
    return "".join(text.format(name=name, j=j, **given) for j, name in enumerate(names))


def joined(text: str, names: list[str]) -> str:
    """The text once for each name, with commas."""
    return ", ".join(text.format(name=name, j=j) for j, name in enumerate(names))


def fields(i: int, names: list[str]) -> tuple[str, Any]:
    """A class whose fields have these names, one that reads them, and what it sees."""
    source = FIELDS.format(
        i=i,
        annotations=lines("    {name}: int\n", names[::2]),
        sets=lines("        self.{name} = n0 + {j}\n", names),
        adds=lines("        self.{name} += n0\n", names),
        mine=joined("self.{name}", names),
        others=joined("it0.{name}", names),
    )
    return source, [[6 + j for j in range(len(names))]] * 2


def methods(i: int, names: list[str]) -> tuple[str, Any]:
    """A class whose methods have these names, one that asks them, and what it sees."""
    source = METHODS.format(
        i=i,
        methods=lines("    def {name}(self, n0: int) -> int:\n        return self.n0 + n0\n", names),
        mine=joined("self.{name}({j})", names),
        asking=lines(f"    def {{name}}(self, it0: Methods{i}):\n        return it0.{{name}}({{j}})\n", names),
        others=joined("self.{name}(it0)", names),
    )
    return source, [[5 + j for j in range(len(names))]] * 2


def parameters(i: int, names: list[str]) -> tuple[str, Any]:
    """A class with a method whose parameters have these names, and what it sees."""
    given = list(range(len(names)))
    return PARAMETERS.format(i=i, taken=", ".join(names), given=str(given)[1:-1]), given


@cache
def everything() -> tuple[Program, dict[str, Any]]:
    """One program with every name that is accepted, and for each class that sees another, which one and what."""
    sees: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    for role, make in (("field", fields), ("method", methods), ("parameter", parameters)):
        for i, at in enumerate(range(0, len(GIVEN[role]), SIZE)):
            source, expected = make(i, GIVEN[role][at : at + SIZE])
            seen, seer = f"{role.title()}s{i}", f"{role.title()}s{'' if role == 'parameter' else 'Seen'}{i}"
            scope = cell(HEAD + source)
            classes |= {name: scope[name] for name in (seen, seer)}
            sees[seer] = seen, expected
    for name in GIVEN["class"]:
        classes[name] = cell(HEAD + CLASS.format(name=name))[name]
        sees[name] = name, [5, 3, 3, "other"]
    routes = {f"POST /see/{seer}/{{seer}}/{{it0}}": classes[seer].see0 for seer in sees}
    return Program(*classes.values(), strict=True, routes=routes), sees


def created() -> list[AskMessage]:
    """The requests that create an entity of each class."""
    _, sees = everything()
    new = [(seer, ("t",)) for seer in sees if seer.startswith(("FieldsSeen", "MethodsSeen"))]
    new += [(seen, ("t", 5)) for seen, _ in sees.values()]
    return [AskMessage(n, Reference(cls, "t"), "__init__", args, None) for n, (cls, args) in enumerate(new)]


def test_names_in_memory() -> None:
    """On the plain carrier, in blocks, over bins, with epochs, and with locks."""
    program, sees = everything()
    for kind in (Plain, Split, Bins, lambda _: Front(Epochs(program, 2)), lambda _: Front(Locks(program, 2))):
        carrier: Any = kind(program)
        for each in created():
            carrier.request(each.who, each.what, *each.args or ())
        for seer, (seen, expected) in sees.items():
            answer = carrier.request(Reference(seer, "t"), "see0", Reference(seen, "t"))
            assert answer == expected, (type(carrier), seer)


def test_names_by_http_and_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path for each class that sees another, and all at once over Spark's bins."""
    program, sees = everything()
    service = EntityService(program, tmp_path / "http")
    for each in created():
        service.store.create(each.who.cls, *each.args or ())
    answers = served.ask(service, *(f"POST /see/{seer}/t/t" for seer in sees))
    service.close()
    assert dict(zip(sees, answers, strict=True)) == {seer: (200, expected) for seer, (_, expected) in sees.items()}
    on_a_machine(Random(0), monkeypatch)
    with start(tmp_path / "spark", 2, program) as spark:
        spark.run(created())
        asked = [(Reference(seer, "t"), (Reference(seen, "t"),)) for seer, (seen, _) in sees.items()]
        found = spark.run([AskMessage(-n, who, "see0", args, None) for n, (who, args) in enumerate(asked, 1)])
    assert list(found.values()) == [expected for _, expected in sees.values()]


OWN = "has the name of a reference's own part; choose another"
REFUSALS = {
    "field key": (INIT.replace("self.b", "self." + "key"), f"Thing.key {OWN}"),
    "field cls": (INIT.replace("self.b", "self." + "cls"), f"Thing.cls {OWN}"),
    "method key": (INIT + "    def key(self): ...\n", f"Thing.key {OWN}"),
    "method cls": (INIT + "    def cls(self): ...\n", f"Thing.cls {OWN}"),
    "constant": (INIT + "    __slots__ = 'a'\n", "Thing.__slots__: special names are the runtime's; choose another"),
    "declared": (INIT + "    __dict__: int\n", "Thing.__dict__: special names are the runtime's; choose another"),
    "assigned": (INIT.replace("self.b", "self." + "__class__"), "uses __class__; special attributes are the runtime's"),
    "special": (INIT + "    def __len__(self): ...\n", "Thing.__len__: an entity has no special methods but __init__"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_name_that_is_refused(case: str) -> None:
    """At the declaration, in one sentence."""
    body, says = REFUSALS[case]
    with pytest.raises(EntityError, match=re.escape(says)):
        Program(cell(f"@entity\nclass Thing:\n{body}    def __key__(self):\n        return self.a\n")["Thing"])


@pytest.mark.parametrize("name", sorted({*TYPES, "self"}))
def test_a_class_name_that_is_refused(name: str) -> None:
    """The names of types of data mean these in every annotation."""
    with pytest.raises(EntityError, match=f"Form: {name} is the name of a part of Python; rename the class"):
        Program(cell(HEAD + CLASS.format(name=name))[name])


def test_a_key_that_is_called_key() -> None:
    """The reference's own part has the same value, so this is no other attribute."""
    scope = cell(
        """
        @entity
        class A:
            def __init__(self, key: str):
                self.key = key
            def __key__(self):
                return self.key
            def f(self, a: "A"):
                return a.key
        """
    )
    plain = Plain(Program(scope["A"]))
    plain.request(Reference("A", "x"), "__init__", "x")
    assert plain.request(Reference("A", "x"), "f", Reference("A", "y")) == "y"
