"""Rules 18, 20 and 22: the races of partial state, in every delivery order that the edges allow.

Each scenario starts from one paused engine and runs all interleavings by depth-first search. At the end the filled
keys must equal full state. With the fix switched off some order must give a wrong answer, which shows that the
check can fail.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from raced import BEFORE, RELATIONS

import sharedstate_lite as ss

VIEWS = {
    "one": "SELECT product, COUNT(*) AS n, MAX(length) AS m FROM visit GROUP BY product",
    "joined": "SELECT category, COUNT(*) AS n, SUM(length) AS s FROM info JOIN visit USING (product) GROUP BY category",
    "left_join": "SELECT i.product, i.category, v.length FROM info i LEFT JOIN visit v ON i.product = v.product",
    "both": "SELECT product, length FROM visit UNION ALL SELECT product, 0 AS length FROM info",
    "by_author": "SELECT author, COUNT(*) AS n FROM story GROUP BY author",
    "stories": "SELECT s.id, s.author, a.n FROM story s JOIN by_author a ON s.author = a.author",
}


class Race:
    """A partial engine beside a full one, with the remaining actions."""

    def __init__(self, name: str, filled: list[Any], actions: list[Any], without: tuple[str, ...] = ()) -> None:
        catalog = ss.Catalog(**RELATIONS)
        views = {n: catalog.view(f"CREATE VIEW {n} AS {sql}") for n, sql in VIEWS.items()}
        self.name, self.actions = name, list(actions)
        self.partial = ss.engine("partial", [views[name]], without=without)
        self.full = ss.engine("full", [views[name]])
        for engine in (self.partial, self.full):
            engine.step(BEFORE)
        for key in filled:
            self.partial.read(name, key=key)
        self.partial.pause()

    def act(self) -> None:
        """Issue the next action: a step, or a read of a key."""
        action = self.actions.pop(0)
        if isinstance(action, dict):
            self.partial.step(action)
            self.full.step(action)
        else:
            self.partial.read(self.name, key=action[0])

    def choices(self) -> list[int | None]:
        """The messages that may be delivered now, and None for the next action."""
        first: dict[tuple[str, str], int] = {}
        for number, message in enumerate(self.partial.messages()):
            first.setdefault(message.edge, number)
        return [*first.values(), *([None] if self.actions else [])]

    def wrong(self) -> str | None:
        """The faults once everything is delivered: answers that differ from full state's."""
        self.partial.resume()
        for key in self.partial.filled(self.name):
            got, want = self.partial.read(self.name, key=key), self.full.read(self.name, key=key)
            if not got.equals(want):
                return f"key {key}: {got.to_dict('list')} instead of {want.to_dict('list')}"
        return None


def endings(race: Race, deliveries: int) -> Iterator[Race]:
    """Every way to take ``deliveries`` turns; the remaining messages are delivered oldest first."""
    options = race.choices()
    if not options or not deliveries:
        while race.actions:
            race.act()
        yield race
        return
    for option in options:
        branch = copy.deepcopy(race)
        if option is None:
            branch.act()
        else:
            branch.partial.deliver(option)
        yield from endings(branch, deliveries - 1)


def outcomes(
    name: str, filled: list[Any], actions: list[Any], without: tuple[str, ...], turns: int
) -> list[str | None]:
    """The faults at the end of each order."""
    return [race.wrong() for race in endings(Race(name, filled, actions, without), turns)]


NEW = {"info": [(("d", "F"), 1)], "visit": [(("d", "z", 9), 1)]}
MOVED = {"info": [(("b", "F"), -1), (("b", "G"), 1)]}
RULE_18 = {
    "a read and then a change of its key": ("one", [], [("b",), {"visit": [(("b", "x", 7), 1)]}], 8),
    "a change and then a read of its key": ("one", [], [{"visit": [(("b", "x", 7), 1)]}, ("b",)], 8),
    "both sides of a join at once": ("joined", [("F",)], [NEW], 4),
    "both sides leave at once": ("joined", [("F",)], [{"info": [(("b", "F"), -1)], "visit": [(("b", "x", 5), -1)]}], 4),
    "a row moves between filled keys": ("joined", [("F",), ("G",)], [MOVED, {"visit": [(("b", "q", 2), 1)]}], 4),
    "a left join loses its partner": (
        "left_join",
        [("b",)],
        [{"visit": [(("b", "x", 5), -1)], "info": [(("b", "K"), 1)]}],
        4,
    ),
}


@pytest.mark.parametrize("scenario", RULE_18)
def test_rule_18_each_change_counts_once_in_any_order(scenario: str) -> None:
    """Each change is applied once, in whatever order a response and changes arrive."""
    name, filled, actions, turns = RULE_18[scenario]
    found = outcomes(name, filled, actions, (), turns)
    assert len(found) > 1
    assert set(found) == {None}


# Asked after the change, a question gets the right version by luck; a row that moves on one side meets no other.
@pytest.mark.parametrize("scenario", [s for s in RULE_18 if "moves" not in s and "then a read" not in s])
def test_rule_18_fails_without_its_fix(scenario: str) -> None:
    """If base tables are read without regard to messages in flight, some order loses or repeats a change."""
    name, filled, actions, turns = RULE_18[scenario]
    assert any(outcomes(name, filled, actions, ("rule18",), turns))


TO_TALIA = {"story": [((7, "Elena"), -1), ((7, "Talia"), 1)]}


def test_rule_20_an_incongruent_join_evicts_what_it_cannot_update() -> None:
    """Story 7 moves to an author who is a hole: the next read of story 7 is not empty, in any order."""
    for race in endings(Race("stories", [(7,)], [TO_TALIA]), 4):
        race.partial.resume()
        got = race.partial.read("stories", key=7)
        assert got["author"].tolist() == ["Talia"]
        assert race.wrong() is None


def test_rule_20_fails_without_its_fix() -> None:
    """If the join treats a hole as absence, story 7 is empty and cached."""
    race = Race("stories", [(7,)], [TO_TALIA], ("rule20",))
    race.act()
    race.partial.resume()
    assert race.partial.read("stories", key=7).empty


RULE_22 = [("b",), {"visit": [(("b", "q", 2), 1)]}, {"info": [(("b", "Z"), 1)]}]


def asked_both(without: tuple[str, ...]) -> Race:
    """A union that has asked both its inputs for key b, and received no response."""
    race = Race("both", [], RULE_22, without)
    race.act()
    while [m.edge for m in race.partial.messages()].count(("both", "both.union1")) or len(race.partial.messages()) < 2:
        race.partial.deliver(0)
    return race


def test_rule_22_changes_between_the_halves_of_a_union() -> None:
    """A change between the two responses of a union is added only for the side that has answered."""
    found = [race.wrong() for race in endings(asked_both(()), 5)]
    assert len(found) > 30
    assert set(found) == {None}


def test_rule_22_fails_without_its_fix() -> None:
    """If the stored half is not kept current, some order loses a change."""
    assert any(race.wrong() for race in endings(asked_both(("rule22",)), 5))


MORE = [(7,), {"story": [((7, "Talia"), 1)]}, {"story": [((10, "Elena"), 1)]}]


def asked_other(without: tuple[str, ...]) -> Race:
    """A join whose primary side has answered a read of story 7, and that asks for the number of Elena's stories."""
    race = Race("stories", [], MORE, without)
    race.act()
    while ("stories.join1", "by_author.group1") not in [m.edge for m in race.partial.messages()]:
        race.partial.deliver(0)
    return race


def test_rule_22_changes_between_two_questions_of_a_join() -> None:
    """Story 7 gets another author, so the join asks again; what Elena's answer said is kept current until then."""
    found = [race.wrong() for race in endings(asked_other(()), 4)]
    assert len(found) > 30
    assert set(found) == {None}


def test_rule_22_of_a_join_fails_without_its_fix() -> None:
    """If the answer for Elena is not kept current, some order loses a change."""
    assert any(race.wrong() for race in endings(asked_other(("rule22",)), 4))


def test_a_row_without_a_partner_evicts_nothing() -> None:
    """A row whose join key is NULL has no partner that could be a hole, so its key stays filled."""
    race = Race("stories", [(7,)], [{"story": [((7, None), 1)]}])
    race.act()
    race.partial.resume()
    assert race.partial.filled("stories") == [(7,)] and race.wrong() is None
