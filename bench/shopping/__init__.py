"""The shopping view under load: one stream of visits, the sides that take it, and how they are compared.

    stream.py    the visits, drawn once and written down, so that every side takes the same rows
    record.py    what a side hands back: seconds, changes, answers, bytes
    ours.py      a state strategy of this kit, as a process
    duck.py      DuckDB recomputing the view, as a process
    equal.py     do all answers and all emitted changes agree?
    sides.py     runs the sides in turn and gathers their records
    told.py      medians over the rounds, and who agrees with whom
    rows.py      from records to the rows that are printed

``stream`` and ``record`` need only numpy: the peer's own environment imports them too.
"""

VIEW = "SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) GROUP BY category"
"""The view that every side keeps up to date."""
