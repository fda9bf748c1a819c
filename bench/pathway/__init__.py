"""Pathway as a peer, in an environment and a process of its own, because it wants another pyarrow than this kit.

requirements.in, requirements.txt   what goes into the environment, exact versions and hashes
env.py                              makes the environment, or says why there is none
side.py                             runs in it: the shopping view over the same stream
"""
