"""Rule 23: restoring a checkpoint and replaying equals the run without failure."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import make, restored

import sharedstate_lite as ss

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT, weight DOUBLE",
}
VIEWS = {
    "longest": "SELECT category, MAX(length) AS m, AVG(weight) AS w FROM info "
    "JOIN visit USING (product) GROUP BY category",
    "pairs": "SELECT a.product, a.user, b.user AS other FROM visit a JOIN visit b ON a.product = b.product",
    "all_rows": "SELECT COUNT(*) AS n, SUM(weight) AS s FROM visit",
    "above": "SELECT category, m FROM longest WHERE m > 2",
}
ENGINES = [
    ("full", {}),
    ("shared linear", {}),
    ("shared delta", {}),
    ("partial", {}),
    ("partial", {"max_rows": 12, "seed": 3}),
    ("full in bins", {}),
    ("shared in bins", {}),
    ("partial in bins", {}),
]


def made(label: str, options: dict[str, Any]) -> ss.Engine:
    """An engine over all views."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW {name} AS {sql}") for name, sql in VIEWS.items()]
    return make(label, views, **options)


def schedule(seed: int, length: int) -> list[Any]:
    """Steps, reads and evictions, as (operation, argument)."""
    draw, rows, out = random.Random(seed), {"info": [], "visit": []}, []
    for _ in range(length):
        if draw.random() < 0.55:
            step: dict[str, list[Any]] = {"info": [], "visit": []}
            for _ in range(draw.randrange(1, 5)):
                relation = draw.choice(["info", "visit", "visit"])
                if rows[relation] and draw.random() < 0.4:
                    step[relation].append((rows[relation].pop(draw.randrange(len(rows[relation]))), -1))
                else:
                    visit = (
                        draw.choice("abc"),
                        draw.choice("xy"),
                        draw.randrange(5),
                        draw.choice([0.1, 1e16, -1e16, None]),
                    )
                    row = visit if relation == "visit" else (draw.choice("abc"), draw.choice("FG"))
                    rows[relation].append(row)
                    step[relation].append((row, 1))
            out.append(("step", step))
        elif draw.random() < 0.8:
            view = draw.choice(["longest", "above", "pairs"])
            out.append(("read", (view, draw.choice("FG" if view != "pairs" else "abc"))))
        else:
            out.append(("evict", None))
    return out


def run(engine: ss.Engine, operations: list[Any]) -> list[str]:
    """The answer of each operation, as text."""
    out = []
    for name, what in operations:
        if name == "step":
            out.append(str({view: changes.to_arrow().to_pydict() for view, changes in engine.step(what).items()}))
        elif name == "read":
            out.append(engine.read(what[0], key=what[1]).to_json())
        elif engine.kind == "partial":
            out.append(str(engine.evict("longest", n=1)))
    return out


def told(label: str, operations: list[Any], answers: list[str]) -> list[str]:
    """The answers that a restored engine repeats: of partial state on Spark, those of reads."""
    if label != "partial in bins":
        return answers
    return [answer for (name, _), answer in zip(operations, answers, strict=True) if name == "read"]


@pytest.mark.parametrize(
    ("label", "options", "cuts"),
    [
        *((label, options, (1, 27) if "bins" in label else (0, 13, 39)) for label, options in ENGINES),
        ("shared on Spark", {}, (6,)),
    ],
)
def test_rule_23_restore_and_replay_equals_the_failure_free_run(
    label: str, options: dict[str, Any], cuts: tuple[int, ...], tmp_path: Path
) -> None:
    """At every cut, restoring the last checkpoint and repeating the rest gives the same answers."""
    operations = schedule(23, cuts[-1] + 1)
    whole = made(label.replace("on Spark", "linear"), options)
    whole.step({})
    answers = run(whole, operations)
    for number, cut in enumerate(cuts):
        with made(label, options) as engine:
            engine.step({})
            done = run(engine, operations[:cut])
            engine.checkpoint(tmp_path / f"{number}")
            run(engine, operations[cut : cut + 3])
        with restored(label, tmp_path / f"{number}") as again:
            assert again.epoch == 1 + sum(name == "step" for name, _ in operations[:cut])
            assert told(label, operations, done + run(again, operations[cut:])) == told(label, operations, answers)
            for view in VIEWS:
                for key in whole.filled(view) if label == "partial in bins" else [None]:
                    assert again.read(view, key=key).equals(whole.read(view, key=key))


def test_rule_23_partial_state_on_spark_repeats_answers_not_emitted_changes(tmp_path: Path) -> None:
    """After a crash all keys are holes: a read gives the same rows, and from then on the same changes are emitted."""
    whole = made("partial in bins", {})
    visits: Any = [(("a", "x", 1, 0.5), 1), (("b", "x", 2, 1.5), 1)]
    whole.step({"info": [(("a", "F"), 1), (("b", "G"), 1)], "visit": visits})
    for key in "FG":
        whole.read("longest", key=key)
    whole.checkpoint(tmp_path / "c")
    with restored("partial in bins", tmp_path / "c") as again:
        assert whole.filled("longest") == [("F",), ("G",)] and again.filled("longest") == []
        more: Any = {"visit": [(("a", "y", 7, None), 1), (("b", "y", 8, None), 1)]}
        assert len(whole.step(more)["longest"]) == 4 and len(again.step(more)["longest"]) == 0
        assert again.read("longest", key="F").equals(whole.read("longest", key="F"))
        assert again.filled("longest") == [("F",)]
        gone: Any = {"visit": [(("a", "y", 7, None), -1)]}
        expected = whole.step(gone)["longest"]
        assert len(expected) == 2 and again.step(gone)["longest"] == expected
        assert again.read("longest", key="G").equals(whole.read("longest", key="G"))


@pytest.mark.parametrize("kind", ["full", "shared", "partial"])
def test_rule_23_history_leaves_nothing(kind: str, tmp_path: Path) -> None:
    """Many inserts and deletes of one row leave state and checkpoint as before."""
    engine = made(kind, {})
    row = ("a", "x", 1, 0.5)
    engine.step({"info": [(("a", "F"), 1)]})
    engine.checkpoint(tmp_path / "before")
    for _ in range(60):
        engine.step({"visit": [(row, 1)]})
        engine.step({"visit": [(row, -1)]})
    engine.checkpoint(tmp_path / "after")
    sizes = [sorted(f.stat().st_size for f in (tmp_path / n).glob("*.arrow")) for n in ("before", "after")]
    assert sizes[0] == sizes[1]
    engine.compact()
    restored = ss.restore(tmp_path / "after")
    restored.compact()
    assert restored.state().drop(columns="bytes").equals(engine.state().drop(columns="bytes"))
    assert restored.state()["bytes"].sum() <= engine.state()["bytes"].sum() * 1.1 + 1000


def broken(path: Path) -> dict[str, Any]:
    """Ways to damage a checkpoint: name -> function that damages the folder."""
    part = sorted(path.glob("*.arrow"))[0]

    def flip() -> None:
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)

    def format_() -> None:
        file = path / "manifest.json"
        file.write_text(file.read_text().replace('"epoch": 1', '"epoch": 2'))

    return {
        "a flipped bit": flip,
        "a lost part": part.unlink,
        "a lost manifest": (path / "manifest.json").unlink,
        "an altered manifest": format_,
        "half a manifest": lambda: (path / "manifest.json").write_text("{"),
    }


@pytest.mark.parametrize(
    "damage", ["a flipped bit", "a lost part", "a lost manifest", "an altered manifest", "half a manifest"]
)
def test_rule_23_a_damaged_checkpoint_is_refused(damage: str, tmp_path: Path) -> None:
    """A damaged checkpoint is refused before an engine is built; the error names the file."""
    engine = made("full", {})
    engine.step({"info": [(("a", "F"), 1)]})
    engine.checkpoint(tmp_path / "c")
    broken(tmp_path / "c")[damage]()
    with pytest.raises(ss.CheckpointError, match=str(tmp_path)):
        ss.restore(tmp_path / "c")


@pytest.mark.parametrize(
    "manifest",
    [3, [], {"parts": []}, {"parts": {"r[k]": {"file": "0000.arrow"}}}, {"parts": {"r[k]": 1}}, {"engine": None}, None],
    ids=str,
)
def test_rule_23_a_manifest_of_another_make_is_refused(manifest: Any, tmp_path: Path) -> None:
    """A manifest with a valid checksum but other contents, or nested too deeply, raises CheckpointError."""
    made("full", {}).checkpoint(tmp_path / "c")
    file = tmp_path / "c" / "manifest.json"
    if isinstance(manifest, dict):
        manifest = json.loads(file.read_text())["manifest"] | manifest
    digest = hashlib.sha256(json.dumps(manifest, indent=1, sort_keys=True).encode()).hexdigest()
    text = "[" * 100_000 if manifest is None else json.dumps({"sha256": digest, "manifest": manifest})
    file.write_text(text)
    with pytest.raises(ss.CheckpointError, match=str(tmp_path)):
        ss.restore(tmp_path / "c")


def with_format(file: Path, number: int) -> None:
    """Rewrite a manifest, or the description of an engine on Spark, as a version of the kit with another format."""
    found = json.loads(file.read_text())
    if "manifest" in found:
        found["manifest"]["format"] = number
        found["sha256"] = hashlib.sha256(json.dumps(found["manifest"], indent=1, sort_keys=True).encode()).hexdigest()
    else:
        found["format"] = number
    file.write_text(json.dumps(found))


def test_rule_23_a_checkpoint_of_another_version_is_refused_with_both(tmp_path: Path) -> None:
    """Full state stores other columns than it did in format 2: no call reads such a checkpoint, nor a later format."""
    made("full", {}).checkpoint(tmp_path / "one process")
    for number in (2, 4):
        with_format(tmp_path / "one process" / "manifest.json", number)
        with pytest.raises(ss.CheckpointError, match=rf"manifest.json has format {number}, .* reads format 3;"):
            ss.restore(tmp_path / "one process")
    made("full in bins", {}).checkpoint(tmp_path / "Spark")
    with_format(tmp_path / "Spark" / "run.json", 2)
    reading: list[Callable[[Path], Any]] = [
        ss.spark.restore, ss.spark.state, ss.spark.batches, ss.spark.stages, lambda path: ss.spark.rescale(path, 1)
    ]  # fmt: skip
    for read in reading:
        with pytest.raises(ss.CheckpointError, match=r"run.json has format 2, .* reads format 7;"):
            read(tmp_path / "Spark")


def test_rule_23_a_checkpoint_never_overwrites(tmp_path: Path) -> None:
    """A folder that is not empty is refused and unchanged; an empty one is used."""
    engine = made("shared", {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for odd in (None, 5, "a\0b", "x" * 300):
        with pytest.raises(ss.CheckpointError, match="not a path for a checkpoint"):
            engine.checkpoint(odd)  # type: ignore[arg-type]
    with pytest.raises(ss.CheckpointError, match="not a path for a checkpoint"):
        ss.restore(None)  # type: ignore[arg-type]
    with pytest.raises(ss.CheckpointError, match="not an empty folder"):
        engine.checkpoint(tmp_path / "full")
    assert [f.name for f in (tmp_path / "full").iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    engine.checkpoint(tmp_path / "empty")
    assert json.loads((tmp_path / "empty" / "manifest.json").read_text())["manifest"]["epoch"] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "full"]


def test_rule_23_after_views_came_and_went(tmp_path: Path) -> None:
    """What a restored engine shares does not depend on views dropped before the checkpoint."""
    catalog = ss.Catalog(**RELATIONS)
    views = {name: catalog.view(f"CREATE VIEW {name} AS {sql}") for name, sql in VIEWS.items()}
    for kind in ("full", "shared", "partial"):
        engine = ss.engine(kind, [views["pairs"]])
        engine.step({"info": [(("a", "F"), 1)], "visit": [(("a", "x", 4, 1.5), 2)]})
        engine.install(views["above"])
        engine.install(views["all_rows"])
        engine.drop("pairs")
        engine.drop("above")
        if kind == "partial":
            engine.read("longest", key="F")
        engine.checkpoint(tmp_path / kind)
        again = ss.restore(tmp_path / kind)
        assert list(again.views) == list(engine.views)
        change = {"visit": [(("a", "y", 9, None), 1), (("a", "x", 4, 1.5), -2)]}
        assert again.step(change) == engine.step(change)


def test_rule_23_a_base_table_that_nobody_reads_by_its_key_any_more(tmp_path: Path) -> None:
    """If the view that gave a base table its key was dropped, a later view's arrangement is restored beside it."""
    catalog = ss.Catalog(**RELATIONS)
    pairs = catalog.view(f"CREATE VIEW pairs AS {VIEWS['pairs']}")
    late = catalog.view("CREATE VIEW late AS SELECT a.length FROM visit a JOIN visit b ON a.user = b.user")
    engine = ss.engine("shared", [pairs])
    engine.step({"visit": [(("a", "x", 4, 1.5), 2)]})
    engine.install(late)
    engine.drop("pairs")
    engine.checkpoint(tmp_path / "c")
    again = ss.restore(tmp_path / "c")
    change = {"visit": [(("b", "x", 9, None), 1), (("a", "x", 4, 1.5), -1)]}
    assert again.step(change) == engine.step(change)
    assert again.state()["operator"].tolist() == engine.state()["operator"].tolist()
