"""Charts of state and time, pictures of an engine's graph, and the stepper; and questions that the page judges.

Pictures are drawn from recordings and from data frames, such as those that ``engine.graph()`` returns. They never use
an engine's internals. A picture can be displayed as HTML, SVG or text. A chart is a plotly figure together with a
table of the same numbers, for pages that cannot run plotly and for screen readers.

    graph            operators with their state tables, from left to right
    hits_chart       hit rate by budget
    rows_chart       how many rows are stored, by epoch or by number of views
    rungs_chart      one bar for each rung of a ladder
    stacks_chart     bars that are made of parts
    curves           any lines on linear axes, such as a measurement and what a formula predicts
    panels           such lines, each in a plot of its own, with the same axes
    lifetimes        in which epochs each row of an arrangement is there, and which epochs can be read
    emitted          a view's changes as tuples
    question, predict    a question that the reader answers first (docs/predictions.md)
    checks, written  checks of what a notebook's text says, and of code that the reader writes
    put_back         puts the delivered cell of an exercise back
    awaited          the result of a coroutine, if it comes within seconds
    interact         one thing that the reader changes with a slider
    tables           displays data frames with left-aligned text, and errors of the kit without its frames
    stepper          a recorded run step by step
    space_time       who sent which message to whom, and when; messages that cross are lines that cross
    outcome_tree     every order of some actions as a tree, with the outcome of each order
    machine          a method in blocks, with its questions and the frame that travels with each
    tiles            which worker owns each bin, and which bins move
    process_map      the processes of a Spark job in Python, and which of them have a copy of a graph
    time_lines       when each of several calls waits, and when it works

>>> import sharedstate_lite as ss
>>> from sharedstate_lite import show
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> engine = ss.engine("full", [longest])
>>> changes = engine.step({"visit": [(("Potato", 50), +1), (("Nut", 5), +1)]})
>>> show.graph(engine.graph(), engine.state, title="Full state")
Full state
  visit: 2 rows -> MAX(length) by product
  MAX(length) by product: 2 rows -> longest
  longest: 2 rows
>>> sorted(show.emitted(changes["longest"]))
[('+I', 'Nut', 5), ('+I', 'Potato', 50)]

Modules, from the bottom: ``palette`` defines the colours, ``text`` measures text, and ``svg`` writes SVG elements.
The folder ``page`` is the script of a page, with its style sheet and its data. ``outline`` and ``graph`` show an
engine, and the folder ``stepper`` is the stepper. ``chart`` contains the code that all charts share; ``bar_charts`` and
``line_charts`` make them. ``answers`` reads what a reader types, and ``prediction`` asks for it. ``interactive`` shows
a slider. ``checks`` and ``written`` run checks, and ``waiting`` ends those that take too long. ``dataframes`` displays
data frames, and ``tracebacks`` displays errors. ``lifetimes`` draws entries on a time axis with its marks,
``outcome_tree`` draws orders, ``machine`` draws blocks of code, ``process_map`` processes, and ``time_lines`` calls.

Source: Sugiyama, Tagawa and Toda, 1981 (columns of a graph); Okabe and Ito, 2008 (colours); Guo, SIGCSE 2013 (stepper).
"""

from ..system.work import put_back
from .answers import emitted
from .bar_charts import rungs_chart, stacks_chart
from .chart import Chart
from .checks import checks
from .dataframes import tables
from .graph import graph
from .interactive import interact
from .lifetimes import lifetimes
from .line_charts import curves, hits_chart, panels, rows_chart
from .machine import machine
from .outcome_tree import outcome_tree
from .prediction import predict, question
from .process_map import process_map
from .stepper import Stepper, space_time, stepper
from .svg import Picture
from .tiles import tiles
from .time_lines import time_lines
from .waiting import awaited
from .written import written, written_in_order

__all__ = [
    "Chart",
    "Picture",
    "Stepper",
    "awaited",
    "checks",
    "curves",
    "emitted",
    "graph",
    "hits_chart",
    "interact",
    "lifetimes",
    "machine",
    "outcome_tree",
    "panels",
    "predict",
    "process_map",
    "put_back",
    "question",
    "rows_chart",
    "rungs_chart",
    "space_time",
    "stacks_chart",
    "stepper",
    "tables",
    "tiles",
    "time_lines",
    "written",
    "written_in_order",
]
