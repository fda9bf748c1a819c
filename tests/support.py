"""Shared by the tests of the engines: engines side by side, drawn sequences of changes, and checks.

A :class:`Fleet` runs the views of one case in several engines beside the DuckDB oracle. A sequence is a list of
operations, so a failing one shrinks to something readable. Every drawn retraction meets a stored row.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pytest
from cases import CASES, DOMAINS, RELATIONS, Case
from hypothesis import Phase, settings
from hypothesis import strategies as st
from places import ENGINES, IN_BINS, installs, make, partial

import sharedstate_lite as ss
from sharedstate_lite.oracle import Oracle, difference
from sharedstate_lite.partial import chains, describe
from sharedstate_lite.plan.nodes import Join, Scan, Type
from sharedstate_lite.plan.view import View

Row = tuple[Any, ...]
Input = dict[str, list[tuple[Row, int]]]


def examples(count: int) -> settings:
    """Hypothesis settings: ``count`` examples, ten times as many at SCALE=full."""
    # Explaining a failure costs minutes here, and the operations explain themselves.
    phases = [p for p in Phase if p is not Phase.explain]
    return settings(max_examples=count * (10 if os.environ.get("SCALE") == "full" else 1), phases=phases)


def labels(case: Case, view: View, wanted: Iterable[str] = ENGINES) -> list[str]:
    """The engines of ``wanted`` that can run a case and differ in how they run it."""
    joins = sum(isinstance(node, Join) for node in set(view.plan.walk()))
    able = {"full multi": case.multi, "partial": case.partial}

    def runs(name: str) -> bool:
        differs = joins > 1 or " " not in name or (joins > 0 and name == "full multi")
        return differs and able.get(name, True)

    return [label for label in wanted if runs(label.removesuffix(" in bins"))]


def relations_of(view: View) -> list[str]:
    """The base relations that a view reads, in order of first use."""
    return list(dict.fromkeys(n.relation for n in view.plan.walk() if isinstance(n, Scan)))


def tuples(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame as tuples of Python values, None for NULL."""
    lines = [column.array.to_numpy(dtype=object, na_value=None).tolist() for _, column in frame.items()]
    return list(zip(*lines, strict=True)) if lines else [()] * len(frame)


def pairs(changes: ss.Changes) -> list[tuple[Row, int]]:
    """Changes as rows with diffs, in their order."""
    lines = [column.to_pylist() for column in changes.to_arrow().columns]
    return list(zip(zip(*lines[:-2], strict=True), lines[-1], strict=True))


def only(frame: pd.DataFrame, view: View, keys: Iterable[Row]) -> pd.DataFrame:
    """The rows of some keys of a view."""
    wanted = set(keys)
    there = [tuple(row[i] for i in view.key) in wanted for row in tuples(frame)]
    return frame[pd.Series(there, index=frame.index, dtype=bool)]


def bag(changes: ss.Changes) -> Counter[Row]:
    """Changes as row -> diff, without time."""
    out: Counter[Row] = Counter()
    for row, diff in pairs(changes):
        out[row] += diff
    return out


def integrate(total: Counter[Row], changes: ss.Changes) -> None:
    """Add changes to integrated ones; rows that cancel are removed."""
    for row, diff in bag(changes).items():
        total[row] += diff
        if not total[row]:
            del total[row]


def in_order(frame: pd.DataFrame) -> bool:
    """Whether rows are sorted by all columns with NULL last."""
    keys = [tuple((v is None, v if v is not None else 0) for v in row) for row in tuples(frame)]
    return keys == sorted(keys)


def expected_kinds(view: View, before: Counter[Row], after: Counter[Row]) -> Counter[tuple[str, Row, int]]:
    """The changelog between two contents of a view, derived from the contents alone."""
    diffs = after.copy()
    diffs.subtract(before)
    rows = {row: diff for row, diff in diffs.items() if diff}
    out: Counter[tuple[str, Row, int]] = Counter()
    for row, diff in rows.items():
        key = tuple(row[i] for i in view.key)
        both = view.unique and any(
            tuple(o[i] for i in view.key) == key and (d > 0) != (diff > 0) for o, d in rows.items()
        )
        kind = ("+U" if diff > 0 else "-U") if both else ("+I" if diff > 0 else "-D")
        out[kind, row, diff] += 1
    return out


def shown_kinds(changes: ss.Changes) -> Counter[tuple[str, Row, int]]:
    """The changelog that Changes show; each -U must be followed by its +U."""
    kinds = changes.kinds()
    assert [k for k in kinds if k in ("-U", "+U")] == ["-U", "+U"] * (kinds.count("-U"))
    assert all(kinds[i + 1] == "+U" for i, k in enumerate(kinds) if k == "-U")
    return Counter((kind, row, diff) for kind, (row, diff) in zip(kinds, pairs(changes), strict=True))


def fingerprint(engine: ss.Engine) -> dict[str, Any]:
    """Everything that an engine shows: epoch, state, the rows of every operator and view."""
    table = engine.state()
    seen: dict[str, Any] = {"epoch": engine.epoch, "state": table.to_dict("list")}
    for operator in table.operator:
        seen[f"rows of {operator}"] = tuples(engine.state(operator))
    for name in engine.views:
        seen[f"view {name}"] = tuples(engine.read(name))
        if engine.kind == "partial":
            seen[f"filled {name}"] = filled(engine, name)
    return seen


def own(table: pd.DataFrame) -> pd.DataFrame:
    """The cached answers in the state table of a partial engine."""
    return table[table["bill"] == "cached"]


def entries(engine: Any) -> Counter[str]:
    """What is stored, with what a later merge cancels: name of each arrangement -> entries; in bins, of all bins."""
    if isinstance(engine, ss.Engine):
        return Counter({part.operator: part.arrangement.rows for part in engine.state_parts()})
    out: Counter[str] = Counter()
    for head in engine._query.heads().values():
        out.update({part: sum(rows for _, _, rows, _ in runs) for part, runs in head["runs"].items()})
    return out


def filled(engine: ss.Engine, view: str) -> list[Row]:
    """The filled keys of a partial view."""
    return engine.filled(view)


def pairs_of_a_chain(nodes: Iterable[Any]) -> list[tuple[str, str]]:
    """Pairs (above, below) of operators with filled keys that are asked by the same columns."""
    out = []
    for node in nodes:
        above = chains.same_key_above(node)
        while above is not None and above.filled is None:
            above = chains.same_key_above(above)
        if node.filled is not None and above is not None:
            out.append((above.name, node.name))
    return out


def check_holes(engine: Any) -> None:
    """A hole has no rows anywhere (rule 17), and filled below means filled above (rule 19)."""
    nodes = (engine if isinstance(engine, ss.Engine) else engine._route.engine).nodes.values()
    table = engine.state().set_index("operator")["key"]
    for node in nodes:
        if node.filled is None:
            continue
        there = set(filled(engine, node.name))
        for operator in describe.part_names(node):
            if set(table[node.name]) <= set(table[operator]):
                assert set(tuples(engine.state(operator)[list(table[node.name])])) <= there, operator
    for above, below in pairs_of_a_chain(nodes):
        assert set(filled(engine, below)) <= set(filled(engine, above)), (above, below)


@contextmanager
def unchanged(engine: ss.Engine, error: type[BaseException] = ss.Error, match: str = "") -> Iterator[None]:
    """The block raises, and leaves the engine as before."""
    before = fingerprint(engine)
    with pytest.raises(error, match=match):
        yield
    assert fingerprint(engine) == before


# --- drawing --------------------------------------------------------------------


def rows_of(relation: str) -> st.SearchStrategy[Row]:
    """Rows of a relation of the test catalog."""
    names = [part.split()[0] for part in RELATIONS[relation].split(",")]
    return st.tuples(*(st.sampled_from(DOMAINS[name]) for name in names))


@st.composite
def inputs(draw: Any, relations: Sequence[str], there: dict[str, Counter[Row]], most: int = 6) -> Input:
    """One epoch over some relations, valid on top of ``there``, which is updated."""
    out: Input = {}
    for _ in range(draw(st.integers(1, most))):
        relation = draw(st.sampled_from(list(relations)))
        present = there.setdefault(relation, Counter())
        rows = out.setdefault(relation, [])
        action = draw(st.sampled_from(["insert", "insert", "insert", "delete", "update"]))
        if action != "insert" and present:
            gone = sorted(present, key=repr)[draw(st.integers(0, len(present) - 1))]
            count = draw(st.sampled_from([1, 1, present[gone]]))
            rows.append((gone, -count))
            present[gone] -= count
            if not present[gone]:
                del present[gone]
        if action != "delete":
            row, count = draw(rows_of(relation)), draw(st.sampled_from([1, 1, 1, 2, 3]))
            rows.append((row, count))
            present[row] += count
    return out


@st.composite
def epochs(draw: Any, relations: Sequence[str], least: int = 1, most: int = 6) -> list[Input]:
    """A list of valid epochs, some of them empty."""
    there: dict[str, Counter[Row]] = {}
    count = draw(st.integers(least, most))
    return [{} if draw(st.integers(0, 9)) == 9 else draw(inputs(relations, there)) for _ in range(count)]


def keys_of(view: View) -> st.SearchStrategy[Row]:
    """Keys of a view, mostly ones that occur."""
    pools: dict[Type, list[Any]] = {
        Type.STRING: ["a", "b", "", "\uffff", None, "nowhere"],
        Type.INT: [-1, 0, 1, 2, None, 99],
        Type.BIGINT: [0, 1, 7, None],
        Type.DOUBLE: DOMAINS["x"],
        Type.BOOLEAN: DOMAINS["b"],
        Type.DATE: DOMAINS["d"],
        Type.TIMESTAMP: DOMAINS["t"],
    }
    return st.tuples(*(st.sampled_from(pools[view.schema[i].type]) for i in view.key))


# --- engines side by side -------------------------------------------------------


class Fleet:
    """The views of one case in several engines, beside the oracle; checked after every operation."""

    def __init__(self, case: Case, which: Iterable[str] = ENGINES, oracle: bool = True, **options: Any) -> None:
        self.catalog, views = case.declare()
        self.view = views[-1]
        self.tops = [self.view.name]
        """The views that are read and evicted from: the case's own, and those that came late."""
        self.relations = relations_of(self.view)
        self.engines = {label: make(label, [self.view], **options) for label in labels(case, self.view, which)}
        self.totals: dict[str, dict[str, Counter[Row]]] = {
            label: {name: Counter() for name in engine.views} for label, engine in self.engines.items()
        }
        self.oracle = Oracle(views, {r: self.catalog.relations[r] for r in self.relations}) if oracle else None
        self.emitted: dict[str, dict[str, ss.Changes]] = {}
        self._truth: dict[str, pd.DataFrame] = {}

    def step(self, given: Mapping[str, list[tuple[Row, int]]]) -> None:
        """Run one epoch in every engine, and check the emitted changes."""
        before = {label: {n: Counter(t) for n, t in views.items()} for label, views in self.totals.items()}
        held = {n: filled(e, n) for e in self._partial() for n in e.views}
        for label, engine in self.engines.items():
            out = engine.step(given)
            assert list(out) == list(engine.views)
            self.emitted[label] = out
            for name, changes in out.items():
                assert changes.time == engine.epoch
                integrate(self.totals[label][name], changes)
                if not partial(label):
                    assert shown_kinds(changes) == expected_kinds(
                        engine.views[name], before[label][name], self.totals[label][name]
                    ), label
        for name, keys in held.items():
            self._check_partial(name, keys)
        if self.oracle is not None:
            self._truth.clear()
            for relation, rows in given.items():
                names = [c.name for c in self.catalog.relations[relation]]
                frame = pd.DataFrame([(*row, diff) for row, diff in rows], columns=[*names, "diff"], dtype=object)
                self.oracle.apply(relation, frame)

    def _partial(self) -> list[ss.Engine]:
        return [e for label, e in self.engines.items() if partial(label)]

    def _check_partial(self, name: str, keys: list[Row]) -> None:
        """Partial state emits what another engine emits, for the keys that were filled and still are."""
        other = next((label for label in self.engines if not partial(label)), None)
        if other is None:
            return
        mine = next(label for label in self.engines if partial(label))
        engine = self.engines[mine]
        by, stayed = engine.views[name].key, set(keys) & set(filled(engine, name))
        wanted = {row: d for row, d in bag(self.emitted[other][name]).items() if tuple(row[i] for i in by) in stayed}
        emitted = bag(self.emitted[mine][name])
        if isinstance(engine, ss.Engine) and engine.budget.set:  # type: ignore[attr-defined]
            # The budget evicts when the epoch is over: what it evicts was filled until then.
            assert {tuple(row[i] for i in by) for row in emitted} <= set(keys)
            emitted = Counter({row: d for row, d in emitted.items() if tuple(row[i] for i in by) in stayed})
        assert dict(emitted) == wanted

    def truth(self, view: View) -> pd.DataFrame:
        """The oracle's answer for the last epoch."""
        if view.name not in self._truth and self.oracle is not None:
            self._truth[view.name] = self.oracle.recompute(view)
        return self._truth[view.name]

    def check(self) -> None:
        """Every engine's answer equals the oracle's (rule 1) and its integrated changes (rule 4)."""
        for label, engine in self.engines.items():
            for view in engine.views.values():
                self._check_view(label, engine, view)

    def _check_view(self, label: str, engine: ss.Engine, view: View) -> None:
        got = engine.read(view.name)
        assert in_order(got), f"{label}: {view.name} is not in order"
        if partial(label):
            self._compare(got, view, filled(engine, view.name), label)
        else:
            total = self.totals[label][view.name]
            assert all(count > 0 for count in total.values()), f"{label}: negative multiplicity in {view.name}"
            assert Counter(tuples(got)) == total, f"{label}: changes of {view.name} do not add up to what is read"
            self._compare(got, view, None, label)

    def _compare(self, got: pd.DataFrame, view: View, keys: list[Row] | None, who: str) -> None:
        if self.oracle is None:
            return
        truth = self.truth(view)
        truth = truth if keys is None else only(truth, view, keys)
        if list(got.columns) != list(truth.columns) or tuples(got) != tuples(truth):
            found = difference(got, truth)
            assert found is None, f"{who}: {view.name}: {found}"

    def read(self, key: Row, name: str = "result") -> None:
        """Read one key of a view in every engine that has it, and compare with the oracle."""
        for label, engine in self.engines.items():
            if name in engine.views:
                self._compare(engine.read(name, key=key), engine.views[name], [key], label)

    def view_of(self, name: str) -> View:
        """A view of that name, from one of the engines."""
        return next(e.views[name] for e in self.engines.values() if name in e.views)

    def install(self, case: Case) -> None:
        """Install the views of another case under new names, and check their contents."""
        name = f"late{len(self.tops)}"
        self.tops.append(name)
        for label, engine in self.engines.items():
            if not (case.multi or not label.startswith("full multi")) or not (case.partial or not partial(label)):
                continue
            if not installs(label):
                continue
            # Engines that were restored have a catalog of their own.
            view = engine.catalog.views.get(name) or case.declare_in(engine.catalog, name)[-1]
            arrived = engine.install(view)
            assert not partial(label) or not len(arrived)
            for below in engine.views.keys() - self.totals[label].keys():
                held = [] if partial(label) else tuples(engine.read(below))
                self.totals[label][below] = Counter(held) if below != name else bag(arrived)

    def each(self, act: Callable[[ss.Engine], Any]) -> None:
        """Call a function on every engine."""
        for engine in self.engines.values():
            act(engine)

    def close(self) -> None:
        """Close the engines and the oracle."""
        self.each(lambda e: e.close())
        if self.oracle is not None:
            self.oracle.close()


case_names = pytest.mark.parametrize("name", CASES)
"""Run a test for every case."""

IN_BINS_TOO = ["shopping", "chain of four", "self-join", "left join, counted", "distinct", "union of aggregates",
               "aggregates of doubles", "view over views over views"]  # fmt: skip
"""One case for each kind of operator: the others run the same operators in bins."""
case_and_place = pytest.mark.parametrize(
    ("name", "place"),
    [
        *(pytest.param(name, ENGINES, id=f"{name}-in one process") for name in CASES),
        *(pytest.param(name, IN_BINS, id=f"{name}-in bins") for name in IN_BINS_TOO),
    ],
)
"""Run a test for every case in one process, and for a few in bins."""
