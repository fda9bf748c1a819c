"""The autograder of the checkout assignment: it starts a submission, sends load, injects faults, and judges the record.

The live half (`submission`, `sandbox`, `processes`, `wire`, `shop`, `phases`) and the judging half (`audit`, `judge`,
`report`) share only the record of a run. `session` is one run, `cli` the command line; docs/grader.md has the
architecture. The grader imports nothing of labs/, of sharedstate_lite, or of a submission.
"""
