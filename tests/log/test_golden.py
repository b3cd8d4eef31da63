"""The recordings of real brokers: every batch and record as kafka-dump-log prints it, and nothing left over."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.log import codec
from sexton.log.batch import Batch, Record, encode_batch, marker_of, read_batches, read_records
from tests.log.samples import CAP_BYTES, batches_of, dumped

GOLDEN = Path(__file__).parents[1] / "golden"
DUMPED = (
    "kafka-4.3.1-plain",
    "kafka-4.3.1-lz4",
    "kafka-4.3.1-partial",
    "kafka-4.0.0",
    "kafka-3.9.1",
    "kafka-2.8.2-plain",
)
SEGMENTS = sorted(GOLDEN.glob("kafka-[0-9]*/*/__consumer_offsets-*/*.log"))

# The shape of kafka-dump-log's lines; a deleteHorizonMs is printed by 3.1 and later, crc as the last field but one.
BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) "
    r"lastSequence: -?\d+ producerId: (?P<pid>-?\d+) producerEpoch: (?P<epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader>\d+) isTransactional: (?P<txn>true|false) isControl: (?P<control>true|false) "
    r"(?:deleteHorizonMs: OptionalLong.*? )?position: (?P<position>\d+) (?:CreateTime|LogAppendTime): (?P<ms>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) "
    r"isvalid: (?P<valid>true|false)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<ms>-?\d+) keySize: (?P<key>-?\d+) "
    r"valueSize: (?P<value>-?\d+) sequence: -?\d+ headerKeys: \[\](?: endTxnMarker: (?P<marker>COMMIT|ABORT))?"
)


def as_dumped(batch: Batch) -> Iterator[tuple[object, ...]]:
    """The batch and its records in the order and with the fields of the lines."""
    yield (
        batch.base_offset,
        batch.last_offset,
        batch.record_count,
        batch.base_sequence,
        batch.producer_id,
        batch.producer_epoch,
        batch.leader_epoch,
        batch.is_transactional,
        batch.is_control,
        batch.position,
        batch.max_timestamp_ms,
        batch.size_bytes,
        batch.magic,
        codec.CODECS[batch.codec],
        int.from_bytes(batch.data[17:21], "big"),
        batch.crc_ok,
    )
    for record in read_records(batch, cap_bytes=CAP_BYTES):
        assert isinstance(record, Record)
        key_size = -1 if record.key is None else len(record.key)
        value_size = -1 if record.value is None else len(record.value)
        marker = marker_of(record) if batch.is_control else None
        yield record.log_offset, record.timestamp_ms, key_size, value_size, marker


def parsed(line: str) -> tuple[object, ...]:
    if match := BATCH.match(line):
        head = [int(match[name]) for name in ("base", "last", "count", "sequence", "pid", "epoch", "leader")]
        bits = [match[name] == "true" for name in ("txn", "control")]
        tail = [int(match[name]) for name in ("position", "ms", "size", "magic")]
        return (*head, *bits, *tail, match["codec"], int(match["crc"]), match["valid"] == "true")
    match = RECORD.match(line)
    assert match, line
    return int(match["offset"]), int(match["ms"]), int(match["key"]), int(match["value"]), match["marker"]


@pytest.mark.parametrize("folder", DUMPED)
def test_reads_what_kafka_dump_log_prints(folder: str) -> None:
    segments: dict[str, list[str]] = {}
    for segment, line in dumped(GOLDEN / folder):
        segments.setdefault(segment, []).append(line)
    assert len(segments) == 4
    for segment, lines in segments.items():
        log = (GOLDEN / folder / "before" / segment).read_bytes()
        assert [row for batch in batches_of(log) for row in as_dumped(batch)] == [parsed(line) for line in lines]


@pytest.mark.parametrize("state, record_counts", [("before", [232, 127, 222, 187]), ("swept", [307, 177, 309, 256])])
def test_the_oldest_recording_is_of_format_v0(state: str, record_counts: list[int]) -> None:
    counts = []
    for path in sorted((GOLDEN / "kafka-0.9.0.1" / state).glob("*/*.log")):
        batches = batches_of(path.read_bytes())
        assert {(batch.magic, batch.codec, batch.max_timestamp_ms) for batch in batches} == {(0, codec.NONE, -1)}
        records = [record for batch in batches for record in read_records(batch, cap_bytes=CAP_BYTES)]
        assert [record.log_offset for record in records] == list(range(len(records)))
        counts.append(len(records))
    assert counts == record_counts


def test_an_uncompressed_batch_is_written_byte_for_byte_as_a_broker_writes_it() -> None:
    seen = 0
    for path in SEGMENTS:
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, Batch)
            if batch.magic < 2 or batch.codec != codec.NONE:
                continue
            records = list(read_records(batch, cap_bytes=CAP_BYTES))
            written = encode_batch(
                [(record.key, record.value) for record in records if isinstance(record, Record)],
                base_offset=batch.base_offset,
                timestamp_ms=batch.base_timestamp_ms,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                leader_epoch=batch.leader_epoch,
                transactional=batch.is_transactional,
                control=batch.is_control,
                timestamp_deltas=[
                    record.timestamp_ms - batch.base_timestamp_ms for record in records if isinstance(record, Record)
                ],
            )
            assert written == batch.data
            seen += 1
    assert seen > 8000
