"""The ladders of Renoir's use cases 2, 3, 4 and 6: the same computation in several ways, for ``sharing.py``.

    dedup         use case 2: deduplicating ids
    connections   use case 3: connections to PostgreSQL
    asynchronous  use case 4: several queries in flight at the same time
    caching       use case 6: caches of query results
    enrich        the two queries per event that use cases 3, 4 and 6 have in common

Use case 1 is in ``sharedstate_lite.lessons.usecases``, because notebook 05 calls it. Spark's Python workers import
these modules by name. They find them in the checkout, so the ladders run on this machine only.

Source: De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024 (Renoir).
"""
