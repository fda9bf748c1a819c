"""Starts and stops Spark: one session at a time, with the right Java, a quiet log, and no process left behind.

PySpark takes its Java, settings and log level from a dozen places, and its JVM keeps running after the session is
stopped. This room starts the JVM itself, with settings for a laptop, and stops it together with the session. It also
starts a standalone cluster on this machine, downloads the jars that PySpark does not include, and archives Spark's
classes so that later sessions start faster.

>>> import sharedstate_lite as ss
>>> spark = ss.spark.session()
>>> spark.conf.get("spark.sql.session.timeZone")
'UTC'
>>> ss.spark.session(shuffle_partitions=2) is spark
True
>>> ss.spark.session(shuffle_partitions=5)
Traceback (most recent call last):
    ...
sharedstate_lite.errors.Error: session: the running session differs: spark.sql.shuffle.partitions is '2', not '5'. ...

Modules, from the bottom:

    paths        checks the paths that callers pass
    quiet        silences loggers of PySpark's Python side
    java         finds the Java that Spark runs on
    settings     Spark's settings, and the masters that a session can run on
    home         SPARK_HOME, without PySpark's zip
    jars         downloads jars from a Maven repository, once (also a command)
    interrupt    handles Ctrl-C
    failure      the error message for a session that failed to start
    ship         zips the kit's modules for other machines
    classes      the archive of Spark's classes (also a command)
    jvm          Jvm: the JVM of a driver
    launch       SparkDriver: the JVM, the context and the session of a driver
    session      session(), stop(), log_file()
    checks       checks a session that a caller passes in
    guard        a script that stops a command when the process that asked for it exits
    standalone   Cluster: a standalone cluster on this machine
    cluster      the command for a Cluster

Source: PySpark's ``java_gateway``, which connects Python to the JVM; Spark's standalone mode; JEP 350 for the class
archive.
"""
