"""Holds the messages between the processes of a shop, and delivers them one at a time.

`cutter` finds the messages in the bytes of a connection, `connection` passes them on or holds them, `proxy` is the
process with all connections, `proxies` sends it commands and returns what has happened, `quiet` says when the shop has
nothing more to do, and `schedule` delivers one message after the other. docs/assignment.md lists what can happen to a
message ("What can happen between your processes").
"""
