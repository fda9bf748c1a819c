"""Starting and stopping Spark: one session at a time, with the right Java, quiet, and no process left behind.

PySpark takes its Java, settings and log level from a dozen places, and its JVM outlives a stopped session. This room
starts the JVM itself, with settings for a laptop, and ends it with the session. It also starts a standalone cluster on
this machine, downloads the jars that PySpark does not contain, and archives Spark's classes so that later sessions
start faster.

>>> import sharedstate_lite as ss
>>> spark = ss.spark.session()
>>> spark.conf.get("spark.sql.session.timeZone")
'UTC'
>>> ss.spark.session(shuffle_partitions=2) is spark
True
>>> ss.spark.session(shuffle_partitions=5)
Traceback (most recent call last):
    ...
sharedstate_lite.errors.Error: session: the running session differs: spark.sql.shuffle.partitions is '2', not '5'; ...

Modules, from the bottom:

    paths        the paths that callers pass, and what Spark reads as patterns
    quiet        log levels of PySpark's Python side
    java         which Java Spark runs on
    settings     Spark's settings, and the masters that a session may have
    home         SPARK_HOME without PySpark's zip
    ivy, jars    jars from a Maven repository, downloaded once (jars is a command)
    interrupt    Ctrl-C
    failure      the message of a session that failed to start
    ship         the kit's modules as an archive for other machines
    classes      the archive of Spark's classes (a command)
    jvm          a driver's JVM
    launch       SparkDriver: JVM, context and session as one
    session      session(), stop(), log_file()
    checks       checks of a session that a caller passes in
    guard        ends processes with the one that started them
    standalone   Cluster: a standalone cluster on this machine (cluster is its command)

Source: PySpark's ``java_gateway`` (the JVM's side of py4j); Spark's standalone mode; JEP 350 for the class archive.
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {"Cluster": "standalone", "Java": "java", "Jvm": "jvm", "SparkDriver": "launch", "find_java": "java"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
