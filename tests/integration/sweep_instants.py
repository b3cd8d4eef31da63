"""Records when the sweeps of a real broker take offsets that fall due in every millisecond.

    python -m tests.integration.sweep_instants RELEASE JARS WORK OUT [seconds to sweep]

JARS is a folder with the jars of org.apache.kafka:kafka_2.13 of that release and of slf4j-simple, WORK a new folder for
the broker, OUT the folder of the recording. What it writes there is told in tests/golden/README.md.
"""

import gzip
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sexton.java import JavaHome, find_java
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.coordinator.sweep_instants import COMMIT, EXPIRE, RETENTION_MS, Ladder, ladders, sweeps_of
from tests.waiting import until
from tests.zookeeper_broker import broker_class

KINDS = (EXPIRE, COMMIT, EXPIRE, COMMIT)
CHECK_INTERVAL_MS = 150
SETTINGS = {
    "offsets.topic.num.partitions": str(len(KINDS)),
    "offsets.retention.minutes": str(RETENTION_MS // 60_000),
    "offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS),
    "message.max.bytes": "16000000",  # the first sweep takes all that fell due while the broker started
    "log.cleaner.enable": "false",
}
_LAST_SWEEP_S = 2
_REMOVED = re.compile(r"^(\S+ \S+) .* Removed \d+ expired offsets in (\d+) milliseconds")
_KEPT_SWEEPS = 12
"""Of each log partition the bytes of so many sweeps are kept, behind the first."""


Recorded = list[tuple[Ladder, bytes]]
"""Each ladder with its whole log."""


def record(
    broker: EmbeddedBroker, *, sweep_s: float, is_enough: Callable[[Recorded], bool] = lambda _: False
) -> Recorded:
    """Let `broker`, which is new, sweep packed logs, and stop it.

    Offsets fall due in every millisecond of `sweep_s`, from when the broker has had as long to start as it took to make
    its topic. Should it take longer, its first sweep finds more. It sweeps until all is due, or what it has swept
    `is_enough`.
    """
    began = time.monotonic()
    broker.start()
    try:
        make_offsets_topic(broker)
    finally:
        broker.stop()
    first_due_ms = time.time_ns() // 1_000_000 + int((time.monotonic() - began) * 1_000)
    count = int(sweep_s * 1_000)
    packed = ladders(kinds=KINDS, partition_count=len(KINDS), first_due_ms=first_due_ms, count=count)
    for ladder in packed:
        pack(broker.data / f"__consumer_offsets-{ladder.log_partition}", ladder.segment())
    for checkpoint in broker.data.glob("*-checkpoint"):
        checkpoint.unlink()
    broker.start()
    try:
        while time.time() < packed[0].last_due_ms / 1_000 + _LAST_SWEEP_S and not is_enough(_logs(broker, packed)):
            time.sleep(1)
    finally:
        broker.stop()
    return _logs(broker, packed)


def _logs(broker: EmbeddedBroker, packed: Sequence[Ladder]) -> Recorded:
    folders = [broker.data / f"__consumer_offsets-{ladder.log_partition}" for ladder in packed]
    logs = [b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders]
    return list(zip(packed, logs, strict=True))


def make_offsets_topic(broker: EmbeddedBroker) -> None:
    """A broker makes the topic when somebody looks for a coordinator."""
    asked = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody", "log_level": 0}
    with closing(Consumer(asked)) as consumer:
        until(lambda: consumer.committed([TopicPartition("t", 0)], timeout=10), every_s=0.2, passing=(KafkaException,))


def pack(folder: Path, segment: bytes) -> None:
    """Put `segment` in place of what the log partition holds."""
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (folder / f"{0:020d}.log").write_bytes(segment)


def instants_of(log: str) -> list[int]:
    """When each sweep up to 3.9 began, by its line in the broker's log: when that was written less how long it took."""
    found = []
    for line in log.splitlines():
        if told := _REMOVED.search(line):
            written = datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
            found.append(round(written.timestamp() * 1_000) - int(told[2]))
    return found


def write(out: Path, release: str, recorded: Recorded, instants_ms: Sequence[int]) -> None:
    """The recording: what was packed, every sweep, and the bytes of some."""
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for ladder, log in recorded:
        segment = ladder.segment()
        assert log.startswith(segment)
        sweeps = sweeps_of(log, ladder)
        parts.append(
            {
                **asdict(ladder),
                "segment_sha256": hashlib.sha256(segment).hexdigest(),
                "sweeps": [[one.stamp_ms, one.oldest_due_ms, one.newest_due_ms] for one in sweeps],
            }
        )
        kept = {one.stamp_ms for one in sweeps[1 : _KEPT_SWEEPS + 1]}
        (out / f"{release}-{ladder.log_partition}.log.gz").write_bytes(
            gzip.compress(_batches_of(log, len(segment), kept), mtime=0)
        )
    lines = [json.dumps({"release": release, "instants_ms": list(instants_ms)})]
    (out / f"{release}.jsonl").write_text("\n".join([*lines, *map(json.dumps, parts)]) + "\n", encoding="utf-8")


def _batches_of(log: bytes, start: int, stamps_ms: set[int]) -> bytes:
    """The batches from byte `start` on whose records are stamped at one of `stamps_ms`, as they lie there."""
    found, at = b"", start
    while at < len(log):
        size = 12 + int.from_bytes(log[at + 8 : at + 12])
        if int.from_bytes(log[at + 27 : at + 35]) in stamps_ms:
            found += log[at : at + size]
        at += size
    return found


def _java() -> JavaHome:
    return find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))


def main(release: str, jars: str, work: str, out: str, sweep_s: str = "20") -> None:
    kind, its_jars = broker_class(release), sorted(Path(jars).glob("*.jar"))
    broker = kind(Path(work), port=free_port(), java=_java(), jars=its_jars, settings=SETTINGS)
    recorded = record(broker, sweep_s=float(sweep_s))
    said = broker.log_file.read_text(encoding="utf-8", errors="replace")
    write(Path(out), release, recorded, instants_of(said))
    for ladder, log in recorded:
        sweeps = sweeps_of(log, ladder)[1:]
        late = [one.stamp_ms - one.newest_due_ms for one in sweeps]
        print(release, ladder.kind, len(sweeps), "sweeps; stamp minus newest due:", sorted(set(late)), late.count(0))


if __name__ == "__main__":
    main(*sys.argv[1:])
