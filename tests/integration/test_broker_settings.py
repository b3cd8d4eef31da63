"""A broker that compresses its offsets topic: its settings are archived, and its sweep writes the plan's batches."""

from dataclasses import fields
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import encode_batches
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.log.batch import Batch, Record, encode_batch, read_batches, read_records
from sexton.log.codec import CODECS
from sexton.plans.read_plan import own_plan
from sexton.runs.folder import RunFolder
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.integration.stages import plan, snapshot
from tests.integration.sweep_instants import SETTINGS, make_offsets_topic, pack
from tests.record_fields import decode_key, encode_key, encode_value
from tests.waiting import until

pytestmark = pytest.mark.thorough

GROUP, TOPIC, OFFSETS, METADATA_BYTES = "idle", "orders", 300, "777"
BEHIND_EPOCH = slice(16, None)
"""Of a batch its magic, its CRC and all that this covers."""
PARTITION_COUNT = int(SETTINGS["offsets.topic.num.partitions"])
PART = partition_of(GROUP, PARTITION_COUNT)
HEADER = {one.name for one in fields(Batch)} - {"position", "size_bytes", "data", "leader_epoch"}
SAME_BYTES = {"none", "snappy", "lz4"}
"""Codecs of which our compressor makes the bytes that Kafka's makes of the same records."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Path:
    """The directory of a broker that has made its offsets topic."""
    folder = tmp_path_factory.mktemp("settings") / "broker"
    with EmbeddedBroker(folder, port=free_port(), java=java, jars=kafka_jars, settings=SETTINGS) as broker:
        make_offsets_topic(broker)
    return folder


def idle_group() -> bytes:
    """A log of offsets that are long due."""
    records = [
        (
            encode_key(1, {"group_id": GROUP, "topic": TOPIC, "partition": number}),
            encode_value(
                1, 3, {"committed_offset": number, "leader_epoch": -1, "metadata": "", "commit_timestamp_ms": 1}
            ),
        )
        for number in range(OFFSETS)
    ]
    return encode_batch(records, base_offset=0, timestamp_ms=1_700_000_000_000)


def swept(broker: EmbeddedBroker) -> list[Batch]:
    """The batches of the sweep, once it has come."""

    def written() -> list[Batch]:
        log = b"".join(path.read_bytes() for path in sorted((broker.data / folder()).glob("*.log")))
        found = [one for one in read_batches(log) if isinstance(one, Batch) and one.base_offset >= OFFSETS]
        return found if sum(one.record_count for one in found) > OFFSETS else []  # the group's own tombstone comes last

    return until(written, "no sweep came", every_s=0.2)


def folder() -> str:
    return f"__consumer_offsets-{PART}"


def records_of(batch: Batch) -> list[Record]:
    found = list(read_records(batch, cap_bytes=1 << 20))
    assert all(isinstance(one, Record) for one in found)
    return [one for one in found if isinstance(one, Record)]


@pytest.mark.parametrize("codec", CODECS)
def test_the_plan_has_the_batches_that_the_broker_wrote(
    codec: str, stopped: Path, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]
) -> None:
    number = CODECS.index(codec)
    own = {"offsets.topic.compression.codec": str(number), "offset.metadata.max.bytes": METADATA_BYTES}
    broker = EmbeddedBroker(stopped, port=free_port(), java=java, jars=kafka_jars, settings={**SETTINGS, **own})
    pack(broker.data / folder(), idle_group())
    for checkpoint in broker.data.glob("*-checkpoint"):
        checkpoint.unlink()
    archive = str(tmp_path / "archive")
    with broker:
        found = swept(broker)
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        snapshot(config, archive)

    facts = newest_metadata(pafs.LocalFileSystem(), archive)
    assert facts is not None
    assert own.items() <= facts.settings.items()
    assert facts.topic_settings["compression.type"] == "producer"
    assert facts.leaders == dict.fromkeys(range(PARTITION_COUNT), 1)
    assert facts.brokers_differ == {}

    run, at_ms = RunFolder(tmp_path / "run"), found[0].max_timestamp_ms  # reading stops where that instant begins
    plan(archive, run.local, as_of_ms=at_ms, taken_at_ms=at_ms, settle_ms=0)
    assert own_plan(run).record.codec == codec
    planned = [one for one in read_batches(run.read("batches", f"{PART}.log")) if isinstance(one, Batch)]
    assert len(planned) == len(found)
    for mine, theirs in zip(planned, found, strict=True):
        assert mine.codec == theirs.codec == number
        assert {name: getattr(mine, name) for name in HEADER} == {name: getattr(theirs, name) for name in HEADER}
        assert {(one.key, one.value, one.timestamp_ms) for one in records_of(mine)} == {
            (one.key, one.value, one.timestamp_ms) for one in records_of(theirs)
        }
        assert codec not in SAME_BYTES or in_that_order(theirs)[BEHIND_EPOCH] == bytes(theirs.data)[BEHIND_EPOCH]


def in_that_order(batch: Batch) -> bytes:
    """A plan's batch of the records of `batch`: the broker's order, that of a hash map, is not claimed."""
    keys = [(decode_key(one.key or b"")[1]["group_id"], one.key or b"") for one in records_of(batch)]
    return encode_batches(
        keys, base_offset=batch.base_offset, as_of_ms=batch.max_timestamp_ms, profile=NEWEST, codec=batch.codec
    )
