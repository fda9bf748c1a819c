"""Commands over a user's own SQL and files: why a row is there, why another one is not, and what a view costs.

>>> import pandas as pd
>>> from sharedstate_lite.own import files, why
>>> given = {"visit": pd.DataFrame({"product": ["Nut", "Nut"], "length": [50, 60], "epoch": [1, 2], "diff": 1})}
>>> made = files.catalog("CREATE VIEW top AS SELECT product, MAX(length) AS top FROM visit GROUP BY product", given)
>>> engine = files.engine(made, given, until=1)
>>> engine.why("top", why.row_of(made.views["top"], "Nut,50"))
top has (Nut, 50) as of epoch 1: 1 reason
  1  visit (Nut, 50)  this one

>>> from sharedstate_lite.own.price import Price
>>> price = Price.of(made, given)
>>> price.strategies["full"].amounts("working state", "rows")
(3, None)

Modules, from the bottom:

    files         reads a file of views, and tables from CSV and Parquet files
    why           ``sharedstate why``
    statistics    what one pass over a table tells
    predict       the rows of operators and their distinct values, from statistics alone
    parts         the parts of an engine without rows, with their predicted rows and bytes
    page          the page of a price: a chart and its tables
    price         ``sharedstate price``
"""
