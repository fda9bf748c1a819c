"""The settings of a Spark session, its logging, and the masters that it can run on.

The defaults suit a laptop. Spark listens only on the loopback device, shows no web pages or progress bars, stores state
in RocksDB with a changelog, and keeps all files in one folder. A shuffle has 2 partitions. With Spark's default of 200,
five tiny batches take minutes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ...errors import Error, is_integer
from ...system.cache import cache_dir

Kind = Literal["local", "cluster"]
Value = str | int | float | bool

MASTER = "local[2]"
SHUFFLE_PARTITIONS = 2
VARIABLE = "SHAREDSTATE_LITE_MASTER"
"""The environment variable with the master for sessions that are started without the argument ``master``."""
JAVA_OPTIONS = "SHAREDSTATE_LITE_JAVA_OPTIONS"
"""The environment variable with options for every JVM that the kit starts on this machine, including executors."""

_FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java compiles with its first compiler only. A JVM for a lesson lives for minutes, and its second compiler takes the
processor from the work for longer than it saves. Alone, the first option makes Java keep a fifth of the code."""
ADDED = {"spark.driver.extraJavaOptions": " ", "spark.executor.extraJavaOptions": " ", "spark.jars": ","}
"""Setting -> separator. A user's value for one of these is appended to the kit's value instead of replacing it."""

PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store for new queries. No other state store in Spark supports transformWithState."""

LOOPBACK = "127.0.0.1"
"""The address on which a driver listens if its executors are on the same machine."""

NO_CONNECT = (
    "Spark Connect is not supported: the driver must be in this process, which receives the output of each "
    "micro-batch; use local[N], local-cluster[workers,cores,MB] or spark://host:port"
)

_MASTERS: tuple[tuple[str, Kind], ...] = (
    (r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?", "local"),
    (r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]", "local"),
    (r"spark://[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*", "cluster"),
)

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
LOGGING = "log4j2.properties"
_LOGGING = """\
# Log only errors. The driver and the executors on this machine read this file.
# The process that starts them redirects their output.
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def kind(master: str) -> Kind:
    """Return "local" if ``master`` starts Spark on this machine, and "cluster" if it is the address of a cluster.

    Raises Error for a master that is not supported.
    """
    if isinstance(master, str) and master.startswith("sc://"):
        raise Error(f"master {master}: {NO_CONNECT}")
    for pattern, found in _MASTERS if isinstance(master, str) else ():
        if re.fullmatch(pattern, master):
            return found
    raise Error(
        f"master {master!r}: a session runs on local[N], local-cluster[workers,cores,MB] or spark://host:port; "
        f"correct the argument, or the environment variable {VARIABLE}"
    )


def plain(conf: Mapping[str, Value]) -> dict[str, str]:
    """Return settings with their values as strings.

    Raises Error for a wrong name or value, and for a setting that has its own argument, such as the master.
    """
    out = {}
    for name, value in conf.items():
        if not name.startswith("spark.") or not isinstance(value, str | int | float):
            raise Error(
                f"conf {name}={value!r}: the name of a setting must start with 'spark.', and its value must be a "
                "string, a number or a boolean"
            )
        if name in ("spark.master", "spark.remote"):
            raise Error(f"conf {name}: use the argument master instead")
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def check(shuffle_partitions: object, memory: object) -> None:
    """Check two arguments of a session, which can both be None. Raises Error.

    ``shuffle_partitions`` must be an integer of at least 1, and ``memory`` a size that Java accepts, such as '2g'.
    """
    if shuffle_partitions is not None and not (is_integer(shuffle_partitions) and shuffle_partitions >= 1):
        raise Error(f"shuffle_partitions={shuffle_partitions!r}: pass an integer of at least 1; 2 suits a laptop")
    if memory is not None and not (isinstance(memory, str) and re.fullmatch(r"[1-9]\d*[kmgKMG]", memory)):
        raise Error(f"memory={memory!r}: pass a size such as '2g' or '800m'")


def runtime() -> dict[str, str]:
    """Return the settings that do not depend on the master and can be changed while a session runs."""
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        PROVIDER_CLASS: PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # How long a query without input waits before it looks for new files again. With Spark's default of 10 ms, an
        # idle engine uses a fifth of a core or more. A longer delay adds to the latency of a step
        # (bench/spark_views.py --only idle).
        "spark.sql.streaming.pollingDelay": "25ms",
    }


def settings(master: str, folder: Path) -> dict[str, str]:
    """Return the settings for a new session on ``master`` that keeps all its files in ``folder``."""
    given = f"{_FIRST_COMPILER if one_jvm(master) else ''} {java_options()}".strip()
    options = f'-Djava.io.tmpdir="{folder / "tmp"}" -Duser.home="{_user_home()}" {given}'.strip()
    out = {
        **_QUIET,
        **runtime(),
        "spark.app.name": "sharedstate_lite",
        "spark.driver.memory": f"{memory_mb()}m",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        # RocksDB unpacks its native library into this folder. Some machines do not allow programs in /tmp.
        "spark.driver.extraJavaOptions": options,
        # A micro-batch writes about ten small files. For each file and for its checksum file, Hadoop starts a process
        # that sets the permissions. This class does not write checksum files.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if kind(master) == "local" or LOOPBACK in master:
        out |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if kind(master) == "local":
        out |= {"spark.local.dir": str(folder / "local"), "spark.executor.extraJavaOptions": options}
    elif LOOPBACK in master and java_options():
        out |= {"spark.executor.extraJavaOptions": java_options()}
    if one_jvm(master):
        # The folder SPARK_CONF_DIR is empty (classes.py), so the logging configuration is passed by path.
        out["spark.driver.extraJavaOptions"] += f' -Dlog4j2.configurationFile="{(folder / "conf" / LOGGING).as_uri()}"'
        # Unlike the default, this manager does not resolve symbolic links, which would start four processes per file.
        # It would write checksum files, but launch.py turns them off.
        out |= {
            "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
        }
    return out


def one_jvm(master: str) -> bool:
    """Return whether the driver and the executors are the same process."""
    return re.match(r"local(\[|$)", master) is not None


def _user_home() -> str:
    """Return the user's home folder, or a folder in the cache if the home folder does not exist or cannot be written.

    Java itself takes the home folder from /etc/passwd, which may lack this user. Spark's package resolver writes to it.
    """
    home = os.path.expanduser("~")
    return home if os.access(home, os.W_OK) else str(cache_dir("user"))


def java_options() -> str:
    """Return the value of the environment variable that `JAVA_OPTIONS` names, or an empty string if it is not set."""
    return os.environ.get(JAVA_OPTIONS, "").strip()


def merged(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return the kit's settings, overridden by the user's. Java options and jars contain both values."""
    both = {name: f"{ours[name]}{sep}{theirs[name]}" for name, sep in ADDED.items() if name in ours and name in theirs}
    return {**ours, **theirs, **both}


def write_conf(folder: Path) -> None:
    """Write Spark's configuration files into ``folder``, for all processes that Spark starts on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOGGING).write_text(_LOGGING)
    lines = [f"{name} {value}\n" for name, value in {**_QUIET, **runtime()}.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))


def memory_mb() -> int:
    """Return a quarter of the memory of this machine or container in MiB, but at least 1,024 and at most 4,096.

    The rest is left for RocksDB and the Python workers, which use memory outside the Java heap.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2048
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(limit)
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdigit():
            total = min(total, int(text))
    return max(1024, min(4096, total // 4 // 2**20))
