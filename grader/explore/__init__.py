"""Holds the messages between the processes of a shop, and delivers them one at a time.

`cutter` finds the messages in the bytes of a connection, `proxy` is the process between a caller and a callee, and
`proxies` sends it commands and returns what has happened. What the proxy may do to a message is listed in
docs/assignment.md ("What can happen between your processes").
"""

from .proxies import Proxies
from .proxy import Event

__all__ = ["Event", "Proxies"]
