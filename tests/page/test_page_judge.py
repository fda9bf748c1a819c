"""The judge of page.js agrees with Python's. The texts of the notebooks' questions are judged in tests/notebooks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from cases import CASES as CASES_OF_VIEWS
from drawn import of_case, seed
from judged import judged
from test_show_predict import CASES

from sharedstate_lite.replay.data import question_data as recorded_question
from sharedstate_lite.show import question
from sharedstate_lite.show.page.data import question_data, unsealed

PIECES = [
    *"0 1 2 7 16 50 188,796 2.500 1,5 0.75 66.7 1e3 ½ % x ? - + = / ( ) , . ' \" : ; &".split(),
    *"no not about a the half third twice times k thousand minus of or and all both none nothing s sec rows".split(),
    *"left right visit JOIN joined answer Vegetable fruit +U -U +I -D +1 -1 zero sixteen it's n't ß İ 5s".split(),
]
TEXTS = 60
"""How many texts are drawn for each question."""


def drawn(texts: list[str], chance: random.Random) -> Iterator[str]:
    """Texts like these: joined, cut, and with pieces put in or in place of a word."""
    for _ in range(TEXTS):
        words = chance.choice(texts).split()
        for _ in range(chance.randint(1, 3)):
            at = chance.randint(0, len(words))
            words[at : at + chance.randint(0, 1)] = chance.choices(PIECES, k=chance.randint(0, 2))
        text = chance.choice([" ", " ", ", ", ""]).join(words)
        yield text if chance.random() < 0.8 else text.upper()


def test_verdicts_and_explanations_are_those_of_python() -> None:
    """The texts of tests/show, and thousands that are drawn from them, get the same verdict and explanation."""
    chance, asked = random.Random(20261130), []
    for case, *columns in CASES.values():
        texts = [text for column in columns for text in column.split("|")]
        asked.append((case, [*texts, *drawn(texts, chance)]))
    found = judged((question_data(case), texts) for case, texts in asked)
    for (case, texts), verdicts in zip(asked, found, strict=True):
        python = {text: (case.judge(text), case.why(text) if case.judge(text) is False else "") for text in texts}
        assert verdicts == python
    told = [right for each in found for right, _ in each.values()]
    assert all(told.count(right) > 150 for right in (True, False, None))


def test_verdicts_of_the_stepper_are_those_of_python() -> None:
    """The questions of four histories, answered right, in part, in other words and with nonsense."""
    chance, asked = random.Random(20261201), []
    for made in (seed("full"), seed("shared"), seed("partial"), of_case(CASES_OF_VIEWS["shopping"], "full")):
        for step in made.recording.steps:
            if step.question is not None:
                answer = step.question.answer
                texts = ["", "nothing", "yes", "No.", answer, answer.upper(), answer.replace(",", ";"), f"{answer}!"]
                texts += [answer.replace("+U", "+1").replace("-U", "-1"), answer.replace("Vegetable", "Fruit")]
                asked.append((step.question, [*texts, *drawn(texts[1:], chance)]))
    found = judged((recorded_question(each), texts) for each, texts in asked)
    for (each, texts), verdicts in zip(asked, found, strict=True):
        python = {text: each.check(text) for text in texts}
        assert verdicts == {text: (verdict.right, verdict.text) for text, verdict in python.items()}
    told = [right for each in found for right, _ in each.values()]
    assert all(told.count(right) > 100 for right in (True, False, None))


def test_what_is_shown_after_an_answer_is_sealed() -> None:
    """The data that a page has in the open contains neither the answer nor an explanation."""
    data = question_data(question("How many?", 4711, {12: "Both are stored.", "right": "One on each side."}))
    sealed = unsealed(data)
    assert (sealed["shown"], sealed["because"], sealed["whys"]) == (
        *("4,711", "One on each side."),
        [{"wrong": 12.0, "said": "12", "why": "Both are stored."}],
    )
    assert not any(word in str(data) for word in ("4711", "4,711", "stored", "side"))
