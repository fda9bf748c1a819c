"""The load generator: it sends requests, and returns their times and statuses.

`http` parses answers, `line` is one connection, `ticks` a timer, `jobs` defines the messages on the pipe, `loop` sends
the requests, `child` runs the loop in its own process, `client` is the grader's side of the pipe.
"""
