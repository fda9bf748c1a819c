"""The generator: requests out, times and statuses in.

`http` reads answers, `line` is one connection, `ticks` a timer, `jobs` what crosses the pipe, `loop` sends,
`child` runs the loop in a process of its own, `client` is the grader's end of the pipe.
"""
