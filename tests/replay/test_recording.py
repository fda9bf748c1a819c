"""The parts of a recording by themselves: parsed messages, judged answers, forked branches."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite.lessons.demo import MESSAGES, view
from sharedstate_lite.replay.forks import BranchTree
from sharedstate_lite.replay.messages import Deliver, Epoch, Evict, Hold, Install, Pause, Read, Resume, typed_values
from sharedstate_lite.replay.observer import ArrangementRead, Observer
from sharedstate_lite.replay.questions import Question
from sharedstate_lite.replay.recording import RowChange, Rows

EVE = Epoch((("visit", ("Potato", "Eve", 60), 1),))
REPLAY = ss.replay("full", [view()])

READ = {
    "visit Potato, Eve, 60": EVE,
    "+1 visit Potato, Eve, 60": EVE,
    "+ visit potato": None,
    "insert Visit ('Potato', \"Eve\", 60)": EVE,
    "visit Potato Eve 60": EVE,
    "−1 visit Potato, Eve, 60": Epoch((("visit", ("Potato", "Eve", 60), -1),)),
    "-2 visit Potato, NULL, 60": Epoch((("visit", ("Potato", None, 60), -2),)),
    "visit 'it''s; a, pot', 'NULL', -5": Epoch((("visit", ("it's; a, pot", "NULL", -5), 1),)),
    "info Potato, Root; -1 info Potato, Vegetable": Epoch(
        (("info", ("Potato", "Root"), 1), ("info", ("Potato", "Vegetable"), -1))
    ),
    "read result Vegetable": Read("result", ("Vegetable",)),
    "read Vegetable": Read("result", ("Vegetable",)),
    "read result": Read("result"),
    "READ RESULT 'New York'": Read("result", ("New York",)),
    "evict result": Evict("result"),
    "evict result NULL": Evict("result", (None,)),
    "install result": Install("result"),
    "hold slow 3": Hold("slow", 3),
    "hold slow": Hold("slow"),
    "pause": Pause(),
    "resume": Resume(),
    "deliver visit result.join1": Deliver("visit", "result.join1"),
}


@pytest.mark.parametrize("text", [t for t, wanted in READ.items() if wanted is not None])
def test_text_is_read_as_it_is_meant(text: str) -> None:
    """Typed text is parsed by the types of its relation; signs, brackets, quotes and case may vary."""
    assert REPLAY.message(text) == READ[text]


WRONG = {
    "": "the message is empty; type a message",
    "+1 nowhere Potato": "relation nowhere does not exist",
    "visit Potato, Eve": "visit takes 3 values",
    "visit Potato, Eve, sixty": "length must be a whole number, not sixty",
    "visit Potato, Eve, 6.5": "length must be a whole number",
    "visit": "visit takes 3 values",
    "read result a, b": "key of result takes 1 value .category., but the message has 2",
    "hold slow three": "the time must be the number of an epoch",
    "install nothing": "view nothing does not exist",
    "deliver visit": "deliver needs a sender and a receiver",
    "evict": "evict needs a name",
    "!?": "not a message",
}


@pytest.mark.parametrize("text", WRONG)
def test_text_that_is_wrong_gets_a_plain_sentence(text: str) -> None:
    """Text that cannot be parsed raises one sentence that names the culprit."""
    with pytest.raises(ss.Error, match=WRONG[text]) as error:
        REPLAY.message(text)
    assert "\n" not in str(error.value)


def test_short_forms_and_dictionaries_are_messages() -> None:
    """Short forms parse to the same messages as text."""
    assert REPLAY.message(("visit", ("Potato", "Eve", 60))) == EVE
    assert REPLAY.message(("visit", ["Potato", "Eve", 60], 1)) == EVE
    assert REPLAY.message([("visit", ("Potato", "Eve", 60))]) == EVE
    assert REPLAY.message({"visit": [(("Potato", "Eve", 60), 1)]}) == EVE
    assert REPLAY.message(("read", "result", "Vegetable")) == Read("result", ("Vegetable",))
    assert REPLAY.message(("read", REPLAY.views[0])) == Read("result")
    frame = pd.DataFrame({"LENGTH": [60, None], "product": ["Potato", "Nut"], "user": ["Eve", None]})
    assert REPLAY.message({"visit": frame.astype({"LENGTH": "Int32"})}) == Epoch(
        (("visit", ("Potato", "Eve", 60), 1), ("visit", ("Nut", None, None), 1))
    )
    assert REPLAY.message({"visit": frame.head(1).assign(diff=-1)}) == Epoch((("visit", ("Potato", "Eve", 60), -1),))
    with pytest.raises(ss.RowError, match="lacks product"):
        REPLAY.message({"visit": frame[["LENGTH", "user"]]})
    with pytest.raises(ss.RowError, match="the frame's index has product, so call reset_index"):
        REPLAY.message({"visit": frame.set_index("product")})
    for wrong in [("visit", ("Potato",)), 7, ["x"], {"visit": 5}, {"visit": [5]}, ("read",), b"visit", None]:
        with pytest.raises(ss.Error):
            REPLAY.message(wrong)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.text(alphabet="ab ,;'\"()NUL+-1é\n", max_size=6),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.dates(),
    st.datetimes().map(lambda t: t.replace(microsecond=0)),
)
EVERY = "s STRING, i INT, x DOUBLE, b BOOLEAN, d DATE, t TIMESTAMP"
TYPED = ss.replay("full", [ss.Catalog(every=EVERY).view("CREATE VIEW v AS SELECT s FROM every")])


@examples(60)
@given(
    st.tuples(
        st.none() | st.text(alphabet="ab ,;'\"()NUL+-1é", max_size=6),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.booleans(),
        st.none() | st.dates(),
        st.none() | st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)),
    ),
    st.sampled_from([1, -1, 3]),
)
def test_what_is_shown_can_be_typed_again(row: tuple[object, ...], diff: int) -> None:
    """The text of a message parses to the same message."""
    message = Epoch((("every", row, diff),))
    assert TYPED.message(message.text) == message


# --- questions ------------------------------------------------------------------

MOVED = Question("?", "rows", (("-U", "Vegetable", 50), ("+U", "Vegetable", 60)), "-U a 1, +U a 2")


@pytest.mark.parametrize(
    "typed",
    [
        "-U Vegetable 50, +U Vegetable 60",
        "+U vegetable 60; -u VEGETABLE 50",
        "-1 Vegetable 50 +1 Vegetable 60",
        "- (Vegetable, 50), + ('Vegetable', 60.0)",
        "[('-U', 'Vegetable', 50), ('+U', 'Vegetable', 60)]",
        "−U Vegetable 50\n+U Vegetable 60.",
        "delete Vegetable 50, insert Vegetable 60",
        "-1 50 Vegetable, +1 60 Vegetable",
    ],
)
def test_an_answer_is_read_leniently(typed: str) -> None:
    """Order, case, quotes, brackets and +1 for +U make no difference."""
    assert MOVED.check(typed).right is True


@pytest.mark.parametrize(
    "typed",
    ["+U Vegetable 60", "-U Vegetable 50, +U Vegetable 60, +U Fruit 40", "-U Vegetable 60, +U Vegetable 50", "nothing"]
    + ["-I Vegetable 50, +I Vegetable 60", "-U Vegetable 50, +U Vegetable 61", "+U Vegetable 50, -U Vegetable 60"],
)
def test_an_answer_is_judged_strictly(typed: str) -> None:
    """A missing, added or altered row is wrong, and the reply contains the answer."""
    verdict = MOVED.check(typed)
    assert verdict.right is False and MOVED.answer in verdict.text


@pytest.mark.parametrize("typed", ["", "  ", "Vegetable 60", "what?", "-60 +50", "-1 Potato", "-U 50, +U 60"])
def test_an_answer_that_cannot_be_read_is_neither(typed: str) -> None:
    """The reply to an unreadable answer, or to one without all values, shows how to type one."""
    verdict = MOVED.check(typed)
    assert verdict.right is None and "-U a 1" in verdict.text


def test_answers_of_other_forms() -> None:
    """Nothing, keys, yes and no, counts and fractions are answers too."""
    assert Question("?", "rows", ()).check("nothing").right is True
    assert Question("?", "rows", ()).check("+1 a").right is False
    keys = Question("?", "keys", (("Carrot", "Vegetable"), ("Potato", "Vegetable")), short=(1,))
    assert all(keys.check(t).right for t in ["potato, carrot", "Carrot Vegetable, Potato Vegetable"])
    assert keys.check("Carrot").right is False
    hole = Question("?", "yes", (("yes",),))
    assert [hole.check(t).right for t in ["yes", "N", "perhaps"]] == [True, False, None]
    twice = Question("?", "rows", (("+2", "New York", None, 1 / 3),))
    assert all(
        twice.check(t).right for t in ["+2 'New York' NULL 0.33", "+1 new york null .3333, +1 new york null .33"]
    )
    assert twice.check("+1 New York NULL 0.33").right is False
    asked = Question("?", "rows", (("-1", "Vegetable", 60),), "+1 a 1", columns=("category", "length"))
    assert asked.check("-1 Potato").text == "Type all values of each row: category, length (+1 a 1)."
    assert asked.check("-1 60 Vegetable").right is True and asked.check("+1 60 Vegetable").right is False
    numbers = Question("?", "rows", (("+1", 3, 4),))
    assert [numbers.check(t).right for t in ["+1 3 4", "+1 4 3", "+1 3"]] == [True, False, None]


@examples(60)
@given(st.lists(st.tuples(st.sampled_from(["+1", "-1", "+2", "+I", "-U", "+U"]), VALUES, VALUES), max_size=5))
def test_the_expected_answer_is_right(rows: list[tuple[object, ...]]) -> None:
    """The answer as displayed is judged right, for any values."""
    question = Question("?", "rows", tuple(rows))
    assert question.check(question.answer).right is True
    keys = Question("?", "keys", tuple(row[1:] for row in rows))
    assert keys.check(keys.answer).right is True


# --- branches -------------------------------------------------------------------


def test_a_branch_leaves_where_it_differs() -> None:
    """An edited history shares its steps with its parent up to the first different message; the parent stays."""
    tree = BranchTree.of(REPLAY, MESSAGES)
    fork, word = tree.edit(tree.main, 7, "visit Carrot, Bob, 45")
    assert fork is not None and word == "" and fork.name == "A" and fork.forked_at == 7 and fork.parent is tree.main
    before = tree.main.recording.messages[5].last
    assert [s.caption for s in fork.recording.steps[:before]] == [s.caption for s in tree.main.recording.steps[:before]]
    emitted = [list(r.steps[r.messages[6].last - 1].emitted) for r in (tree.main.recording, fork.recording)]
    assert emitted == [[RowChange(("Vegetable", 50), 1, "+I")], [RowChange(("Vegetable", 45), 1, "+I")]]
    second, _ = tree.edit(fork, 9, None)
    assert second is not None and len(second.messages) == 8 and second.label == "without +1 visit Potato, Eve, 60"
    third, _ = tree.edit(tree.main, 1, "info Nut, Nut", insert=True)
    assert third is not None and len(third.messages) == 10 and third.forked_at == 1
    last, _ = tree.edit(tree.main, 10, "visit Apple, Eve, 99")
    assert last is not None and last.forked_at == 10
    assert [b.name for b in tree.all] == ["main", "A", "B", "C", "D"]


def test_a_refused_edit_changes_nothing() -> None:
    """A refused message returns the error and makes no branch; nor does an edit without effect."""
    tree = BranchTree.of(REPLAY, MESSAGES)
    for message, word in [("visit Carrot, Bob, long", "whole number"), ("-1 visit Nut, Bob, 1", "retracted")]:
        fork, why = tree.edit(tree.main, 7, message)
        assert fork is None and word in why and tree.all == [tree.main]
    assert tree.edit(tree.main, 7, MESSAGES[6]) == (tree.main, "") and tree.all == [tree.main]
    for at, message in [(0, "x"), (11, "x"), (10, None)]:
        with pytest.raises(IndexError, match="messages 1 to 9"):
            tree.edit(tree.main, at, message)


def test_a_later_message_that_becomes_invalid_is_refused() -> None:
    """A later message that the edit makes invalid is refused in its place, and the following ones apply."""
    tree = BranchTree.of(REPLAY, [*MESSAGES, ("visit", ("Potato", "Eve", 60), -1), ("visit", ("Apple", "Eve", 99))])
    fork, word = tree.edit(tree.main, 9, "visit Potato, Eve, 70")
    assert fork is not None and word == ""
    refused = [t.number for t in fork.recording.messages if t.refused]
    assert refused == [10] and fork.recording.messages[10].epoch == 10
    assert fork.recording.steps[fork.recording.messages[9].first - 1].kind == "refused"


def test_rows_are_decoded_when_they_are_looked_at() -> None:
    """The number of rows costs no decoding, and the first rows cost only theirs."""
    asked: list[int] = []

    def make(most: int) -> list[RowChange]:
        asked.append(most)
        return [RowChange((i,), 1) for i in range(most)]

    rows = Rows(100_000, make)
    assert len(rows) == 100_000 and asked == []
    assert rows.first(2) == [RowChange((0,), 1), RowChange((1,), 1)] and asked == [2]
    assert rows[99_999].row == (99_999,) and asked == [2, 100_000]
    assert typed_values(("Potato", None, True, "a,b", "")) == "Potato, NULL, TRUE, 'a,b', ''"


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_a_join_reads_each_key_of_its_rows_once(kind: str) -> None:
    """A recording shows the keys that a join looked up, without NULL, which joins with nothing."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
    view = catalog.view("CREATE VIEW v AS SELECT category, length FROM info JOIN visit USING (product)")
    with ss.engine(kind, [view]) as engine:
        observer = Observer(engine)
        engine.step({"info": [(("a", "x"), 1)]})
        observer.follow(engine.all_arrangements())
        engine.step({"visit": [(("a", 1), 1), (("a", 2), 1), (("b", 2), 1), ((None, 3), 1)]})
        strings = engine.dictionary.strings
        reads = [e for e in observer.take(len(strings)) if isinstance(e, ArrangementRead)]
        assert [sorted(strings.texts(read.words[0])) for read in reads] == [["a", "b"]]
