"""The catalog: relations and views by name."""

from __future__ import annotations

from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite.errors import Error, RelationError, SqlError, ViewError
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.sql.catalog import Catalog

VISIT = "product STRING, user STRING, length INT"
MOST = "CREATE VIEW most AS SELECT user, MAX(length) AS most FROM visit GROUP BY user"


def test_every_type_and_its_synonyms() -> None:
    """Types may be written in any case, and by their usual synonyms."""
    names = {
        Type.STRING: ["STRING", "text", "varchar"],
        Type.INT: ["int", "INTEGER"],
        Type.BIGINT: ["bigint", "LONG"],
        Type.DOUBLE: ["double", "FLOAT8", "double  precision"],
        Type.BOOLEAN: ["boolean", "BOOL"],
        Type.DATE: ["date"],
        Type.TIMESTAMP: ["timestamp", "datetime"],
    }
    for kind, spellings in names.items():
        for spelling in spellings:
            assert Catalog(t=f"a {spelling}").schema("t") == (Column("a", kind),)


def test_declarations_keep_their_spelling() -> None:
    """Names keep their spelling, may be quoted, and are found regardless of case."""
    catalog = Catalog(Visit=' Product STRING ,"The ""User"", if any" STRING,\n date DATE ', self="a INT")
    assert list(catalog.relations) == ["Visit", "self"]
    assert [c.name for c in catalog.schema("VISIT")] == ["Product", 'The "User", if any', "date"]


@pytest.mark.parametrize("name", [None, 3, ["visit"], "visits"])
def test_an_unknown_relation(name: Any) -> None:
    """The RelationError lists the relations."""
    with pytest.raises(RelationError, match="^there is no relation named .*; the catalog contains: visit$"):
        Catalog(visit=VISIT).schema(name)


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        ("", "its columns must be declared in a string"),
        ("  ", "its columns must be declared in a string"),
        (None, "its columns must be declared in a string"),
        ("a", "'a' does not declare a column"),
        ("a INT,", "'' does not declare a column"),
        ("a INT,, b INT", "'' does not declare a column"),
        ("a INT b INT", "'a INT b INT' does not declare a column"),
        ("a FLOAT", "'a FLOAT' does not declare a column"),
        ("b INT, a DECIMAL(10,2)", "'a DECIMAL\\(10,2\\)' does not declare a column"),
        ("a STRUCT<x: DECIMAL(9,1), y: INT>, b INT", "'a STRUCT<x: DECIMAL\\(9,1\\), y: INT>' does not declare"),
        ("a INT NOT NULL", "'a INT NOT NULL' does not declare a column"),
        ('"a INT', "does not declare a column"),
        ("a b-c INT", "does not declare a column"),
        ("a INT, A STRING", "column A is declared twice"),
        ("a INT, time TIMESTAMP", "the column name time is reserved"),
        ("Diff INT", "the column name Diff is reserved"),
    ],
)
def test_an_invalid_declaration(declaration: Any, says: str) -> None:
    """An invalid declaration is a RelationError with the relation and what is wrong."""
    with pytest.raises(RelationError, match=f"^relation t: .*{says}"):
        Catalog(t=declaration)


def test_a_relation_has_a_name() -> None:
    """An empty name, which no SQL text could use, is refused."""
    with pytest.raises(RelationError, match="^relation '': a relation must have a name; write name="):
        Catalog(**{"": "a INT"})


def test_relations_differ_in_more_than_case() -> None:
    """Two names that differ only in case are one name."""
    with pytest.raises(RelationError, match="relation VISIT: another relation has this name"):
        Catalog(visit=VISIT, VISIT=VISIT)


def test_the_name_of_a_view_is_unique() -> None:
    """The name of a relation or of another view, in any case, is a ViewError."""
    catalog = Catalog(visit=VISIT)
    view = catalog.view(MOST)
    assert dict(catalog.views) == {"most": view}
    for taken in ("MOST", "Visit"):
        with pytest.raises(ViewError, match=f"view {taken}: a (view|relation) in the catalog already has that name"):
            catalog.view(f'CREATE VIEW "{taken}" AS SELECT user FROM visit')
    assert dict(catalog.views) == {"most": view}


def test_a_refused_view_leaves_the_catalog_as_it_was() -> None:
    """After bad SQL or a bad key, the name is still free."""
    catalog = Catalog(visit=VISIT)
    with pytest.raises(SqlError):
        catalog.view("CREATE VIEW most AS SELECT nothing FROM visit")
    for key in (["length"], 5):
        with pytest.raises(ViewError):
            catalog.view(MOST, key=key)  # type: ignore[arg-type]
    catalog.view(MOST)


def test_a_catalog_owns_the_views_declared_in_it() -> None:
    """An equal view of another catalog is not owned."""
    one, other = Catalog(visit=VISIT), Catalog(visit=VISIT)
    view, twin = one.view(MOST), other.view(MOST)
    assert (one.owns(view), one.owns(twin), other.owns(view)) == (True, False, False)


def test_relations_and_views_are_read_only() -> None:
    """The mappings cannot be changed."""
    catalog = Catalog(visit=VISIT)
    with pytest.raises(TypeError):
        catalog.relations["x"] = ()  # type: ignore[index]
    with pytest.raises(TypeError):
        catalog.views["x"] = None  # type: ignore[index]


def test_a_catalog_shows_itself() -> None:
    """The repr is Python; the notebook's table is escaped."""
    catalog = Catalog(visit=VISIT, **{"<b>": "a INT"})
    catalog.view(MOST)
    assert repr(catalog).startswith("Catalog(visit='product STRING, user STRING, length INT', ")
    html = catalog._repr_html_()
    assert "<td>view</td><td>most</td><td>user STRING, most INT</td>" in html
    assert "&lt;b&gt;" in html


def test_all_errors_are_one_family() -> None:
    """``except ss.Error`` and ``except ValueError`` catch all of them."""
    assert issubclass(Error, ValueError)
    assert all(issubclass(e, Error) for e in (SqlError, RelationError, ViewError))


def test_the_height_of_a_plan_is_limited() -> None:
    """A plan of 150 operators works in every engine; one more is refused, and the catalog is unchanged."""
    catalog = ss.Catalog(t="a INT, b INT")
    below = "t"
    for number in range(149):
        view = catalog.view(f"CREATE VIEW v{number} AS SELECT a, b + 0 AS b FROM {below}")
        below = view.name
    with pytest.raises(ss.SqlError, match="view high: its plan is 151 operators high, but the limit is 150"):
        catalog.view(f"CREATE VIEW high AS SELECT a, b + 1 AS b FROM {below}")
    assert "high" not in catalog.views
    for kind in ss.KINDS:
        with ss.engine(kind, [view]) as engine:
            engine.step({"t": [((1, 2), +1)]})
            assert engine.read(view.name, key=(1,)).values.tolist() == [[1, 2]]
            assert view.explain() and engine.state().rows.sum() >= 1


def test_walk_visits_each_operator_once() -> None:
    """Self-joins of self-joins have exponentially many paths, but few operators."""
    catalog = ss.Catalog(t="a INT, b INT")
    below = "t"
    for number in range(30):
        view = catalog.view(
            f"CREATE VIEW v{number} AS SELECT x.a, y.b FROM {below} AS x JOIN {below} AS y ON x.a = y.a"
        )
        below = view.name
    # A join and a projection a view, and the relation under both sides of the first.
    assert sum(1 for _ in view.plan.walk()) == 2 + 2 * 30
