"""Rules 2 to 5, and the bound of rule 3, for every engine; rule 1 and drawn sequences are in test_common.py."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sharedstate_lite as ss

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
VIEWS = {
    "seed": "SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category",
    "sums": "SELECT product, SUM(length) AS s, COUNT(*) AS n, MIN(user) AS first FROM visit GROUP BY product",
    "rows": "SELECT i.category, v.user, v.length FROM info i LEFT JOIN visit v ON i.product = v.product",
    "kinds": "SELECT DISTINCT user FROM visit",
}
ENGINES = {
    "full": ("full", {}),
    "shared": ("shared", {}),
    "partial": ("partial", {}),
}
every_engine = pytest.mark.parametrize("label", ENGINES)


def made(label: str, **views: str) -> ss.Engine:
    """An engine over these views (default: all)."""
    kind, options = ENGINES[label]
    catalog = ss.Catalog(**RELATIONS)
    return ss.engine(
        kind, [catalog.view(f"CREATE VIEW {n} AS {sql}") for n, sql in (views or VIEWS).items()], **options
    )


Step = dict[str, list[tuple[tuple[Any, ...], int]]]


def changes(seed: int, epochs: int) -> list[Step]:
    """Epochs of inserts and valid deletes; no row is deleted in the epoch that inserted it."""
    draw, rows, out = random.Random(seed), {"info": [], "visit": []}, []
    for _ in range(epochs):
        step: Step = {"info": [], "visit": []}
        fresh: dict[str, list[Any]] = {"info": [], "visit": []}
        for _ in range(draw.randrange(1, 9)):
            name = draw.choice(["info", "visit", "visit", "visit"])
            if rows[name] and draw.random() < 0.4:
                step[name].append((rows[name].pop(draw.randrange(len(rows[name]))), -1))
            else:
                row: Any = (draw.choice("abcd"), draw.choice("FGH"))
                if name == "visit":
                    row = (draw.choice("abcd"), draw.choice("xyz"), draw.choice([1, 2, 3, None]))
                fresh[name].append(row)
                step[name].append((row, 1))
        for name, more in fresh.items():
            rows[name] += more
        out.append(step)
    return out


def fill(engine: ss.Engine) -> None:
    """Read every key that the tests use, so that partial state holds all of them."""
    if engine.kind == "partial":
        for view, keys in {"seed": "FGH", "sums": "abcd", "rows": "FGH", "kinds": "xyz"}.items():
            for key in [*keys, None]:
                if view in engine.views:
                    engine.read(view, key=(key,))


@every_engine
def test_rule_02_splitting_and_merging_epochs(label: str) -> None:
    """Each change in an epoch of its own, or several epochs in one, leaves the same final contents."""
    steps = changes(2, 30)
    whole, split, merged = made(label), made(label), made(label)
    for engine in (whole, split, merged):
        fill(engine)
    for step in steps:
        whole.step(step)
        for name, rows in step.items():
            for change in rows:
                split.step({name: [change]})
    for at in range(0, len(steps), 5):
        merged.step({n: [c for s in steps[at : at + 5] for c in s[n]] for n in RELATIONS})
    for view in VIEWS:
        assert whole.read(view).equals(split.read(view))
        assert whole.read(view).equals(merged.read(view))


@every_engine
def test_rule_03_insert_then_delete_restores(label: str) -> None:
    """Whatever is inserted and deleted again leaves views and, after compact(), state as they were."""
    engine = made(label)
    fill(engine)
    for step in changes(3, 10):
        engine.step(step)
    engine.compact()
    state, views = engine.state(), {v: engine.read(v) for v in VIEWS}
    extra = changes(33, 15)
    for step in extra:
        engine.step({n: [c for c in rows if c[1] > 0] for n, rows in step.items()})
    for step in extra:
        engine.step({n: [(row, -1) for row, diff in rows if diff > 0] for n, rows in step.items()})
    engine.compact()
    for view, frame in views.items():
        assert engine.read(view).equals(frame)
    assert engine.state().drop(columns="bytes").equals(state.drop(columns="bytes"))
    assert abs(int(engine.state()["bytes"].sum()) - int(state["bytes"].sum())) <= 1024


def grow_then_shrink() -> Iterator[Counter[int]]:
    """Insert in large epochs, delete in small ones, oldest first."""
    for epoch in range(10):
        yield Counter(range(epoch * 1000, epoch * 1000 + 1000))
    for at in range(0, 10_000, 200):
        yield Counter(dict.fromkeys(range(at, at + 200), -1))


def newest_first() -> Iterator[Counter[int]]:
    """Delete what came last, again and again."""
    yield Counter(range(8000))
    for at in range(8000, 0, -400):
        yield Counter(dict.fromkeys(range(at - 400, at), -1))


def window() -> Iterator[Counter[int]]:
    """Each epoch brings 300 rows and takes the 300 of five epochs before."""
    for epoch in range(60):
        step = Counter(range(epoch * 300, epoch * 300 + 300))
        step.update({row: -1 for row in range((epoch - 5) * 300, (epoch - 4) * 300) if row >= 0})
        yield step


def at_once() -> Iterator[Counter[int]]:
    """All rows go in one epoch; then a trickle."""
    yield Counter(range(9000))
    yield Counter(dict.fromkeys(range(9000), -1))
    for row in range(40):
        yield Counter([row])


def storm() -> Iterator[Counter[int]]:
    """One row comes and goes among many."""
    yield Counter(range(3000))
    for epoch in range(700):
        yield Counter({5000: 1 if epoch % 2 == 0 else -1})


PATTERNS = (grow_then_shrink, newest_first, window, at_once, storm)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("label", ["full", "shared"])
def test_rule_03_bound_on_stored_rows(label: str, pattern: Callable[[], Iterator[Counter[int]]]) -> None:
    """Without compact(), stored rows stay within 2 x what is there + 2 x the largest epoch + 1,000, in every epoch."""
    engine = made(label, per="SELECT product, MAX(length) AS m FROM visit GROUP BY product")
    there: Counter[int] = Counter()
    largest = 0
    for step in pattern():
        engine.step({"visit": [((f"p{row % 7}", "u", row), diff) for row, diff in step.items()]})
        there.update(step)
        largest = max(largest, len(step))
        live = sum(1 for diff in there.values() if diff)
        for rows in engine.state()["rows"]:
            assert rows <= 2 * live + 2 * largest + 1000


@every_engine
def test_rule_04_multiplicities_are_never_negative(label: str) -> None:
    """Adding up all that was emitted, no row is there fewer than zero times after any epoch, and it is what is read."""
    engine = made(label)
    fill(engine)
    total: dict[str, Counter[Any]] = {v: Counter() for v in VIEWS}
    for step in changes(4, 60):
        for view, out in engine.step(step).items():
            lines = [column.to_pylist() for column in out.to_arrow().columns]
            for *row, _, diff in zip(*lines, strict=True):
                total[view][tuple(row)] += diff
            assert min(total[view].values(), default=0) >= 0
            frame = engine.read(view).astype(object)
            read = Counter(
                tuple(None if v is not v or str(v) == "<NA>" else v for v in r) for r in frame.to_numpy().tolist()
            )
            assert read == +total[view]


@every_engine
def test_rule_05_late_equals_early(label: str) -> None:
    """A view installed after any number of epochs has the contents, and from then on the changes, of an early one."""
    steps = changes(5, 24)
    early = made(label)
    fill(early)
    late = made(label, kinds=VIEWS["kinds"])
    fill(late)
    for number, step in enumerate(steps):
        if number in (6, 12, 18):
            name = ["seed", "sums", "rows"][number // 6 - 1]
            out = late.install(late.catalog.view(f"CREATE VIEW {name} AS {VIEWS[name]}"))
            if label != "partial":
                assert out.to_pandas()["diff"].sum() == len(early.read(name))
            fill(late)
            assert late.read(name).equals(early.read(name))
        wanted, got = early.step(step), late.step(step)
        for view, out in got.items():
            assert out == wanted[view]
