"""A client for the three services of the assignment.

`routes` builds requests as bytes, `answers` parses untrusted bodies, `counter` sends waves of requests and records
them, `stocking` creates users, items and orders, and `reading` takes snapshots.
"""

from .counter import Clock, Counter, Wave
from .reading import look_again, snapshot
from .routes import Routes
from .stocking import Stock, stock_blocks

__all__ = ["Clock", "Counter", "Routes", "Stock", "Wave", "look_again", "snapshot", "stock_blocks"]
