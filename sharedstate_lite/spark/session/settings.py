"""The settings of a Spark session, its logging, and the masters that it may run on.

The defaults suit a laptop: listen on the loopback device only, no web pages, no progress bars, 2 shuffle partitions
(with Spark's 200, five tiny batches take minutes), state in RocksDB with its changelog, all files in one folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ...errors import Error

Kind = Literal["local", "cluster"]
Value = str | int | float | bool

APP = "sharedstate_lite"
MASTER = "local[2]"
SHUFFLE_PARTITIONS = 2
VARIABLE = "SHAREDSTATE_LITE_MASTER"
"""The environment variable with the master of sessions that get no master as an argument."""
JAVA_OPTIONS = "SHAREDSTATE_LITE_JAVA_OPTIONS"
"""The environment variable with options for every JVM that the kit starts here, executors included."""

ADDED = {"spark.driver.extraJavaOptions": " ", "spark.executor.extraJavaOptions": " ", "spark.jars": ","}
"""Settings to which a user's value is appended instead of replacing the kit's, and the separator."""

PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store of new queries: the only one in Spark that supports transformWithState."""

LOOPBACK = "127.0.0.1"
"""The address on which a driver listens if its executors are on this machine."""

NO_CONNECT = (
    "Spark Connect is not supported: the driver must be in this process, because it receives the output of each "
    "micro-batch here; use local[N], local-cluster[workers,cores,MB] or spark://host:port"
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
# Errors only. The driver and executors on the same machine read this file.
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
    """Whether a master is this machine or a cluster. Raises Error for one that sessions cannot run on."""
    if isinstance(master, str) and master.startswith("sc://"):
        raise Error(f"master {master}: {NO_CONNECT}")
    for pattern, found in _MASTERS if isinstance(master, str) else ():
        if re.fullmatch(pattern, master):
            return found
    raise Error(
        f"master {master!r}: a session runs on local[N], local-cluster[workers,cores,MB] or spark://host:port; "
        f"correct the argument, or {VARIABLE} if there was no argument"
    )


def plain(conf: Mapping[str, Value]) -> dict[str, str]:
    """Settings with values as text. Raises Error for a wrong name or value, and for settings that are arguments."""
    out = {}
    if not isinstance(conf, Mapping):
        raise Error(f"conf={conf!r}: a mapping {{name of a Spark setting: value}} is needed")
    for name, value in conf.items():
        if not isinstance(name, str) or not re.fullmatch(r"spark\.\S+", name):
            raise Error(f"conf {name!r}: names of settings start with 'spark.'; see Spark's configuration page")
        if name in ("spark.master", "spark.remote", "spark.app.name"):
            raise Error(f"conf {name}: use the argument {'app' if name.endswith('name') else 'master'} instead")
        if not isinstance(value, str | int | float):
            raise Error(f"conf {name}: {value!r} is not text, a number or a boolean; write the value as text")
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def check(shuffle_partitions: object, memory: object) -> None:
    """Raise Error for a number of partitions below 1, and a size that Java does not understand."""
    if shuffle_partitions is not None and (
        isinstance(shuffle_partitions, bool) or not isinstance(shuffle_partitions, int) or shuffle_partitions < 1
    ):
        raise Error(f"shuffle_partitions={shuffle_partitions!r}: an integer of at least 1 is needed; 2 suits a laptop")
    if memory is not None and not (isinstance(memory, str) and re.fullmatch(r"[1-9]\d*[kmgKMG]", memory)):
        raise Error(f"memory={memory!r}: a size such as '2g' or '800m' is needed")


def runtime() -> dict[str, str]:
    """The settings that do not depend on the master and may change while a session runs."""
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        PROVIDER_CLASS: PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # How often a query without input looks for new files. With Spark's 10 ms an idle engine uses a fifth of a core
        # or more; a longer delay adds to the latency of a step (bench/spark_views.py --only idle).
        "spark.sql.streaming.pollingDelay": "25ms",
    }


def settings(master: str, folder: Path) -> dict[str, str]:
    """The settings of a new session that keeps all its files in ``folder``."""
    temporary = f'-Djava.io.tmpdir="{folder / "tmp"}" {java_options()}'.strip()
    out = {
        **_QUIET,
        **runtime(),
        "spark.driver.memory": f"{memory_mb()}m",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        # RocksDB unpacks its library there, and some machines do not run programs from /tmp.
        "spark.driver.extraJavaOptions": temporary,
        # A micro-batch writes about ten small files. Hadoop starts a process to set the permissions of each one, and
        # of its checksum file. This class writes no checksum files.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if kind(master) == "local" or LOOPBACK in master:
        out |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if kind(master) == "local":
        out |= {"spark.local.dir": str(folder / "local"), "spark.executor.extraJavaOptions": temporary}
    elif LOOPBACK in master and java_options():
        out |= {"spark.executor.extraJavaOptions": java_options()}
    if one_jvm(master):
        # SPARK_CONF_DIR is empty (classes.py), so the logging configuration is passed by its path.
        out["spark.driver.extraJavaOptions"] += f' -Dlog4j2.configurationFile="{(folder / "conf" / LOGGING).as_uri()}"'
        # This manager does not resolve links first, which costs four processes a file. It writes checksum files
        # unless launch.py turns them off.
        out |= {
            "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
        }
    return out


def one_jvm(master: str) -> bool:
    """Whether driver and executors are the same process."""
    return re.match(r"local(\[|$)", master) is not None


def java_options() -> str:
    """The value of the variable `JAVA_OPTIONS`; empty without it."""
    return os.environ.get(JAVA_OPTIONS, "").strip()


def merged(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """The kit's settings, overridden by a user's; Java options and jars are joined."""
    both = {name: f"{ours[name]}{sep}{theirs[name]}" for name, sep in ADDED.items() if name in ours and name in theirs}
    return {**ours, **theirs, **both}


def write_conf(folder: Path) -> None:
    """Write a configuration folder for all processes that Spark starts on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOGGING).write_text(_LOGGING)
    lines = [f"{name} {value}\n" for name, value in {**_QUIET, **runtime()}.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))


def memory_mb() -> int:
    """A quarter of the machine's (or container's) memory in MiB, at least 1,024 and at most 4,096.

    RocksDB and the Python workers use memory outside the heap.
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
