"""Everything that is measured of one log: the broker's loads, the kernels, the audit, and kafka-dump-log."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sexton.java import JavaHome, find_java
from sexton.kafka import jars
from sexton.settings import settings, variable
from tests.bench.broker import Cluster, Load, LoadingBroker
from tests.bench.figures import MILLION, Figures
from tests.bench.segments import Written
from tests.bench.sets import LOG_PARTITIONS
from tests.bench.tasks import Task
from tests.bench.watch import run_watched, watch_audit
from tests.log_builder import BatchSpec, commit, encode_log

REPEATED_BELOW = 10 * MILLION
READ_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """What runs Kafka's own programs, and the node from which loading brokers are made."""

    java: JavaHome
    jars: Sequence[Path]
    cluster: Cluster


def kafka_in(scratch: Path) -> Kafka:
    """Kafka's programs, and a node in `scratch`."""
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    classes = jars.ensure(settings().cache, "kafka")
    cluster = Cluster(scratch / "cluster", java=java, jars=classes, log_partitions=LOG_PARTITIONS)
    return Kafka(java=java, jars=classes, cluster=cluster)


def measure(kafka: Kafka, task: Task, written: Written, scratch: Path) -> Figures:
    """Everything about one log, which lies in `scratch`/log. RuntimeError where a count of records is wrong."""
    log = scratch / "log"
    repeat = 3 if written.records < REPEATED_BELOW else 1
    started, warm = broker_loads(
        kafka.cluster, log, scratch / "broker", heap=task.log_set.broker_heap, again=max(repeat - 1, 1)
    )
    read_through(log)
    kernel = run_watched([sys.executable, "-m", "tests.bench.kernel", str(log), str(repeat)])
    told = json.loads(kernel.output)
    for who, count in (("broker", started.records), ("warm broker", warm.records), ("kernel", told["records"])):
        if count != written.records:
            raise RuntimeError(f"{task.label}: {written.records:,} records were written, the {who} read {count:,}")
    read_through(log)
    audit = watch_audit(log, scratch / "out")
    shutil.rmtree(scratch / "out")
    return Figures(
        name=task.log_set.name, commits=task.records, records=written.records, size_bytes=written.size_bytes,
        broker_started_s=started.seconds, broker_warm_s=warm.seconds, kernel_s=told["seconds"],
        audit_s=audit.seconds, audit_core_s=audit.core_s, process_bytes=audit.process_bytes,
        tree_bytes=audit.tree_bytes,
    )  # fmt: skip


def broker_loads(cluster: Cluster, log: Path, directory: Path, *, heap: str, again: int) -> tuple[Load, Load]:
    """The first load of a broker that just started, and the fastest of `again` further ones."""
    read_through(log)
    with LoadingBroker(cluster, log, directory, heap=heap) as broker:
        started = broker.first_load()
        loads = []
        for _ in range(again):
            read_through(log)
            loads.append(broker.load_again())
    shutil.rmtree(directory)
    return started, min(loads, key=lambda load: load.seconds)


def audit_of_one_record(scratch: Path) -> float:
    """Seconds of the least that an audit takes: one of no record at all is refused."""
    with TemporaryDirectory(dir=scratch) as folder:
        segment = Path(folder) / "log" / "__consumer_offsets-0" / f"{0:020d}.log"
        segment.parent.mkdir(parents=True)
        segment.write_bytes(encode_log([BatchSpec(entries=(commit("g"),))]))
        return watch_audit(Path(folder) / "log", Path(folder) / "out").seconds


def read_through(log: Path) -> None:
    """Read all segments once, so that whoever is measured next finds them in memory.

    Some systems drop what was not read for a minute, and the disk would be measured then.
    """
    block = bytearray(READ_BYTES)
    for file in sorted(log.rglob("*.log")):
        with file.open("rb", buffering=0) as segment:
            while segment.readinto(block):
                pass


def dump_rate(kafka: Kafka, log: Path, records: int) -> float:
    """Records a second of kafka-dump-log over one log partition of a balanced log, its start included."""
    segment = log / "__consumer_offsets-0" / f"{0:020d}.log"
    size_bytes = sum(file.stat().st_size for file in log.rglob("*.log"))
    classes = os.pathsep.join(map(str, kafka.jars))
    command = [str(kafka.java.java), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)]
    seconds = run_watched(command, keeps_output=False).seconds
    return records * segment.stat().st_size / size_bytes / seconds
