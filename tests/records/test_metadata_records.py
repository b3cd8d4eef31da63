"""Records of `__cluster_metadata` decode to what kafka-dump-log --cluster-metadata-decoder prints of them."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import LogError
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import cluster_metadata
from sexton.records.cluster_metadata import UNREAD, RegisterBroker, Topic, decode_metadata
from sexton.records.schema import Schema
from tests.record_fields import as_fields
from tests.records.kafka_json import as_kafka_json

GOLDEN = Path(__file__).parents[1] / "golden" / "cluster-metadata"
LINE = re.compile(r"\| offset: (\d+) .*? payload: (.*)")
READ = {
    **{"REGISTER_BROKER_RECORD": "RegisterBroker", "UNREGISTER_BROKER_RECORD": "UnregisterBroker"},
    **{"TOPIC_RECORD": "Topic", "PARTITION_RECORD": "Partition", "REMOVE_TOPIC_RECORD": "RemoveTopic"},
    **{"CONFIG_RECORD": "Config", "FEATURE_LEVEL_RECORD": "FeatureLevel"},
    **{"BEGIN_TRANSACTION_RECORD": "BeginTransaction", "END_TRANSACTION_RECORD": "EndTransaction"},
}
FLAGS = {"isMigratingZkBroker", "fenced", "inControlledShutdown"}


def values_of(path: Path) -> dict[int, bytes]:
    """The value of every data record of a file, by offset."""
    return {
        record.log_offset: record.value or b""
        for batch in read_batches(path.read_bytes())
        if isinstance(batch, Batch) and not batch.is_control
        for record in read_records(batch, cap_bytes=1 << 20)
        if isinstance(record, Record)
    }


def printed(release: str) -> dict[str, dict[int, dict[str, Any]]]:
    """The payload of every data record, by file and offset."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for line in gzip.decompress((GOLDEN / release / "dump-log.txt.gz").read_bytes()).decode().splitlines():
        if line.startswith("Dumping "):
            file = found.setdefault(line.removeprefix("Dumping "), {})
        elif payload := LINE.match(line):
            file[int(payload[1])] = json.loads(payload[2])
    return found


@pytest.mark.parametrize("release", ["3.9.1", "4.2.0", "4.3.1"])
def test_records_are_what_kafka_prints(release: str) -> None:
    seen = set()
    for name, expected in printed(release).items():
        values = values_of(GOLDEN / release / name)
        assert set(values) == set(expected)
        for offset, value in values.items():
            found, payload = decode_metadata(value), expected[offset]
            assert (None if found is None else type(found).__name__) == READ.get(payload["type"])
            if found is not None:
                schema = Schema(type(found), flexible_since=0)
                shown = as_kafka_json(schema, payload["version"], as_fields(found))
                assert {key: bool(one) if key in FLAGS else one for key, one in shown.items()} == payload["data"]
                seen.add(type(found).__name__)
    assert {"RegisterBroker", "Topic", "Partition", "Config", "FeatureLevel"} <= seen
    assert release != "4.3.1" or "RemoveTopic" in seen


TOPIC = bytes([1, 2, 0, 2, 0x74, *range(16), 0])


def test_a_topic_by_hand() -> None:
    found = decode_metadata(TOPIC)
    assert isinstance(found, Topic)
    assert (found.name, found.topic_id.bytes) == ("t", bytes(range(16)))


def test_a_type_of_tomorrow_is_passed_over_by_its_number() -> None:
    assert decode_metadata(bytes([1, 0xE8, 0x07, 9, 1, 2, 3])) is UNREAD


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "varint"),
        (bytes([0, *TOPIC[1:]]), "frame version 0"),
        (bytes([1, 2, 1, *TOPIC[3:]]), "version 1 of Topic: versions up to 0 are known"),
        (TOPIC + b"\0", "1 bytes are left after a Topic"),
        (TOPIC[:9], "uuid"),
        (bytes([1, 2, 0, 0, *range(16), 0]), "null"),
    ],
)
def test_what_kafka_would_not_read_is_refused(value: bytes, why: str) -> None:
    with pytest.raises(LogError, match=why) as caught:
        decode_metadata(value)
    assert caught.value.reason == "malformed_value"


def test_no_beginning_of_a_record_is_one() -> None:
    (value,) = (v for v in values_of(GOLDEN / "4.3.1/__cluster_metadata-0" / f"{0:020d}.log").values()
                if isinstance(decode_metadata(v), RegisterBroker))  # fmt: skip
    for size in range(len(value)):
        with pytest.raises(LogError):
            decode_metadata(value[:size])


def test_every_type_that_is_read_has_a_schema() -> None:
    assert {cls.__name__ for cls in cluster_metadata.MetadataRecord.__args__} >= set(READ.values())
