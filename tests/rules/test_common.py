"""Rules 1 to 5, for every engine; the bound of rule 3 is tested in test_bound.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, RELATIONS
from hypothesis import given
from hypothesis import strategies as st
from places import ENGINES, IN_BINS, every_place, installs, make, partial, restored
from support import (
    Fleet,
    Input,
    bag,
    case_and_place,
    case_names,
    epochs,
    examples,
    inputs,
    integrate,
    keys_of,
    labels,
    relations_of,
    tuples,
)

import sharedstate_lite as ss

Place = Mapping[str, Any]
"""Label -> an engine of one place."""

ACTIONS = ["step"] * 5 + ["read", "read", "evict", "compact", "restore", "install"]


READS = {name: set(relations_of(case.declare()[1][-1])) for name, case in CASES.items()}
"""Case -> the relations that it reads."""


def act(fleet: Fleet, data: st.DataObject, there: dict[str, Counter[Any]], folder: Path) -> None:
    """One drawn operation on every engine."""
    action = data.draw(st.sampled_from(ACTIONS))
    if action == "step":
        fleet.step(data.draw(inputs(fleet.relations, there)))
    elif action == "read":
        name = data.draw(st.sampled_from(fleet.tops))
        fleet.read(data.draw(keys_of(fleet.view_of(name))), name)
    elif action == "evict":
        for label, engine in fleet.engines.items():
            if partial(label):
                engine.evict(data.draw(st.sampled_from(list(engine.views))), n=data.draw(st.integers(0, 3)))
    elif action == "install" and len(fleet.tops) < 3:
        # A view that reads no other relations than the case's own.
        alike = [name for name, relations in READS.items() if relations <= set(fleet.relations)]
        fleet.install(CASES[data.draw(st.sampled_from(alike))])
    elif action == "compact":
        fleet.each(lambda engine: engine.compact())
    elif action == "restore":
        number = sum(1 for _ in folder.iterdir())
        for place, (label, engine) in enumerate(fleet.engines.items()):
            engine.checkpoint(folder / f"{number + place}")
            engine.close()
            fleet.engines[label] = restored(label, folder / f"{number + place}")


@every_place
@case_names
def test_rule_01_equals_recomputation(name: str, place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """After every epoch each engine equals recomputation as a bag; partial state for the filled keys.

    In bins also with any number of bins, and however often the worker processes change places.
    """

    @examples(3 if place is ENGINES else 2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        drawn = {} if place is ENGINES else {"bins": data.draw(st.integers(1, 5)), "lose": data.draw(st.integers(0, 5))}
        fleet, folder = Fleet(CASES[name], place, **drawn), tmp_path_factory.mktemp("checkpoints")
        there: dict[str, Counter[Any]] = {}
        fleet.step(data.draw(inputs(fleet.relations, there)))
        for _ in range(data.draw(st.integers(1, 8))):
            act(fleet, data, there, folder)
            fleet.check()
        fleet.close()

    run()


def contents(label: str, name: str, steps: list[Input], keys: list[Any]) -> list[Any]:
    """The rows of a case's view after some steps; under partial state the rows of some keys."""
    with make(label, [CASES[name].declare()[1][-1]]) as engine:
        if partial(label):
            for key in keys[::2]:
                engine.read("result", key=key)
        for step in steps:
            engine.step(step)
        if partial(label):
            return [tuples(engine.read("result", key=key)) for key in keys]
        return tuples(engine.read("result"))


@case_and_place
def test_rule_02_epochs_split_and_merged(name: str, place: Place) -> None:
    """Splitting epochs at valid prefixes, or merging them into one, leaves the same final contents."""
    view = CASES[name].declare()[1][-1]

    @examples(2)
    @given(epochs(relations_of(view), most=4), st.lists(keys_of(view), max_size=4))
    def run(steps: list[Input], keys: list[Any]) -> None:
        single = [{relation: [change]} for step in steps for relation, rows in step.items() for change in rows]
        whole: Input = {}
        for step in steps:
            for relation, rows in step.items():
                whole.setdefault(relation, []).extend(rows)
        for label in labels(CASES[name], view, place):
            as_given = contents(label, name, steps, keys)
            assert contents(label, name, single, keys) == as_given, label
            assert contents(label, name, [whole], keys) == as_given, label

    run()


def settled(engine: ss.Engine, keys: list[Any]) -> tuple[Any, ...]:
    """The view, and the size of all state after compaction; partial state reads the same keys each time.

    On Spark, partial state keeps a file of its base tables for each epoch, so their bytes do not count.
    """
    if engine.kind == "partial":
        rows: Any = [tuples(engine.read("result", key=key)) for key in keys]
    else:
        rows = tuples(engine.read("result"))
    engine.compact()
    table = engine.state()
    sized = table if isinstance(engine, ss.Engine) or engine.kind != "partial" else table[table["kind"] != "base"]
    return rows, table.operator.tolist(), table["rows"].tolist(), sized["bytes"].tolist()


@case_and_place
def test_rule_03_insert_then_delete_restores(name: str, place: Place) -> None:
    """Inserting and then deleting rows restores the view and, after compact(), the size of the state."""
    view = CASES[name].declare()[1][-1]

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        there: dict[str, Counter[Any]] = {}
        relations = relations_of(view)
        first = data.draw(inputs(relations, there))
        later = [data.draw(inputs(relations, there)) for _ in range(data.draw(st.integers(1, 3)))]
        keys = data.draw(st.lists(keys_of(view), max_size=3))
        for label in labels(CASES[name], view, place):
            with make(label, [view]) as engine:
                engine.step(first)
                before = settled(engine, keys)
                for step in later:
                    engine.step(step)
                for step in reversed(later):
                    engine.step({r: [(row, -diff) for row, diff in reversed(rows)] for r, rows in step.items()})
                assert settled(engine, keys) == before, label

    run()


@case_and_place
def test_rule_04_multiplicities_are_not_negative(name: str, place: Place) -> None:
    """At the end of an epoch no multiplicity is negative, in the integrated changes and in all state."""
    view = CASES[name].declare()[1][-1]

    @examples(2)
    @given(epochs(relations_of(view), most=4), st.lists(keys_of(view), max_size=2))
    def run(steps: list[Input], keys: list[Any]) -> None:
        for label in labels(CASES[name], view, place):
            with make(label, [view]) as engine:
                total: Counter[Any] = Counter()
                for key in keys:
                    engine.read("result", key=key)
                for step in steps:
                    integrate(total, engine.step(step)["result"])
                    assert partial(label) or min(total.values(), default=1) > 0, label
                    for operator in engine.state().operator:
                        # The limbs of an exact sum are numbers, not multiplicities, and have either sign.
                        if ".limbs" not in operator:
                            assert min(engine.state(operator)["diff"], default=1) >= 1, operator

    run()


@case_and_place
def test_rule_05_installed_late_equals_early(name: str, place: Place) -> None:
    """A view installed late equals one installed early: its contents, and its changes from then on."""
    view = CASES[name].declare()[1][-1]

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        there: dict[str, Counter[Any]] = {}
        steps = [data.draw(inputs(relations_of(view), there)) for _ in range(4)]
        when, keys = data.draw(st.integers(0, 3)), data.draw(st.lists(keys_of(view), max_size=3))
        for label in filter(installs, labels(CASES[name], view, place)):
            late_install(label, name, steps, when, keys)

    run()


def late_install(label: str, name: str, steps: list[Input], when: int, keys: list[Any]) -> None:
    """Install the view early in one engine; in another late, beside another view, and once more after a drop."""
    catalog, views = CASES[name].declare()
    other = catalog.view("CREATE VIEW other AS SELECT country, COUNT(*) AS n FROM place GROUP BY country")
    with make(label, [views[-1]]) as early, make(label, [other]) as late:
        for number, step in enumerate(steps):
            if number == when:
                arrived = late.install(views[-1])
                if partial(label):
                    assert not len(arrived)
                else:
                    whole = Counter(tuples(early.read("result")))
                    assert bag(arrived) == whole
                    assert arrived.time == late.epoch
                for key in keys:
                    assert tuples(late.read("result", key=key)) == tuples(early.read("result", key=key)), label
            expected, got = early.step(step), late.step(step)
            if number == 0 == when and not partial(label):
                # The early view emits its first row in step 1, netted; the late one gave it when it was installed.
                integrated = bag(arrived)
                integrate(integrated, got["result"])
                assert integrated == bag(expected["result"]), label
            else:
                assert "result" not in got or got["result"] == expected["result"], label
        late.drop("result")
        late.install(views[-1])
        for key in keys:
            assert tuples(late.read("result", key=key)) == tuples(early.read("result", key=key)), label
        if not partial(label):
            assert tuples(late.read("result")) == tuples(early.read("result")), label


@pytest.mark.parametrize("label", [label for label in [*ENGINES, *IN_BINS] if installs(label)])
def test_rule_05_on_relations_that_no_view_used(label: str) -> None:
    """A view that is installed later has the rows of relations that no view used before."""
    catalog = ss.Catalog(**RELATIONS)
    first = catalog.view("CREATE VIEW first AS SELECT country, COUNT(*) AS n FROM place GROUP BY country")
    later = catalog.view("CREATE VIEW later AS SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) "
                         "GROUP BY category")  # fmt: skip
    with make(label, [first]) as engine:
        engine.step({"visit": [(("a", "u", 3), 2), (("a", "u", 9), 1)], "info": [(("a", "x"), 1)]})
        engine.step({"visit": [(("a", "u", 9), -1)]})
        engine.install(later)
        assert tuples(engine.read("later", key="x")) == [("x", 3)]
        out = engine.step({"visit": [(("a", "u", 3), -2), (("a", "u", 1), 1)]})["later"]
        assert bag(out) == {("x", 3): -1, ("x", 1): 1}
