"""What Kafka's own kafka-dump-log prints of segments, and what our reader makes of them, in rows that must be equal.

A row is a batch or a record. The tool is that of the jars which the tests run with, of the newest release proven.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sexton.java import find_java
from sexton.kafka import jars
from sexton.log import codec as codecs
from sexton.log.batch import Record, marker_of, read_records
from sexton.records import RECORD_TYPES, UnknownRecordType
from sexton.settings import settings, variable
from sexton_dev.broker import dump_log
from tests.faults.logs import batches_in
from tests.record_fields import decode_key, decode_value
from tests.records.kafka_json import as_kafka_json
from tests.records.test_recordings import show_consumer_protocol

CAP_BYTES = 1 << 24
TOOL_RELEASE = (4, 3)
Row = tuple[Any, ...]
_OPENED = ("subscription", "assignment")
BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) "
    r"lastSequence: -?\d+ producerId: (?P<pid>-?\d+) producerEpoch: (?P<epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader>\d+) isTransactional: (?P<txn>true|false) isControl: (?P<control>true|false) "
    r"(?:deleteHorizonMs: OptionalLong.*? )?position: (?P<position>\d+) (?:CreateTime|LogAppendTime): (?P<ms>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) "
    r"isvalid: (?P<valid>true|false)"
)
OLD_BATCH = re.compile(
    r"offset: (\d+) position: (\d+) (?:CreateTime|LogAppendTime|NoTimestampType): (-?\d+) size: (\d+) magic: (\d) "
    r"compresscodec: (\w+) crc: (\d+) isvalid: (true|false)"
)
RECORD = re.compile(
    r"\| offset: (\d+) (?:CreateTime|LogAppendTime|NoTimestampType): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) "
    r"(?:sequence: -?\d+ headerKeys: \[\]|isValid: true crc: \d+)(?: endTxnMarker: (COMMIT|ABORT))?"
)


UNKNOWN = "a type that the tool does not know"


def assert_reads_the_same(logs: Mapping[Path, bytes]) -> int:
    """Hold the tool's reading of files against ours of the same bytes; returns the number of rows."""
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    printed = rows_of(dump_log(list(logs), java=java, jars=jars.ensure(settings().cache, "kafka")))
    assert list(printed) == list(logs)
    for path, log in logs.items():
        for theirs, ours in zip(printed[path], as_kafka_prints(log), strict=True):
            assert opened(ours, theirs) == theirs, path
    return sum(map(len, printed.values()))


def rows_of(text: str) -> dict[Path, list[Row]]:
    """What the tool has printed, by file."""
    rows: dict[Path, list[Row]] = {}
    found: list[Row] = []
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            rows[Path(line.removeprefix("Dumping "))] = found = []
        elif match := RECORD.match(line):
            found.append((*map(int, match.groups()[:4]), match[5], *_key_and_payload(line[match.end() :])))
        elif match := BATCH.match(line):
            head = [int(match[name]) for name in ("base", "last", "count", "sequence", "pid", "epoch", "leader")]
            bits = [match[name] == "true" for name in ("txn", "control")]
            tail = [int(match[name]) for name in ("position", "ms", "size", "magic")]
            found.append((*head, *bits, *tail, match["codec"], int(match["crc"]), match["valid"] == "true"))
        elif match := OLD_BATCH.match(line):
            *numbers, codec, crc, valid = match.groups()
            found.append((*map(int, numbers), codec, int(crc), valid == "true"))
        else:
            assert line == "" or line.startswith("Log starting offset: "), line
    return rows


def _key_and_payload(told: str) -> tuple[Any, Any]:
    at = told.find(" key: ")
    if at < 0 or told.startswith(" coordinatorEpoch"):
        return None, None
    if told.startswith("Unknown record type", at + 6):
        return UNKNOWN, None
    key, end = json.JSONDecoder().raw_decode(told, at + 6)
    payload = told[end:].strip().removeprefix("payload: ")
    return key, None if payload == "<DELETE>" else json.loads(payload)


def as_kafka_prints(log: bytes) -> Iterator[Row]:
    """The rows of a log as we read it."""
    for batch in batches_in(log):
        if batch.magic == 2:
            yield (
                *(batch.base_offset, batch.last_offset, batch.record_count, batch.base_sequence, batch.producer_id),
                *(batch.producer_epoch, batch.leader_epoch, batch.is_transactional, batch.is_control, batch.position),
                *(batch.max_timestamp_ms, batch.size_bytes, batch.magic, codecs.CODECS[batch.codec]),
                *(int.from_bytes(batch.data[17:21], "big"), batch.crc_ok),
            )
        else:
            crc = int.from_bytes(batch.data[12:16], "big")
            head = (batch.base_offset, batch.position, batch.max_timestamp_ms, batch.size_bytes, batch.magic)
            yield (*head, codecs.CODECS[batch.codec], crc, batch.crc_ok)
        for record in read_records(batch, cap_bytes=CAP_BYTES):
            assert isinstance(record, Record), record
            key_size, value_size = (-1 if field is None else len(field) for field in (record.key, record.value))
            marker = marker_of(record) if batch.is_control else None
            shown = (None, None) if batch.is_control else _shown(record)
            yield record.log_offset, record.timestamp_ms, key_size, value_size, marker, *shown


def _shown(record: Record) -> tuple[Any, Any]:
    try:
        number, fields = decode_key(record.key or b"", release=TOOL_RELEASE)
    except UnknownRecordType:
        return UNKNOWN, None
    declared = RECORD_TYPES[number]
    key = {"type": str(number), "data": as_kafka_json(declared.key, 0, fields)}
    if record.value is None:
        return key, None
    version, fields = decode_value(number, record.value)
    return key, {"version": str(version), "data": as_kafka_json(declared.value, version, fields)}


def opened(ours: Row, theirs: Row) -> Row:
    """`ours` with the members' subscriptions and assignments opened where the tool has opened them."""
    payload, printed = ours[-1], theirs[-1]
    if isinstance(payload, dict) and isinstance(printed, dict) and "members" in payload["data"]:
        members = printed["data"]["members"]
        if members and isinstance(members[0]["subscription"], dict):
            as_bytes = [{name: b64decode(member[name]) for name in _OPENED} for member in payload["data"]["members"]]
            show_consumer_protocol(payload["data"], printed["data"], {"members": as_bytes})
    return ours
