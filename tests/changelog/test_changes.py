"""changes: rows with diffs, as a caller sees them."""

import numpy as np
import pandas as pd
import pytest

import sharedstate_lite as ss


def test_changes_round_trip() -> None:
    """Changes convert to pandas and Arrow and back, negate, and give their kinds without a unique key."""
    catalog = ss.Catalog(visit="product STRING, user STRING, length INT")
    engine = ss.engine("full", [catalog.view("CREATE VIEW v0 AS SELECT product, length FROM visit")])
    out = engine.step({"visit": [(("b", "x", 2), 3), ((None, "x", None), 1), (("a", "x", 1), 1)]})["v0"]
    assert out.kinds() == ["+I"] * 3
    frame = out.to_pandas()
    assert frame["product"].fillna("NULL").tolist() == ["a", "b", "NULL"]
    assert frame["diff"].tolist() == [1, 3, 1]
    assert frame["diff"].dtype == frame["time"].dtype == np.dtype("int64")
    assert ss.Changes.from_pandas(frame, out.schema) == ss.Changes.from_arrow(out.to_arrow(), out.schema) == out
    assert out.negate().to_pandas()["diff"].tolist() == [-1, -3, -1]
    assert "NULL" in out._repr_html_()


def test_an_update_is_two_rows_of_one_key() -> None:
    """A retraction and an insertion are an update only if their unique keys are equal, whatever follows what."""
    catalog = ss.Catalog(visit="user STRING, length INT")
    engine = ss.engine(
        "full", [catalog.view("CREATE VIEW v AS SELECT user, MAX(length) AS m FROM visit GROUP BY user")]
    )
    engine.step({"visit": [(("a", 1), 1), (("c", 1), 1), (("e", 1), 1)]})
    out = engine.step({"visit": [(("a", 1), -1), (("b", 1), 1), (("c", 2), 1), (("e", 1), -1), (("f", 1), 1)]})["v"]
    assert list(zip(out.to_pandas()["user"], out.kinds(), strict=True)) == [
        *(("a", "-D"), ("b", "+I"), ("c", "-U"), ("c", "+U"), ("e", "-D"), ("f", "+I")),
    ]


def test_what_is_no_table_makes_no_changes() -> None:
    """Anything but a table, a column of mixed types, and an invalid schema raise RowError."""
    mixed = pd.DataFrame({"a": [1, "x"], "diff": [1, 1]})
    for given, schema in ((None, None), ([1], None), (mixed, None), (mixed, "a INT"), (mixed, 3)):
        with pytest.raises(ss.RowError, match="^changes: "):
            ss.Changes.from_pandas(given, schema)  # type: ignore[arg-type]


def test_a_schema_is_given_in_any_form() -> None:
    """A list, a tuple and a generator of columns are the same schema."""
    schema, rows = ss.Catalog(r="a STRING").schema("r"), pd.DataFrame({"a": ["x"], "diff": [1]})
    forms = [tuple(schema), list(schema), (column for column in schema)]
    made = [ss.Changes.from_pandas(rows, form) for form in forms]  # type: ignore[arg-type]
    assert made[0] == made[1] == made[2]


def test_a_time_is_a_whole_number() -> None:
    """An invalid time raises TimeError at once; numpy integers are valid."""
    rows = pd.DataFrame({"a": ["x"], "diff": [1]})
    for odd in ("x", 1.5, True, 2**70):
        with pytest.raises(ss.TimeError, match="^changes: .* is not a time"):
            ss.Changes.from_pandas(rows, time=odd)  # type: ignore[arg-type]
    changes = ss.Changes.from_pandas(rows, time=np.int64(7))  # type: ignore[arg-type]
    assert changes.time == 7 and changes.to_pandas()["time"].tolist() == [7]
