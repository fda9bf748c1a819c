"""Charts of state and time, pictures of an engine's graph, and the stepper. All drawn without a browser.

A picture is made from frames and plain data (``engine.graph()``, ``engine.state()``, recordings), never from
the inside of an engine. Each one displays as HTML, SVG and text. Charts are plotly figures
with a picture beside them, for pages that cannot run plotly.

    graph            operators with their state tables, left to right
    held, held_chart, operators_chart    rows or bytes by kind of state, and by operator
    time_chart, latency_chart, hits_chart    seconds an epoch, seconds a read, hit rate against budget
    waits_chart, rungs_chart    bars of single durations, and of a ladder
    emitted, compare    what a view emitted as tuples; a prediction beside what happened
    tables           display data frames with text on the left
    stepper, static  step through a recorded run, live or as pictures

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
>>> show.compare("+I Potato 50, +I Nut 5", show.emitted(changes["longest"])).right
True

Modules, from the bottom: ``palette``, ``text`` and ``svg`` are colours, widths of text and elements;
``layout`` places boxes and lines; ``table`` and ``panel`` draw one operator, ``outline``, ``contents``,
``scene`` and ``graph`` an engine. ``chart`` is what charts share; ``state_bars``, ``bar_charts``, ``axes``,
``lines`` and ``line_charts`` draw them. ``predict``, ``dataframes``, and ``stepper``, a folder.

Source: Sugiyama, Tagawa and Toda, 1981 (layout); Okabe and Ito, 2008 (colours); Guo, SIGCSE 2013 (stepper).
"""

from .bar_charts import rungs_chart, waits_chart
from .chart import Chart
from .dataframes import tables
from .graph import graph
from .line_charts import hits_chart, latency_chart, time_chart
from .predict import compare, emitted
from .state_bars import held, held_chart, operators_chart
from .stepper import Stepper, static, stepper
from .svg import Picture

__all__ = [
    "Chart",
    "Picture",
    "Stepper",
    "compare",
    "emitted",
    "graph",
    "held",
    "held_chart",
    "hits_chart",
    "latency_chart",
    "operators_chart",
    "rungs_chart",
    "static",
    "stepper",
    "tables",
    "time_chart",
    "waits_chart",
]
