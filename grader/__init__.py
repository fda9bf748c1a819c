"""The autograder of the labs: a package of its own, so that it can never lean on what it grades.

Nothing is in it yet. The wall is: it imports nothing of labs/, nothing of
sharedstate_lite and nothing of a submission, and sharedstate_lite imports nothing of it.
"""
