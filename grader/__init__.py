"""The autograder of the checkout assignment: it starts a submission, loads it, breaks it, and judges the record.

Two halves that meet only in the record of a run. Live: `submission`, `sandbox`, `processes`, `wire`, `shop`,
`phases`. Judging: `audit`, `judge`, `report`. `session` is one run, `cli` the command line; docs/grader.md is the
map. It imports nothing of labs/ and, into its own process, nothing of a submission; sharedstate_lite imports
nothing of it.
"""
