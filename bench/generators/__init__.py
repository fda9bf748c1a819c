"""Load generators side by side: one server that answers at once, and who asks it.

server.py    the server, a process of its own, which can be frozen
ours.py      the grader's generator, and its audit of a million checkouts
swarm.py     Locust's FastHttpUser, run inside its own environment
tools.py     hey and wrk, where the machine has them
env.py       the peer's environment
"""
