"""The rules that only some phases have: the contract, false refusals, and too many or too few orders sold.

A row of the table of phases names its rule. A rule gets the record, the phase, and the orders (rows) that have a graver
violation already, and returns violations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..audit import FAIL, audit, outcomes, view_of
from ..record import Exchange, Record
from ..record.notes import Round, Scarcity
from ..table import TABLE
from ..terms import Entity, Kind, refused
from .violations import LOST, Violation, ended, judged_until, killed, label, of_order, without_order

Rule = Callable[[Record, str, set[int]], list[Violation]]


def special(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return the violations of the rule that the phase names in its row of the table.

    Orders (rows) in ``known`` already have a more serious violation, so their false refusals are not reported.
    """
    rule = TABLE[phase].rule
    return RULES[rule](record, phase, known) if rule else []


def contract(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return a violation for each request with a wrong answer.

    Requests that could not be sent because of an earlier wrong answer are left out.
    """
    wrong = [each for each in record.exchanges if not each.agreed and each.asked]
    return [
        without_order("contract", phase, f"{each.title}: {each.request}: expected {each.expected}, got {_got(each)}")
        for each in wrong
        if not _lost(record, each) and not _open(record, each)
    ]


def _got(exchange: Exchange) -> str:
    why = f": {exchange.why}" if exchange.why else ""
    return f"{exchange.got[:200]}{why}{f'; its answers differ: {exchange.differs}' if exchange.differs else ''}"


def _open(record: Record, exchange: Exchange) -> bool:
    """Return whether the run ended before a wrong read was repeated until the convergence limit."""
    if "failure" not in record.about or exchange.again:
        return "failure" in record.about
    return exchange.reads and not exchange.why and not ended(record, "contract")


def _lost(record: Record, exchange: Exchange) -> bool:
    """Return whether an id of the contract phase became unknown after a kill."""
    return exchange.again and exchange.status // 100 == 4 and killed(record)


def lost_ids(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return one violation for all ids of the contract phase that a kill made unknown."""
    lost = [each for each in record.exchanges if not each.agreed and _lost(record, each) and not _open(record, each)]
    if not lost:
        return []
    detail = f"{LOST}: {len(lost)} of the contract phase, the first is {lost[0].request}: {lost[0].got[:200]}"
    return [without_order("contract", phase, detail, lost=True)]


def refusals(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return a violation for each falsely refused order.

    An order is falsely refused if it was answered only 4xx (other than 429) although there was enough stock and credit,
    as there is in every wave that may not refuse.
    """
    history = record.history
    ample = [number for number, wave in enumerate(record.waves) if wave.phase == phase and not wave.may_refuse]
    tried = (history["kind"] == Kind.CHECKOUT) & np.isin(history["wave"], ample)
    tried &= history["due"] <= judged_until(record, phase)
    subject, status = history["subject"][tried], history["status"][tried]
    chosen = refused(status)
    answer: dict[int, int] = dict(zip(subject[chosen].tolist(), status[chosen].tolist(), strict=True))
    failed = np.flatnonzero(outcomes(len(record.orders), subject, status) == FAIL).tolist()
    return [
        of_order(
            record,
            order,
            "false_refusal",
            phase,
            f"refused with {answer[order]}, although there is enough stock and credit",
        )
        for order in failed
        if order in answer and order not in known
    ]


def scarcity(record: Record, phase: str, known: set[int]) -> list[Violation]:
    """Return a violation for each round that sold more or fewer orders than there was stock or credit for."""
    violations = []
    for turn in record.notes(Scarcity).rounds:
        rows, _, paid = record.shot(turn.snapshot).read[Entity.ORDER]
        first, last = turn.orders
        sold = rows[(rows >= first) & (rows <= last) & (paid != 0)]
        if len(sold) == turn.enough:
            continue
        detail = f"there was enough {turn.by} for {turn.enough} orders, but {len(sold)} are paid"
        if len(sold) > turn.enough:
            names = tuple(label(record, int(order)) for order in sold)
            violations.append(Violation("", "", names, "oversold", phase, detail, rows=tuple(sold.tolist())))
        else:
            violations.append(without_order("leaked" if _misses(record, turn) else "never_sold", phase, detail))
    return violations


def _misses(record: Record, turn: Round) -> bool:
    """Return whether the scarce stock or credit of a round does not add up in the snapshot that ended it."""
    first = turn.orders[0]
    if turn.by == "stock":
        scarce = Entity.ITEM, int(record.lines["item"][record.lines["order"] == first][0])
    else:
        scarce = Entity.USER, int(record.orders["user"][first])
    findings = audit(view_of(record, record.shot(turn.snapshot)))
    return any((finding.entity, finding.subject) == scarce for finding in findings)


RULES: dict[str, Rule] = {rule.__name__: rule for rule in (contract, refusals, scarcity, lost_ids)}
"""All rules, by the names that the table of phases has."""
