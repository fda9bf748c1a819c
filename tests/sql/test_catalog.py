"""The catalog: relations by declaration, views by name, each once."""

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
    """Types are written in any case, by the name that another system has for them too."""
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
    """Names come out as declared, may be quoted, and are found whatever their case."""
    catalog = Catalog(Visit=' Product STRING ,"The ""User"", if any" STRING,\n date DATE ', self="a INT")
    assert list(catalog.relations) == ["Visit", "self"]
    assert [c.name for c in catalog.schema("VISIT")] == ["Product", 'The "User", if any', "date"]


@pytest.mark.parametrize("name", [None, 3, ["visit"], "visits"])
def test_a_relation_that_is_not_there(name: Any) -> None:
    """Whatever is no relation's name is a RelationError that says which there are."""
    with pytest.raises(RelationError, match="^no relation is called .*; the catalog has: visit$"):
        Catalog(visit=VISIT).schema(name)


@pytest.mark.parametrize(
    ("declaration", "says"),
    [
        ("", "no columns are declared"),
        ("  ", "no columns are declared"),
        (None, "no columns are declared"),
        ("a", "'a' is no column"),
        ("a INT,", "'' is no column"),
        ("a INT,, b INT", "'' is no column"),
        ("a INT b INT", "'a INT b INT' is no column"),
        ("a FLOAT", "'a FLOAT' is no column"),
        ("a INT NOT NULL", "'a INT NOT NULL' is no column"),
        ('"a INT', "is no column"),
        ("a b-c INT", "is no column"),
        ("a INT, A STRING", "column A is declared twice"),
        ("a INT, time TIMESTAMP", "a column is called time"),
        ("Diff INT", "a column is called Diff"),
        ('"\ud800" INT', r"'\"\\ud800\" INT' or the name has a lone surrogate, which is not text; mend it first"),
    ],
)
def test_a_declaration_that_cannot_be(declaration: Any, says: str) -> None:
    """A bad declaration is a RelationError that names the relation and what is wrong."""
    with pytest.raises(RelationError, match=f"^relation t: .*{says}"):
        Catalog(t=declaration)


def test_a_relation_is_named_once() -> None:
    """Two names that differ in case alone are one; what is not text is none."""
    with pytest.raises(RelationError, match=r"^relation \\ud800: .* has a lone surrogate"):
        Catalog(**{"\ud800": VISIT})
    with pytest.raises(RelationError, match="relation VISIT: the name is taken"):
        Catalog(visit=VISIT, VISIT=VISIT)


def test_an_unknown_relation_is_named_with_those_there_are() -> None:
    """Look-up of a relation that is not there says which are."""
    with pytest.raises(RelationError, match="no relation is called visits; the catalog has: visit"):
        Catalog(visit=VISIT).schema("visits")


def test_a_view_has_a_name_of_its_own() -> None:
    """A name that a relation or another view has, in any case, is a ViewError."""
    catalog = Catalog(visit=VISIT)
    view = catalog.view(MOST)
    assert dict(catalog.views) == {"most": view}
    for taken in ("MOST", "Visit"):
        with pytest.raises(ViewError, match=f"view {taken}: a (view|relation) of this catalog has that name"):
            catalog.view(f'CREATE VIEW "{taken}" AS SELECT user FROM visit')
    assert dict(catalog.views) == {"most": view}


def test_a_refused_view_leaves_the_catalog_as_it_was() -> None:
    """Neither bad SQL nor a bad key takes the name."""
    catalog = Catalog(visit=VISIT)
    with pytest.raises(SqlError):
        catalog.view("CREATE VIEW most AS SELECT nothing FROM visit")
    for key in (["length"], 5):
        with pytest.raises(ViewError):
            catalog.view(MOST, key=key)  # type: ignore[arg-type]
    catalog.view(MOST)


def test_a_catalog_owns_the_views_declared_in_it() -> None:
    """An equal view of another catalog is not its own."""
    one, other = Catalog(visit=VISIT), Catalog(visit=VISIT)
    view, twin = one.view(MOST), other.view(MOST)
    assert (one.owns(view), one.owns(twin), other.owns(view)) == (True, False, False)


def test_relations_and_views_are_not_to_be_written_to() -> None:
    """What the catalog shows is a view of it, not a way into it."""
    catalog = Catalog(visit=VISIT)
    with pytest.raises(TypeError):
        catalog.relations["x"] = ()  # type: ignore[index]
    with pytest.raises(TypeError):
        catalog.views["x"] = None  # type: ignore[index]


def test_a_catalog_shows_itself() -> None:
    """The repr can be read back; the notebook's table escapes what it is given."""
    catalog = Catalog(visit=VISIT, **{"<b>": "a INT"})
    catalog.view(MOST)
    assert repr(catalog).startswith("Catalog(visit='product STRING, user STRING, length INT', ")
    html = catalog._repr_html_()
    assert "<td>view</td><td>most</td><td>user STRING, most INT</td>" in html
    assert "&lt;b&gt;" in html


def test_all_errors_are_one_family() -> None:
    """Whoever catches ss.Error, or ValueError, catches all of them."""
    assert issubclass(Error, ValueError)
    assert all(issubclass(e, Error) for e in (SqlError, RelationError, ViewError))


def test_views_stand_on_views_up_to_a_height() -> None:
    """150 operators one above the other work in every engine; one more is refused by name and leaves the catalog."""
    catalog = ss.Catalog(t="a INT, b INT")
    below = "t"
    for number in range(149):
        view = catalog.view(f"CREATE VIEW v{number} AS SELECT a, b + 0 AS b FROM {below}")
        below = view.name
    with pytest.raises(ss.SqlError, match="view high stands on 150 operators, one above the other; 150 are the most"):
        catalog.view(f"CREATE VIEW high AS SELECT a, b + 1 AS b FROM {below}")
    assert "high" not in catalog.views
    for kind in ss.KINDS:
        with ss.engine(kind, [view]) as engine:
            engine.step({"t": [((1, 2), +1)]})
            assert engine.read(view.name, key=(1,)).values.tolist() == [[1, 2]]
            assert view.explain() and engine.state().rows.sum() >= 1


def test_a_view_read_twice_at_each_level_is_walked_once() -> None:
    """Self-joins over self-joins have as many operators as views, not as many as ways through them."""
    catalog = ss.Catalog(t="a INT, b INT")
    below = "t"
    for number in range(30):
        view = catalog.view(
            f"CREATE VIEW v{number} AS SELECT x.a, y.b FROM {below} AS x JOIN {below} AS y ON x.a = y.a"
        )
        below = view.name
    # A join and a projection a view, and the relation under both sides of the first.
    assert sum(1 for _ in view.plan.walk()) == 2 + 2 * 30
