"""What all engines share: the interface, undoing a refused epoch, state tables, the event log, checkpoints.

An engine maintains views under one *strategy*. A strategy decides which state its operators keep; the interface is
the same. Each ``step`` applies one epoch atomically and returns the change of each view; if a row is refused, the
engine is as before the call.

>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("full", [longest])
>>> engine.step({"visit": [(("Potato", 60), +1)]})["longest"]
Changes(time=1, rows=1: +I ('Potato', 60))
>>> engine.step({"visit": [(("Potato", 70), -1)]})
Traceback (most recent call last):
sharedstate_lite.errors.RowError: visit: row ('Potato', 70) cannot be retracted, because its \
multiplicity would be -1 (stored: 0, this epoch: -1); insert it in this epoch or an earlier one
>>> engine.epoch, engine.state()[["operator", "rows"]].values.tolist()
(1, [['visit[product, length]', 1], ['longest.group1.length', 1], ['longest', 1]])

Modules, from the bottom:

    state_tables    state as tables, and handles on all arrangements
    events          the event log of an engine
    view_rules      which views a call means
    catalog_text    catalog and views as text
    checkpoint      the state in a folder, written atomically
    engine          the interface, and what the strategies share

Source: the operators of Flink (Carbone et al., VLDB 2017), and the handles of Shared Arrangements
(McSherry et al., VLDB 2020).
"""

from .checkpoint import FORMAT
from .engine import Engine, EpochInput
from .events import Event, EventLog
from .state_tables import Handles, StatePart

__all__ = ["FORMAT", "Engine", "EpochInput", "Event", "Handles", "StatePart", "EventLog"]
