"""Side-by-side measurements; each prints ratios against a peer and can write them as JSON.

    views.py     the shopping view under three state strategies, beside Pathway and DuckDB
    spark_views.py  the same view on Spark, beside passing rows through, the idiom, and Spark's operators
    spark_shop.py   its files and its sides; spark_idiom.py the one that manuals show
    all.py       the records that pages show, and tables.py, which writes them into pages
    measure.py   what they share: timing, medians, progress, the table, the JSON
    child.py     a side in a fresh process that cannot outlive the command
    shopping/    the visits, the sides that take them, and how their answers are compared
    managed.py   stores of managed state, beside a dict, RocksDB and LMDB
    entities.py  methods cut into blocks, and protocols of transactions over bins of entities
    checkouts.py checkout systems: CPU, rate, and the 99th percentile at a steady rate
    without.py   labs/checkout/fast less one idea at a time
    sharing.py   ladders of sharing inside a worker, each rung beside the others
    usecases/    these ladders, and what a rung does in a task
    pathway/     the peer that needs an environment of its own
    load.py      the grader's load generator beside Locust, hey and wrk; its audit
    generators/  the server that they ask, and who asks it
    environment.py  how a peer's environment is made

Every file beside these two runs alone: ``python bench/NAME.py [--quick] [--only ROW] [--json FILE]``.
"""
