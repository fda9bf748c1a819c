"""Records made by hand: a run of one block a phase, in which everything went right, for a test to make wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from grader.orders import BLOCK, COLD_PRICE, HOT_ITEMS, SIDE, Blocks
from grader.orders.blocks import CREDIT, STOCK
from grader.record import Exchange, Record, SentWave, Shot
from grader.record.notes import empty_notes
from grader.table import JUDGED
from grader.terms import Entity, Kind, Limits, State

SECOND = 1_000_000_000
RUBRIC = {
    "contract": 10, "duplicates": 15, "load": 15, "scarcity": 15, "faults": 20, "availability": 5, "convergence": 3,
    "false_refusals": 2, "speed": 15, "safety_cap": 40,
}  # fmt: skip


def right(phases: tuple[str, ...] = JUDGED) -> Record:
    """Every phase asked for has one block, every order was answered 200 and is paid, every snapshot is clean."""
    record = Record()
    record.about.update(
        command="python -m grader checkout x", repeat="python -m grader checkout x --seed 1", mode="quick", seed=1,
        asked=list(phases), require=0, rubric=RUBRIC, limits=asdict(Limits()), machine={},
        submission={"name": "team", "processes": [], "hash": "0" * 64},
        sandbox={"tier": 1, "name": "bubblewrap", "why": "", "stops": [["good enough for a grade", True]]},
    )  # fmt: skip
    for number, phase in enumerate(phases):
        _phase(record, phase, (1 + 20 * number) * SECOND)
    snapshot(record, "", 200 * SECOND, accepted=False)
    return record


def _phase(record: Record, phase: str, at: int) -> None:
    blocks = Blocks.draw([1, *phase.encode()], 0, 1)
    first = {name: len(record.tables[name]) for name in ("orders", "users", "items")}
    record.users.append(phase=phase, block=0, id=[f"{phase}-u{i}" for i in range(SIDE)], ready=1)
    prices = [COLD_PRICE] * SIDE + [1] * HOT_ITEMS
    names = [f"{phase}-i{i}" for i in range(SIDE + HOT_ITEMS)]
    record.items.append(phase=phase, block=0, id=names, price=prices, ready=1)
    for kind, name, amount in ((Entity.USER, "users", CREDIT), (Entity.ITEM, "items", STOCK)):
        rows = np.arange(first[name], len(record.tables[name]))
        record.funds.append(kind=int(kind), subject=rows, amount=amount, at=at)
    ids = [f"{phase}-o{i}" for i in range(BLOCK)]
    user = blocks.user + first["users"]
    numbers = np.arange(BLOCK)
    record.orders.append(phase=phase, number=numbers, user=user, slot=blocks.slot, id=ids, cost=blocks.cost, ready=1)
    orders = numbers + first["orders"]
    cold, hot = blocks.item + first["items"], blocks.hot_item + first["items"] + SIDE
    record.lines.append(order=orders, item=cold, quantity=blocks.cold, price=COLD_PRICE)
    record.lines.append(order=orders, item=hot, quantity=blocks.hot, price=1)
    wave = len(record.waves)
    record.waves.append(SentWave(phase, phase, at, BLOCK, cpu=0.01))
    due = np.full(BLOCK, at + SECOND)
    times = {"due": due, "sent": due + 100_000, "done": due + 5_000_000}
    record.history.append(wave=wave, kind=int(Kind.CHECKOUT), subject=orders, attempt=1, status=200, waited=0, **times)
    notes = record.phases[phase] = empty_notes(phase)
    notes.begin_s, notes.end_s, notes.settled_s = at / 1e9, at / 1e9 + 10, 0.0
    snapshot(record, phase, at + 3 * SECOND)
    snapshot(record, phase, at + 5 * SECOND)


def snapshot(record: Record, phase: str, at: int, accepted: bool = True) -> None:
    """What a right system says: every order paid, every balance less by it."""
    keep = {e: np.ones(len(record.rows(e)), dtype=bool) for e in Entity}
    if phase:
        keep = {e: record.rows(e)["phase"] == phase for e in Entity}
    orders, lines = record.orders, record.lines
    credit, stock = record.initial(Entity.USER, at), record.initial(Entity.ITEM, at)
    np.subtract.at(credit, orders["user"], orders["cost"])
    np.subtract.at(stock, lines["item"], lines["quantity"])
    values = {Entity.ORDER: np.ones(len(orders), dtype=np.int64), Entity.USER: credit, Entity.ITEM: stock}
    read = {}
    for entity in Entity:
        rows = np.flatnonzero(keep[entity])
        read[entity] = (rows, np.full(len(rows), int(State.READ), dtype=np.int8), values[entity][rows])
    record.keep(Shot(at, at + SECOND // 10, read), phase, "audit", accepted)


def value(record: Record, snapshots: list[int], entity: Entity, subject: int, change: Any) -> None:
    """Change what some snapshots say of one thing: ``change`` is given the value."""
    table = record.snapshots
    mine = np.isin(table["snapshot"], snapshots) & (table["kind"] == entity) & (table["subject"] == subject)
    assert mine.sum() == len(snapshots)
    table["value"][mine] = [change(int(old)) for old in table["value"][mine]]


def shots(record: Record, phase: str) -> list[int]:
    """The numbers of a phase's snapshots, and of the last one."""
    return [n for n, taken in enumerate(record.snapshots_taken) if taken["phase"] in (phase, "")]


def answered(record: Record, request: str = "POST stock /add/1/5", got: str = "answered 500", **more: Any) -> None:
    """Add a wrong answer of the contract phase."""
    how = {"status": 500, "reads": request.startswith("GET"), **more}
    record.exchanges.append(Exchange("t", "stock", request, "2xx", got, **how))


def orders_of(record: Record, phase: str) -> Any:
    """The rows of a phase's orders, int64[n]."""
    return np.flatnonzero(record.orders["phase"] == phase)


def charged(record: Record, phase: str, row: int, times: int = 2) -> int:
    """Let all snapshots say that a user paid for an order of a phase so often. Returns the order's row."""
    order = int(orders_of(record, phase)[row])
    more = (times - 1) * int(record.orders["cost"][order])
    value(record, shots(record, phase), Entity.USER, int(record.orders["user"][order]), lambda old: old - more)
    return order


def unpaid(record: Record, snapshots: list[int], order: int) -> None:
    """Let some snapshots say that an order is unpaid, and that its user and its items have everything back."""
    value(record, snapshots, Entity.ORDER, order, lambda old: 0)
    cost, lines = int(record.orders["cost"][order]), np.flatnonzero(record.lines["order"] == order)
    value(record, snapshots, Entity.USER, int(record.orders["user"][order]), lambda old: old + cost)
    for item, many in zip(record.lines["item"][lines], record.lines["quantity"][lines], strict=True):
        value(record, snapshots, Entity.ITEM, int(item), lambda old, many=int(many): old + many)
