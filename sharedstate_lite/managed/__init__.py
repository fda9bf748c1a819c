"""State that operators declare and the kit manages: it is checkpointed, moved between workers, and queried.

An *operator* is a class that declares its state and is called for each row of a keyed stream. All that it keeps is in
its declared states, so the kit knows its types, its keys and when it expires.

>>> from sharedstate_lite import managed as m
>>> class Longest(m.Operator):
...     out = "product STRING, was INT, now INT"
...     top = m.Value("INT", default=0)
...     def row(self, key, row, out):
...         if row["length"] > self.top.get():
...             out(key, self.top.get(), row["length"])
...             self.top.set(row["length"])
>>> visits = m.source("visit", "product STRING, user STRING, length INT", key="product")
>>> run = m.run(Longest(), visits, workers=2)
>>> print(run.step([("Potato", "Eve", 60), ("Apple", "Bob", 20), ("Potato", "Bob", 50)]).values.tolist())
[['Potato', 0, 60], ['Apple', 0, 20]]
>>> run.read("top", key="Potato")
60

Modules, from the bottom:

    bins        which worker owns a key, and which bins move when workers are added or removed
    stores/     where state is stored: dictionaries, columns, RocksDB, files, a changelog, PostgreSQL
    types       types of state, and nested values as rows of flat relations
    events      the rows that an operator receives and emits
    handles     the kinds of state: Value, List, Map, Array, Ordered, Reducing, Aggregating, Timer
    tasks       state of a worker instead of a key
    declare     operators and sources
    instance    one operator on one worker during an epoch
    queries     SQL over the state now and in a snapshot
    run         epochs, watermarks, reads, rescaling; `snapshot_files` writes checkpoints
    patterns    patterns of events, as an operator

Source: Carbone et al., State management in Apache Flink, VLDB 2017; Hoffmann et al., Megaphone, VLDB 2019.
"""

from . import spark
from .declare import StatefulOperator as Operator
from .declare import source
from .handles import AggregatingState as Aggregating
from .handles import ArrayState as Array
from .handles import ListState as List
from .handles import MapState as Map
from .handles import Mean
from .handles import OrderedState as Ordered
from .handles import ReducingState as Reducing
from .handles import TimerState as Timer
from .handles import ValueState as Value
from .patterns import pattern
from .run import ManagedRun, restore, run
from .tasks import TaskState as Task

__all__ = [
    "Aggregating",
    "Array",
    "List",
    "ManagedRun",
    "Map",
    "Mean",
    "Operator",
    "Ordered",
    "Reducing",
    "Task",
    "Timer",
    "Value",
    "pattern",
    "restore",
    "run",
    "source",
    "spark",
]
