"""Spark, quiet and of the right size, for everything in the kit that runs beyond one process.

    session.py    session(), stop(), log_file(): the one session, and its end
    java.py       find_java(): which Java it runs on, with one for machines that have none
    settings.py   what a session is started with, and what a master may be
    launch.py     a driver: JVM, context and session, started and ended together
    jvm.py        its JVM: environment, log, end
    connect.py    a session of Spark Connect
    ship.py       the kit's modules, for workers on other machines
    interrupt.py  Ctrl-C
    scratch.py    folders that go with the process that made them
    failure.py    why a session did not start, in one message

Importing this imports no pyspark; the first session does.
"""

from .java import Java, find_java
from .session import log_file, session, stop

__all__ = ["Java", "find_java", "log_file", "session", "stop"]
