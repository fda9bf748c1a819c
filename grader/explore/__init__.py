"""Tries one checkout again and again, each time with another message between the processes lost or late.

`cutter` finds the messages in the bytes of a connection, `connection` passes them on or holds them, `proxy` is the
process with all connections, and `proxies` sends it commands and returns what has happened. `through` puts it between
the processes of a run. `quiet` says when they have nothing more to do, and `schedule` delivers one message after the
other. `cases` lists what can be tried, `system` runs and judges one case, `steps` is what the run looked like,
`explorer` runs all cases, and `command` is the command line. docs/assignment.md lists what can happen to a message
("What can happen between your processes").
"""
