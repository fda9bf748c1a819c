"""The assignment's three services, as a customer of them sees them.

`routes` are requests as bytes, `answers` read bodies without trusting them, `counter` sends waves of requests
and writes each into the record, `stocking` makes users, items and orders, `reading` takes snapshots.
"""

from .counter import Counter, Wave
from .reading import look_again, snapshot
from .routes import Routes
from .stocking import Stock, stock_blocks

__all__ = ["Counter", "Routes", "Stock", "Wave", "look_again", "snapshot", "stock_blocks"]
