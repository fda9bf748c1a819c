"""The code that all engines share: the interface, rollback, state tables, the event log and checkpoints.

An engine maintains views under one *strategy*, which decides what state the operators store. The interface is the same
for all strategies. Each ``step`` applies one epoch atomically and returns the change of each view. If a row is
rejected, the engine is left as it was before the call.

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

    state_tables    the state as tables, and handles on all arrangements
    events          the event log of an engine
    view_rules      finding the views that a call refers to
    catalog_text    the catalog and the views as text
    checkpoint      the state of an engine in a folder, written atomically
    engine          the interface, and the code that all strategies share

Source: the operators of Flink (Carbone et al., VLDB 2017), and the handles of Shared Arrangements
(McSherry et al., VLDB 2020).
"""

from .checkpoint import FORMAT
from .engine import Engine, EpochInput
from .events import Event, EventLog
from .state_tables import Handles, StatePart

__all__ = ["FORMAT", "Engine", "EpochInput", "Event", "Handles", "StatePart", "EventLog"]
