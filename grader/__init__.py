"""The autograder of the labs: a package of its own, so that the library can never lean on what grades it.

Nothing is in it yet. The walls stand already: it imports nothing of labs/ and, into its
own process, nothing of a submission; sharedstate_lite imports nothing of it.
"""
