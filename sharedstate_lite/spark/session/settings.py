"""What a session is started with: Spark's settings, its logging, and what a master may be.

Holds values only; :mod:`.launch` starts something with them. The settings are those of
one machine with a learner in front of it: nothing on a port but the loopback one, no
pages, no progress bars, two shuffle partitions (Spark's 200 made five tiny batches
take minutes), state in RocksDB with its changelog, every file under one folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ...errors import Error

Kind = Literal["local", "cluster", "connect"]
Value = str | int | float | bool

APP = "sharedstate_lite"
MASTER = "local[2]"
SHUFFLE_PARTITIONS = 2
VARIABLE = "SHAREDSTATE_LITE_MASTER"
"""The environment variable that names the master where no argument does."""
JAVA_OPTIONS = "SHAREDSTATE_LITE_JAVA_OPTIONS"
"""The environment variable with more options for every JVM that the kit starts Spark in, executors here included."""

ADDED = {"spark.driver.extraJavaOptions": " ", "spark.executor.extraJavaOptions": " ", "spark.jars": ","}
"""Settings that a user's value is added to, and does not replace, and what stands between the two."""

PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""Where queries keep their state; of those that Spark brings the only one for transformWithState."""

LOOPBACK = "127.0.0.1"
"""Where a driver listens whose executors are on this machine."""

_MASTERS: tuple[tuple[str, Kind], ...] = (
    (r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?", "local"),
    (r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]", "local"),
    (r"spark://[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*", "cluster"),
    (r"sc://\S+", "connect"),
)

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
LOGGING = "log4j2.properties"
_LOGGING = """\
# Errors only. This file is read by the driver and by executors on the same machine;
# where their output goes is decided by whoever starts them.
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
    """What sort of master the address names. Raises Error where it is none that the kit starts sessions on."""
    for pattern, found in _MASTERS if isinstance(master, str) else ():
        if re.fullmatch(pattern, master):
            return found
    raise Error(
        f"master {master!r}: a session runs on local[N], local-cluster[workers,cores,MB], spark://host:port or "
        f"sc://host:port; correct the argument, or {VARIABLE} if no argument was given"
    )


def plain(conf: Mapping[str, Value]) -> dict[str, str]:
    """Settings as Spark writes them. Raises Error for a name that is none, or that an argument stands for."""
    out = {}
    if not isinstance(conf, Mapping):
        raise Error(f"conf={conf!r}: it is {{name of a Spark setting: value}}")
    for name, value in conf.items():
        if not isinstance(name, str) or not re.fullmatch(r"spark\.\S+", name):
            raise Error(f"conf {name!r}: a setting's name starts with 'spark.'; see Spark's configuration page")
        if name in ("spark.master", "spark.remote", "spark.app.name"):
            raise Error(f"conf {name}: give it as the argument {'app' if name.endswith('name') else 'master'} instead")
        if not isinstance(value, str | int | float):
            raise Error(f"conf {name}: {value!r} is neither text, a number nor a boolean; write the value as text")
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def check(shuffle_partitions: object, memory: object) -> None:
    """Refuse a count that is none and a size that Java would not understand."""
    if shuffle_partitions is not None and (
        isinstance(shuffle_partitions, bool) or not isinstance(shuffle_partitions, int) or shuffle_partitions < 1
    ):
        raise Error(f"shuffle_partitions={shuffle_partitions!r}: it is a whole number from 1; 2 suits a laptop")
    if memory is not None and not (isinstance(memory, str) and re.fullmatch(r"[1-9]\d*[kmgKMG]", memory)):
        raise Error(f"memory={memory!r}: it is a size such as '2g' or '800m'")


def runtime() -> dict[str, str]:
    """The settings of a session that do not depend on where it runs, and may change while it does."""
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        PROVIDER_CLASS: PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A query without input looks into its folders again after so long. With Spark's 10 ms an engine that nobody
        # steps takes a fifth of a core and more; the longer the pause, the longer a step waits to be seen
        # (bench/spark_views.py --only idle).
        "spark.sql.streaming.pollingDelay": "25ms",
    }


def settings(master: str, folder: Path) -> dict[str, str]:
    """The settings of a new session whose files all lie in ``folder``."""
    temporary = f'-Djava.io.tmpdir="{folder / "tmp"}" {java_options()}'.strip()
    out = {
        **_QUIET,
        **runtime(),
        "spark.driver.memory": f"{memory_mb()}m",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        # RocksDB unpacks its library there, and some machines run nothing from /tmp.
        "spark.driver.extraJavaOptions": temporary,
        # A micro-batch writes about ten small files. Hadoop starts a process for each, to set its permissions, and
        # as many again for a checksum file beside it, which is left out.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    if kind(master) == "local" or LOOPBACK in master:
        out |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if kind(master) == "local":
        out |= {"spark.local.dir": str(folder / "local"), "spark.executor.extraJavaOptions": temporary}
    elif LOOPBACK in master and java_options():
        out |= {"spark.executor.extraJavaOptions": java_options()}
    if one_jvm(master):
        # Its folder for configuration is an empty one (classes.py).
        out["spark.driver.extraJavaOptions"] += f' -Dlog4j2.configurationFile="{(folder / "conf" / LOGGING).as_uri()}"'
        # The other way to write files: it does not look for links first, which are four processes a file.
        # It makes checksum files, unless the JVM is told otherwise (launch.py).
        out |= {
            "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager"
        }
    return out


def one_jvm(master: str) -> bool:
    """Whether driver and executors are one process."""
    return re.match(r"local(\[|$)", master) is not None


def java_options() -> str:
    """What :data:`JAVA_OPTIONS` says; empty without it."""
    return os.environ.get(JAVA_OPTIONS, "").strip()


def merged(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """The kit's settings and a user's, which go before; Java options and jars of both hold."""
    both = {name: f"{ours[name]}{sep}{theirs[name]}" for name, sep in ADDED.items() if name in ours and name in theirs}
    return {**ours, **theirs, **both}


def write_conf(folder: Path) -> None:
    """Fill a configuration folder for everything that Spark starts on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOGGING).write_text(_LOGGING)
    lines = [f"{name} {value}\n" for name, value in {**_QUIET, **runtime()}.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))


def memory_mb() -> int:
    """A quarter of the machine's (or container's) memory in MiB, at least 1,024 and at most 4,096.

    RocksDB and the Python workers live outside the heap, so the rest is not spare.
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
