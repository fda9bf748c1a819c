"""Rules 10 to 15: shared arrangements, as in differential dataflow and Materialize."""

import math
import random
from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite.oracle import difference

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
    "price": "product STRING, cents BIGINT",
    "person": "user STRING, city STRING",
}


def shop(*sql: str, **options: Any) -> tuple[ss.Catalog, ss.Engine]:
    """A shared engine over the shopping visits."""
    catalog = ss.Catalog(**RELATIONS)
    return catalog, ss.engine("shared", [catalog.view(text) for text in sql], **options)


def arranged(engine: ss.Engine) -> dict[str, int]:
    """Rows of every arrangement by its name."""
    state = engine.state()
    return state[state.kind == "arrangement"].set_index("operator")["rows"].to_dict()


def test_rule_10_views_over_one_relation_and_key_hold_one_arrangement() -> None:
    """Further views by the same key, with other columns, WHERE clauses and aggregates, add no arranged row."""
    join = "FROM info JOIN visit USING (product)"
    catalog, engine = shop(f"CREATE VIEW a AS SELECT product, category, length {join}")
    engine.step({"info": [((f"p{i}", "F"), 1) for i in range(9)], "visit": [((f"p{i}", "u", i), 1) for i in range(9)]})
    before = arranged(engine)
    assert before == {"info[product]": 9, "visit[product]": 9}
    for number, text in enumerate(
        (
            f"SELECT product, user {join} WHERE length > 3",
            "SELECT product, MAX(length) AS m FROM visit GROUP BY product",
            "SELECT product, MIN(length) AS m, COUNT(*) AS n FROM visit WHERE user <> 'x' GROUP BY product",
            "SELECT a.product, b.length FROM visit a JOIN visit b ON a.product = b.product",
        )
    ):
        engine.install(catalog.view(f"CREATE VIEW v{number} AS {text}"))
        assert arranged(engine) == before


def test_rule_11_batches_are_contiguous_and_few() -> None:
    """The batches of an arrangement cover [0, upper) without gap or overlap, logarithmic in the updates."""
    catalog, engine = shop("CREATE VIEW v AS SELECT product, MAX(length) AS m FROM visit GROUP BY product")
    draw = random.Random(11)
    total = 0
    for epoch in range(1, 401):
        rows = [((f"p{draw.randrange(500)}", "u", draw.randrange(10**6)), 1) for _ in range(draw.choice([1, 5, 300]))]
        total += len(rows)
        engine.step({"visit": rows})
        for arrangement in engine.arrangements():
            spans = arrangement.batches
            assert spans[0].lower == 0
            assert spans[-1].upper == arrangement.upper == epoch + 1
            assert all(a.upper == b.lower for a, b in zip(spans, spans[1:], strict=False))
            assert len(spans) <= 2 * math.log2(total + 2) + 2


def history(engine: ss.Engine, epochs: int) -> dict[int, Any]:
    """Step through random changes and record the answer after each epoch."""
    draw, rows, seen = random.Random(12), [], {}
    for epoch in range(1, epochs + 1):
        changes = []
        for _ in range(6):
            if rows and draw.random() < 0.45:
                changes.append((rows.pop(draw.randrange(len(rows))), -1))
            else:
                rows.append((f"p{draw.randrange(4)}", "u", draw.randrange(9)))
                changes.append((rows[-1], 1))
        engine.step({"visit": changes})
        seen[epoch] = engine.read("v")
    return seen


def test_rule_12_reads_in_the_past() -> None:
    """A read at t >= since is the same before and after compaction; before since it is an error."""
    catalog, engine = shop(
        "CREATE VIEW v AS SELECT product, MAX(length) AS m, COUNT(*) AS n FROM visit GROUP BY product"
    )
    engine.step({})
    hold = engine.handle(1)
    seen = history(engine, 30)
    hold.advance(10)
    for _ in range(2):
        for time in range(10, 32):
            assert difference(engine.read("v", at=time), seen[time - 1]) is None
        for key in ("p0", "p3", "none"):
            whole = seen[14]
            part = whole[whole["product"] == key].reset_index(drop=True)
            assert difference(engine.read("v", key=key, at=15), part) is None
        with pytest.raises(ss.TimeError, match="before since=10"):
            engine.read("v", at=9)
        with pytest.raises(ss.TimeError, match="not complete"):
            engine.read("v", at=32)
        engine.compact()


def test_rule_13_since_waits_for_the_slowest_reader() -> None:
    """Since never passes a reader's time; when the slowest reader goes, it advances to the next."""
    catalog, engine = shop("CREATE VIEW v AS SELECT product, MAX(length) AS m FROM visit GROUP BY product")
    engine.step({"visit": [(("a", "u", 1), 1)]})
    (visits,) = engine.arrangements()
    slow = visits.handle(1)
    engine.step({"visit": [(("a", "u", 2), 1)]})
    fast = visits.handle(2)
    engine.step({"visit": [(("a", "u", 2), -1)]})
    assert (visits.since, visits.upper) == (1, 4)
    slow.close()
    assert visits.since == 2
    fast.advance(3)
    assert visits.since == 3
    fast.close()
    for _ in range(5):
        engine.step({"visit": [(("a", "u", 1), 1)]})
    assert visits.since == visits.upper - 1 == engine.epoch
    with pytest.raises(ss.TimeError):
        visits.handle(3)


THREE = (
    "CREATE VIEW v AS SELECT i.product, v.length, p.cents FROM info i "
    "JOIN visit v ON i.product = v.product JOIN price p ON v.product = p.product"
)


@pytest.mark.parametrize("join", ["linear", "delta"])
def test_rule_14_simultaneous_changes_count_once(join: str) -> None:
    """A row that joins three relations which all change in one epoch comes out once, and goes once."""
    catalog, engine = shop(THREE, join=join)
    rows = {"info": [(("a", "F"), 1)], "visit": [(("a", "u", 5), 1)], "price": [(("a", 100), 1)]}
    out = engine.step(rows)["v"]
    assert out.to_pandas()["diff"].tolist() == [1]
    back = {name: [(row, -1) for row, _ in changes] for name, changes in rows.items()}
    assert engine.step(back)["v"].to_pandas()["diff"].tolist() == [-1]
    assert engine.read("v").empty


def test_rule_14_each_way_of_reading_the_others_wrongly_is_wrong() -> None:
    """Read all later (<=) everywhere, three simultaneous changes count three times; all earlier (<), never."""
    from sharedstate_lite.kernels import delta_path

    counts = {}
    for name, before in {"all <=": None, "all <": 0}.items():
        catalog, engine = shop(THREE, join="delta")
        (delta,) = [o for o in engine.operators if type(o).__name__ == "DeltaJoin"]  # type: ignore[attr-defined]

        def wrong(deltas: list[Any], _: int, delta: Any = delta, before: int | None = before) -> Any:
            from sharedstate_lite.batch import concat

            class As:
                def __init__(self, side: Any) -> None:
                    self.side, self.columns = side, side.columns

                def match(self, keys: Any, at: int | None) -> Any:
                    return self.side.match(keys, before)

            paths = [[(step, As(side)) for step, side in path] for path in delta.paths]
            parts = [delta_path(d, n, p, 0, delta.names.strings) for n, (d, p) in enumerate(zip(deltas, paths))]  # noqa: B905
            return concat(parts, delta.width)

        delta.step = wrong
        out = engine.step({"info": [(("a", "F"), 1)], "visit": [(("a", "u", 5), 1)], "price": [(("a", 100), 1)]})["v"]
        counts[name] = int(out.to_pandas()["diff"].sum())
    assert counts == {"all <=": 3, "all <": 0}


def chain(inputs: int, one_key: bool) -> str:
    """A linear chain of n inputs, on one key or on two alternating ones."""
    names = ["info", "visit", "price"] if one_key else ["info", "visit", "person"]
    keys = ["product", "product"] if one_key else ["product", "user"]
    text = f"CREATE VIEW v AS SELECT {names[0]}.{keys[0]} FROM {names[0]}"
    for n in range(1, inputs):
        text += f" JOIN {names[n]} ON {names[n - 1]}.{keys[n - 1]} = {names[n]}.{keys[n - 1]}"
    return text


@pytest.mark.parametrize("one_key", [True, False])
def test_rule_15_arrangements_of_linear_and_delta_joins(one_key: bool) -> None:
    """A linear chain of n inputs holds 2n - 2 arrangements; a delta join one for each (relation, key)."""
    _, linear = shop(chain(3, one_key), join="linear")
    _, delta = shop(chain(3, one_key), join="delta")
    assert len(arranged(linear)) == len(linear.arrangements()) == 4
    assert len(arranged(delta)) == (3 if one_key else 4)
    _, two = shop(chain(2, one_key), join="linear")
    assert len(arranged(two)) == 2
