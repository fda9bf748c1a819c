"""The load generator, which sends requests and returns their times and statuses.

`http` parses answers, `line` is one connection, `ticks` is a timer, `jobs` defines the messages on the pipe, `loop`
sends the requests, `child` runs the loop in a separate process, `client` is the grader's side of the pipe, and
`network` enters the network of the services.
"""
