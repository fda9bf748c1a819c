"""State that operators declare and the kit manages: it is checkpointed, moved between workers, and queried.

>>> from sharedstate_lite.managed.stores import create
>>> create("dict").__class__.__name__
'DictStore'
"""
