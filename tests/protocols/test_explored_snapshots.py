"""Snapshot protocols: the right ones pass rule 23' in every order with a crash anywhere; each wrong variant fails."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite import protocols as s
from sharedstate_lite.errors import Error

ROWS = ((1, 2), (10,))
SMALL = ((1,), (10,))


def interleavings(records: tuple[tuple[int, ...], ...]) -> set[tuple[int, ...]]:
    """The totals in every order in which the sources' rows can be mixed, without any protocol."""
    turns = [i for i, rows in enumerate(records) for _ in rows]
    found = set()
    for order in set(permutations(turns)):
        sources = [iter(rows) for rows in records]
        found.add(tuple(accumulate(next(sources[i]) for i in order)))
    return found


def batches(rows: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The totals after each batch, in every way to cut the rows into batches."""
    if not rows:
        yield ()
    for n in range(1, len(rows) + 1):
        for rest in batches(rows[n:]):
            first = sum(rows[:n])
            yield (first, *(first + total for total in rest))


TOLD = interleavings(ROWS)
BY_TIME = {(1, 11, 13)}
"""The order by (number, source): 1, 10, 2."""
MOVED = {((13,), (*totals, "timer: 13")) for totals in TOLD}


def expected(protocol: s.Protocol[Any]) -> set[tuple[Any, ...]]:
    """The outcomes without a crash, from sums alone."""
    if isinstance(protocol, s.EpochCommit):
        return {((13,), (3, 13))}
    if isinstance(protocol, s.SparkBatches):
        return {((13,), totals) for totals in batches((1, 2, 10))}
    if isinstance(protocol, s.Loop):
        return {((1 + 2 + 2,), (5,))}  # 1 comes back as 2
    if isinstance(protocol, s.MoveBin):
        return MOVED
    told = BY_TIME if isinstance(protocol, s.UpstreamBackup) and protocol.by_time else TOLD
    return {((13, totals), totals) for totals in told}


RIGHT: dict[str, tuple[s.Protocol[Any], int, set[int]]] = {
    "pause all": (s.PauseAll(most=2), 1, {0, 1, 2}),
    "aligned": (s.Aligned(most=2), 1, {0, 1, 2}),
    "aligned, two crashes": (s.Aligned(), 2, {0, 1}),
    "Chandy-Lamport": (s.ChandyLamport(), 2, {0, 1}),
    "overtaking": (s.Overtaking(), 1, {0, 1}),
    "strong productions": (s.StrongProductions(), 2, {0, 1, 2, 3}),
    "upstream backup": (s.UpstreamBackup(), 2, {0, 1}),
    "causal logs": (s.CausalLogs(most=2), 1, {0, 1, 2}),
    "causal logs, two crashes": (s.CausalLogs(), 2, {0, 1}),
    "epoch commit": (s.EpochCommit(), 2, {0, 1, 2}),
    "Spark": (s.SparkBatches(), 2, {0, 1, 2, 3}),
    "loop": (s.Loop(), 1, {0, 1}),
    "a bin moves": (s.MoveBin(), 1, set()),
}
"""Each right protocol, how many crashes, and the snapshots from which some recovery continues."""


@pytest.mark.parametrize("name", RIGHT)
def test_rule_23_outcomes_with_crashes_are_among_those_without(name: str) -> None:
    """Every outcome with crashes is one without, no run gets stuck, and later snapshots than the first are used."""
    protocol, crashes, restored = RIGHT[name]
    found = s.explore(protocol, crashes)
    assert found.right and found.finished and not found.trace, found
    assert set(found.outcomes) == found.allowed == expected(protocol)
    assert found.restored == restored


WRONG: dict[str, tuple[s.Protocol[Any], int, int, int, Any, str]] = {
    "pause, not drained": (s.PauseAll(drain=False), 1, 33, 30, (0, ()), "crash: all continue from snapshot 1"),
    "last barrier, no block": (s.Aligned(block=False), 1, 22, 19, (23, (1, 3, 13, 23)), "k takes 23"),
    "first barrier, no log": (s.ChandyLamport(log_rows=False), 1, 9, 6, (10, (10,)),
        "crash: all continue from snapshot 1"),
    "overtaking, no log": (s.Overtaking(log_rows=False), 1, 33, 30, (0, ()), "crash: all continue from snapshot 1"),
    "rows not known": (s.StrongProductions(know_rows=False), 1, 17, 14, (15, (1, 3, 13, 15)), "k takes #4  15"),
    "sent, then written": (s.StrongProductions(write_first=False), 1, 4, 1, (13, (10, 3, 13)), "k takes #3  13"),
    "outputs not known": (s.StrongProductions(drop_repeats=False), 1, 12, 9, (13, (1, 1, 3, 13)), "k takes #3  13"),
    "as they arrive": (s.UpstreamBackup(by_time=False), 1, 4, 1, (13, (10, 3, 13)), "k takes #3  13"),
    "trimmed early": (s.UpstreamBackup(trim_early=True), 1, 10, 9, (0, ()),
        "c crashes and continues from checkpoint 0"),
    "outputs not kept": (s.UpstreamBackup(keep_outputs=False), 1, 7, 6, (13, ()),
        "c crashes and continues from checkpoint 1"),
    "backup, twice": (s.UpstreamBackup(drop_repeats=False), 1, 7, 6, (13, (1, 1, 11, 13)), "k takes #3  13"),
    "no determinants": (s.CausalLogs(replay_order=False), 1, 4, 1, (13, (10, 3, 13)), "k takes #3  13"),
    "one determinant late": (s.CausalLogs(late=True), 1, 4, 1, (13, (10, 3, 13)), "k takes #3  13"),
    "causal, twice": (s.CausalLogs(drop_repeats=False), 1, 21, 18, (13, (1, 1, 3, 13)), "k takes #3  13"),
    "k forgets": (s.CausalLogs(k_forgets=True), 2, 4, 1, (13, (10, 3, 13)), "k takes #3  13"),
    "sink without id": (s.EpochCommit(once=False), 2, 6, 5, (13,), "commit offset and state"),
    "offset, then state": (s.EpochCommit(("work", "emit", "offset", "state")), 2, 4, 3, (3,),
        "crash: continue from epoch 3"),
    "state, then offset": (s.EpochCommit(("work", "emit", "state", "offset")), 2, 6, 5, (23,), "write the offset"),
    "Spark, no offset log": (s.SparkBatches(log_offsets=False), 2, 7, 3, (13,), "batch 0: log the commit"),
    "Spark, one state": (s.SparkBatches(versions=False), 2, 63, 59, (26,), "batch 0: log the commit"),
    "Spark, sink without id": (s.SparkBatches(once=False), 2, 25, 21, (13,), "batch 0: log the commit"),
    "rows not held": (s.MoveBin(hold=False), 1, 29, 26, (3,), "b takes the bin"),
    "at the first input": (s.MoveBin(all_inputs=False), 1, 23, 20, (10,), "b takes the bin"),
    "timer left behind": (s.MoveBin(timers=False), 1, 6, 3, (13,), "b takes the bin"),
}  # fmt: skip
"""Each wrong variant: crashes, outcomes, wrong ones, the state in which its shortest trace ends, the last action."""


@pytest.mark.parametrize("name", WRONG)
def test_rule_25_a_wrong_variant_is_found_with_its_shortest_trace(name: str) -> None:
    """Without a crash, every outcome is right. With one, some outcomes are wrong, and a shortest trace leads to one."""
    protocol, crashes, outcomes, wrong, state, last = WRONG[name]
    without, found = s.explore(protocol, 0), s.explore(protocol, crashes)
    assert without.stuck is None and set(without.outcomes) == expected(protocol)
    assert not found.right and found.finished
    assert (len(found.outcomes), len(found.wrong)) == (outcomes, wrong)
    assert found.end.state == state and found.trace[-2] == last
    run = s.replay(protocol, found.trace)
    assert not run.stopped_at and run.world.outcome == found.end and run.world.ended
    assert found.end not in expected(protocol)


def test_a_shortest_trace_is_shortest() -> None:
    """No shorter order of actions ends in a wrong outcome; depth first, without merging equal worlds."""
    protocol = s.EpochCommit(("work", "emit", "state", "offset"))
    found = s.explore(protocol)

    def ends(world: Any, crashes: int, length: int) -> Iterator[int]:
        if world.ended:
            if world.outcome not in expected(protocol):
                yield length
            return
        for action in protocol.actions(world):
            yield from ends(action.world, crashes, length + 1)
        for action in protocol.crash(world) if crashes else ():
            yield from ends(action.world, crashes - 1, length + 1)

    assert min(ends(protocol.start(), 1, 0)) == len(found.trace)


@pytest.mark.parametrize("protocol", [s.Aligned, s.ChandyLamport, s.Overtaking, s.PauseAll])
def test_a_plain_sink_repeats_its_output(protocol: Any) -> None:
    """With a plain sink the state is right and the output is not: it repeats what came after the snapshot."""
    found = s.explore(protocol(plain=True, records=SMALL))
    assert found.wrong and found.wrong_states == 0
    for end in found.wrong:
        told, rest = end.state[1], list(end.output)
        assert len(rest) > len(told)
        for total in told:
            rest.remove(total)  # everything arrives at least once


@pytest.mark.parametrize(
    ("variant", "words", "actions"),
    [
        (s.PauseAll(drain=False), "misses a row that was sent", 3),
        (s.Aligned(block=False), "contains a row that was received and not sent", 9),
        (s.ChandyLamport(log_rows=False), "misses a row that was sent", 8),
        (s.Overtaking(log_rows=False), "misses a row that was sent", 7),
        (s.CausalLogs(late=True), "without the order that it depends on", 3),
        (s.MoveBin(hold=False), "the bin has 2 owners", 4),
        (s.MoveBin(all_inputs=False), "the bin has 2 owners", 5),
        (s.MoveBin(timers=False), "the timer is not where its bin is", 7),
    ],
)
def test_rule_24_a_wrong_cut_is_seen_before_the_crash(variant: Any, words: str, actions: int) -> None:
    """An invariant of the world fails earlier than the outcome: the snapshot is no consistent cut, or two own a bin."""
    found = s.explore(variant)
    broken = found.broken
    assert broken is not None and words in broken[0]
    assert len(broken[1]) == actions < len(found.trace)
    assert not any("crash" in label for label in broken[1])


def test_rule_24_what_a_snapshot_stores_of_channels() -> None:
    """Aligned never stores a row of a channel, and the unaligned ones do; both hold back or log, never both."""
    assert s.costs(s.Aligned()) == {"held": (0, 2), "writes": (0, 4), "delayed": (3, 3)}
    assert s.costs(s.ChandyLamport()) == {"logged": (0, 2), "writes": (0, 4), "delayed": (3, 3)}
    assert s.costs(s.Overtaking()) == {"logged": (0, 3), "writes": (0, 4), "delayed": (3, 3)}
    assert s.costs(s.PauseAll()) == {"held": (0, 3), "writes": (0, 4), "delayed": (3, 3)}


def test_rule_26_a_bin_moves_in_every_order() -> None:
    """With a move at any moment, the outcomes are those without. What lacks a part of the protocol is in WRONG."""
    found = s.explore(s.MoveBin(), 1)
    assert found.right and set(found.outcomes) == MOVED


def test_costs_of_the_other_protocols() -> None:
    """One write a row, one a checkpoint, two an epoch; a move holds rows back; outputs of one operator do not wait."""
    assert s.costs(s.StrongProductions()) == {"writes": (3, 3)}
    assert s.costs(s.UpstreamBackup()) == {"logged": (0, 3), "writes": (0, 1)}
    assert s.costs(s.CausalLogs()) == {"held": (0, 2), "writes": (0, 4)}
    assert s.costs(s.EpochCommit()) == {"writes": (2, 2), "delayed": (3, 3)}
    assert s.costs(s.SparkBatches()) == {"writes": (3, 9), "delayed": (3, 3)}
    assert s.costs(s.MoveBin(), crashes=1) == {"held": (0, 3)}
    assert [p.restarts for p in (s.Aligned(), s.CausalLogs(), s.StrongProductions(), s.UpstreamBackup())] == [
        4,
        1,
        1,
        1,
    ]


def test_aligned_barriers_never_complete_in_a_loop() -> None:
    """c waits for a barrier that only c can send; the unaligned snapshot completes, and logs the rows of the loop."""
    stuck = s.explore(s.Loop(aligned=True))
    assert not stuck.right and stuck.stuck is not None and "nothing can happen" in repr(stuck)
    world = s.replay(s.Loop(aligned=True), stuck.stuck).world
    assert world.waits and world.under_way and not world.saved.number
    assert 1 not in stuck.restored and 1 in s.explore(s.Loop()).restored
    assert s.costs(s.Loop())["logged"] == (0, 1)


def test_k_without_its_order_is_harmless_until_c_crashes() -> None:
    """One crash of k alone changes no outcome, but the invariant sees that c could no longer recover."""
    one = s.explore(s.CausalLogs(k_forgets=True), crashes=1)
    assert not one.wrong and one.broken is not None and not one.right
    assert one.broken[1][-1] == "k crashes and forgets the order"


def test_a_bounded_search_gives_no_verdict() -> None:
    """At its limit a search stops and says how far it came. It never says right, even without a wrong outcome."""
    found = s.explore(s.Aligned(), limit=1000)
    assert found.states == 1000 and not found.finished and not found.right and not found.wrong
    assert "no verdict: stopped at 1,000 states" in repr(found) and f"{found.depth} actions deep" in repr(found)
    assert s.LIMIT == 200_000
    for crashes, limit in [(-1, 10), (1, 0)]:
        with pytest.raises(Error, match="crashes must be at least 0"):
            s.explore(s.Aligned(), crashes, limit)
    with pytest.raises(Error, match="no outcome is wrong"):
        _ = s.explore(s.EpochCommit()).end


def every_run(protocol: Any, world: Any, crashes: int) -> set[Any]:
    """The ends of all runs, by brute force: no two equal worlds are merged."""
    if world.ended:
        return {world.outcome}
    found: set[Any] = set()
    for action in protocol.actions(world):
        found |= every_run(protocol, action.world, crashes)
    for action in protocol.crash(world) if crashes else ():
        found |= every_run(protocol, action.world, crashes - 1)
    return found


@pytest.mark.parametrize(
    "protocol", [s.StrongProductions(records=SMALL), s.SparkBatches(records=(1, 10)), s.Loop(records=((1,),))]
)
def test_the_search_misses_no_run(protocol: Any) -> None:
    """Merging equal worlds loses no outcome."""
    assert every_run(protocol, protocol.start(), 1) == set(s.explore(protocol).outcomes)


ALL: list[s.Protocol[Any]] = [each[0] for each in (*RIGHT.values(), *WRONG.values())]


@given(st.sampled_from(ALL), st.randoms(use_true_random=False))
def test_a_run_drawn_at_random_ends_as_explored(protocol: s.Protocol[Any], draw: Any) -> None:
    """Labels are unique among the possible actions, so a trace says which run it is; replaying gives the same world."""
    world, trace, crashes = protocol.start(), [], 1
    while not world.ended:
        actions = [*protocol.actions(world), *(protocol.crash(world) if crashes else ())]
        assert len({each.label for each in actions}) == len(actions)
        chosen = draw.choice(actions)
        crashes -= chosen not in list(protocol.actions(world))
        trace.append(chosen.label)
        world = chosen.world
    run = s.replay(protocol, trace)
    assert run.world == world and not run.stopped_at and run.possible == ()


def test_a_fork_stops_at_the_first_action_that_is_not_possible() -> None:
    """Another action in the middle of a trace is followed as far as the trace is possible after it."""
    trace = s.explore(s.Aligned(block=False)).trace
    at = trace.index("c takes s2's barrier") + 1
    assert trace[at] == "c takes s2's 10"
    fork = s.replay(s.Aligned(), trace)
    assert fork.stopped_at == trace[at] and len(fork.steps) == at
    assert "c takes s1's barrier" in fork.possible
    swapped = [*trace[:at], trace[at + 1], trace[at], *trace[at + 2 :]]
    assert s.replay(s.Aligned(), swapped).stopped_at == "k takes 13"  # the barrier is before it now


def test_a_recording_has_a_line_for_each_message() -> None:
    """Each message is one line; it is taken, in flight, or lost in the crash, and restored messages are new."""
    protocol = s.ChandyLamport()
    trace = [
        *("s2 sends 10", "the coordinator asks for snapshot 1", "s1 sends the barrier", "c takes s1's barrier"),
        *("s2 sends the barrier", "c takes s2's 10 and logs it", "c takes s2's barrier", "s1 sends 1"),
        *("k takes the barrier: snapshot 1 is whole", "crash: all continue from snapshot 1", "c takes s2's 10"),
    ]
    recorded = s.as_recording(protocol, trace)
    assert recorded["lanes"] == ["s1", "s2", "c", "k"]
    assert recorded["run"] == [
        ("s2", "c", 1, 5, "10", ""),
        ("s1", "c", 2, 3, s.BARRIER, ""),
        ("c", "k", 3, 8, s.BARRIER, ""),
        ("s2", "c", 4, 6, s.BARRIER, ""),
        ("c", "k", 5, 9, "10", "dropped"),
        ("s1", "c", 7, 9, "1", "dropped"),
        ("s2", "c", 9, 10, "10", "from the snapshot"),
        ("c", "k", 10, None, "10", ""),
    ]
    notes = recorded["notes"]
    assert notes["c", 3] == "saves 0" and notes["c", 5] == "logs 10" and notes["k", 8] == "saves nothing"
    assert notes["s1", 9] == "crash" and notes["c", 9] == "crash, back to snapshot 1"
    with pytest.raises(Error, match=r"action 2, 'k takes 10', is not possible here; choose one of"):
        s.as_recording(protocol, ["s2 sends 10", "k takes 10"])


def test_an_overtaking_barrier_overtakes_in_the_recording() -> None:
    """Its lines are taken before those of the rows that were sent before it."""
    trace = [
        "s1 sends 1",
        "c takes s1's 1",
        "s1 sends 2",
        "the coordinator asks for snapshot 1",
        "s1 sends the barrier",
    ]
    trace += ["c takes s1's barrier, which overtakes 2", "k takes the barrier", "k takes 1", "c takes s1's 2"]
    lines = s.as_recording(s.Overtaking(), trace)["run"]
    row, barrier = ("s1", "c", 3, 8, "2", ""), ("s1", "c", 4, 5, s.BARRIER, "")
    assert row in lines and barrier in lines
    assert ("c", "k", 2, 7, "1", "") in lines and ("c", "k", 5, 6, s.BARRIER, "") in lines


def test_the_recording_shows_repeats() -> None:
    """A row that is sent again after a crash says so, and so does an output that k drops."""
    trace = ["s2 sends 10", "c takes s2's 10", "k takes #1  10", "c crashes and continues from snapshot 0"]
    lines = s.as_recording(s.CausalLogs(), [*trace, "c takes s2's 10", "k drops #1  10"])["run"]
    assert [(*line[:2], line[-1]) for line in lines] == [
        ("s2", "c", ""),
        ("c", "k", ""),
        ("s2", "c", "sent again"),
        ("c", "k", "dropped"),
    ]
    trace = ["s2 sends 10", "c writes s2's 10 and 10, and acks", "an ack is lost, s2 sends 10 again"]
    assert [line[-1] for line in s.as_recording(s.StrongProductions(), trace)["run"]] == ["", "sent again"]


def test_more_rows_and_sources() -> None:
    """Four rows of two sources, and one row each of three."""
    for records in (((1, 2), (10, 20)), ((1,), (10,), (100,))):
        found = s.explore(s.Aligned(records=records))
        assert found.right and {end.state[1] for end in found.outcomes} == interleavings(records)
