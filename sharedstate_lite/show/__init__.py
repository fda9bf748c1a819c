"""Pictures of state, drawn without a browser, from what an engine says of itself.

    graph       operators with their state tables, left to right
    held        who holds how much, by kind of state, as a picture
    held_chart  the same as a plotly chart, with the picture beside it; operators_chart  by operator
    time_chart, latency_chart, hits_chart     seconds an epoch, seconds a read, hits against a budget
    waits_chart    how long single things took, as bars of seconds
    rungs_chart    one number for each rung of a ladder, as bars
    emitted     what a view emitted, as plain tuples
    compare     a reader's prediction beside what happened
    tables      data frames of a notebook with their texts on the left
    stepper     what each message does to each operator's state, step by step
    static      the same as a sequence of pictures

The rooms, from the bottom up:

    palette     colours and type, light and dark; text     how wide a text is, where to cut it
    svg         the elements of a picture, and Picture     table, panel    state tables and operators, measured
    heights, layout, routes    where boxes and lines go    outline, contents   from an engine's frames to panels
    scene, graph               the graph of operators      bars, operators, chart     who holds how much
    axes, series, lines, figure, measured   lines over two axes, drawn and by plotly; waits, rungs   bars
    predict, tables            predictions; data frames
    stepper                    a room of its own: recordings drawn and stepped through

A picture takes frames and plain data (``engine.graph()``, ``engine.state``,
``engine.trace.rows_by_edge()``) and never reaches into an engine; no engine knows that
it is drawn. Nothing here computes what it shows: numbers are those it was handed.
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
