"""Every record that real brokers wrote decodes to what kafka-dump-log prints, and encodes to the same bytes again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.records import RECORD_TYPES, ZERO_UUID, Schema, decode_subscription, kafka_uuid, parse_kafka_uuid
from sexton.records.schema import INT16, INT32, Array, Blob, Struct, Text, wire_field
from sexton.records.schema import record as record_class
from tests.log.samples import dumped
from tests.record_fields import as_fields, decode_key, decode_value, encode_key, encode_value
from tests.records.kafka_json import as_kafka_json

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDINGS = sorted(dump.parent.name for dump in GOLDEN.glob("*/dump-log.txt.gz"))
RECORD_LINE = re.compile(r"\| offset: (\d+) .*? key: ")


@record_class
class AssignedPartitions:
    topic: str = wire_field(Text())
    partitions: tuple[int, ...] = wire_field(Array(INT32))


@record_class
class ConsumerAssignment:
    version: int = wire_field(INT16)
    assigned_partitions: tuple[AssignedPartitions, ...] = wire_field(Array(Struct(AssignedPartitions)))
    user_data: bytes | None = wire_field(Blob(nullable=True))


CONSUMER_ASSIGNMENT = Schema(ConsumerAssignment)


def printed(recording: str) -> dict[tuple[str, int], tuple[dict[str, Any], dict[str, Any] | None]]:
    """Key and payload (None for a tombstone) of every data record, by segment and log_offset."""
    records = {}
    decode = json.JSONDecoder().raw_decode
    for segment, line in dumped(GOLDEN / recording):
        if match := RECORD_LINE.match(line):
            key, end = decode(line, match.end())
            payload = line[end:].strip().removeprefix("payload: ")
            records[segment, int(match[1])] = (key, None if payload == "<DELETE>" else json.loads(payload))
    return records


def recorded(recording: str) -> Iterator[tuple[str, Record]]:
    """Every data record of the recorded segments, with the segment it is in."""
    for path in sorted((GOLDEN / recording / "before").glob("*/*.log")):
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, Batch)
            for record in () if batch.is_control else read_records(batch, cap_bytes=2**24):
                assert isinstance(record, Record)
                yield f"{path.parent.name}/{path.name}", record


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) == 18


@pytest.mark.parametrize("recording", RECORDINGS)
def test_decoded_as_kafka_dump_log_prints(recording: str) -> None:
    expected = printed(recording)
    for segment, record in recorded(recording):
        key, payload = expected.pop((segment, record.log_offset))
        number, key_fields = decode_key(record.key or b"")
        declared = RECORD_TYPES[number]
        assert key == {"type": str(number), "data": as_kafka_json(declared.key, 0, key_fields)}
        assert encode_key(number, key_fields) == record.key
        if payload is None:
            assert record.value is None
            continue
        version, fields = decode_value(number, record.value or b"")
        shown = as_kafka_json(declared.value, version, fields)
        if number == 2:
            show_consumer_protocol(shown, payload["data"], fields)
        assert payload == {"version": str(version), "data": shown}
        assert encode_value(number, version, fields) == record.value
    assert not expected


def show_consumer_protocol(ours: dict[str, Any], theirs: dict[str, Any], fields: dict[str, Any]) -> None:
    """kafka-dump-log opens the members' subscription and assignment; of the former we read the topics alone."""
    for our_member, their_member, member in zip(ours["members"], theirs["members"], fields["members"], strict=True):
        subscription = their_member["subscription"]
        assert decode_subscription(member["subscription"]) == subscription["topics"]
        our_member["subscription"] = subscription
        assignment, _ = CONSUMER_ASSIGNMENT.reader(0)(member["assignment"], 0)
        shown = as_kafka_json(CONSUMER_ASSIGNMENT, 0, as_fields(assignment))
        del shown["version"]
        our_member["assignment"] = shown


def test_topic_ids_are_written_as_kafka_does() -> None:
    text = "oj2_yOgDSO-kjuPzJVTQ0g"
    assert kafka_uuid(parse_kafka_uuid(text)) == text
    assert kafka_uuid(ZERO_UUID) is None


@pytest.mark.parametrize(
    "text", ["", "oj2_yOgDSO-kjuPzJVTQ0", "oj2_yOgDSO-kjuPzJVTQ0gAA", "not base64!", "oj2/yOgDSO+kjuPzJVTQ0g"]
)
def test_other_texts_are_no_topic_id(text: str) -> None:
    with pytest.raises(ValueError):
        parse_kafka_uuid(text)
