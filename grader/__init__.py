"""The autograder of the checkout assignment: it starts a submission, sends load, injects faults, and judges the record.

The live half (`submission`, `sandbox`, `processes`, `wire`, `shop`, `phases`) and the judging half (`audit`, `verdict`,
`report`) share only the record of a run. `session` performs one run, and `cli` is the command line. docs/grader.md
describes the architecture. The grader does not import code from labs/, from sharedstate_lite or from a submission.
"""
