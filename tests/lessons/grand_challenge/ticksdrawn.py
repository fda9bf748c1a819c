"""Drawn batches of the Grand Challenge, and the comparison of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from sharedstate_lite.lessons.grand_challenge import Record, answers
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch, Event, ResultQ1, ResultQ2

TRADES = 4_000
WINDOW = 300
Answers = list[tuple[ResultQ1, ResultQ2]]


@st.composite
def events(draw: st.DrawFn) -> Event:
    """An event of one of four symbols within seven windows, often at their edges or at equal times."""
    event = Event(symbol=draw(st.sampled_from("ABCD")), security_type=draw(st.sampled_from([0, 1])))
    event.last_trade_price = draw(st.sampled_from([1.0, 2.0, 3.0, 0.1, -1.0, 1e30, 0.0, float("nan"), float("inf")]))
    if draw(st.integers(0, 9)):
        event.last_trade.seconds = draw(st.integers(-1, 5)) * WINDOW + draw(st.sampled_from([0, 1, 150, WINDOW - 1]))
        event.last_trade.nanos = draw(st.sampled_from([0, 1, 999_999_999]))
    return event


streams = st.lists(
    st.tuples(st.lists(events(), max_size=12), st.lists(st.sampled_from("ABCDE"), max_size=4)), min_size=1, max_size=8
).map(
    lambda all_: [
        Batch(seq_id=n, last=n + 1 == len(all_), lookup_symbols=asked, events=came)
        for n, (came, asked) in enumerate(all_)
    ]
)
"""Batches with any times and sizes; symbols asked about twice, and one that is never traded."""


def expected(batches: Iterable[Batch], benchmark: int = 0) -> Answers:
    """The single pass's answers."""
    return list(answers(batches, benchmark))


def check(record: Record, batches: Sequence[Batch], benchmark: int) -> None:
    """Every answer arrived and equals the single pass's."""
    assert record.missing == 0
    assert record.answers == expected(batches, benchmark)
