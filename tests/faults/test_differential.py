"""The same bytes by our reader, by kafka-python's and by Kafka's own kafka-dump-log: the same batches and records.

Logs of every record format and codec. What writes them is not what is tested: bodies are compressed by other libraries
than ours reads them with, and some batches come from kafka-python's builder. Full: a million records by kafka-python,
120,000 by kafka-dump-log. The load of a real coordinator is compared with ours in tests/coordinator.
"""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import kafka.codec
import kafka.record.default_records
import kafka.record.legacy_records
import pyarrow as pa
import pytest
import zstandard
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from sexton.log import codec as codecs
from sexton.log.batch import Record, read_records
from sexton.log.message_set import encode_message
from sexton.records import RECORD_TYPES
from tests.faults.kafka_dump import assert_reads_the_same
from tests.faults.logs import batches_in, moved
from tests.faults.records import ALL_VERSIONS, random_key, random_value
from tests.kernels.compare import assert_equal, fold_bytes, loaded
from tests.log_builder import BASE_MS, sealed
from tests.log_encoding import encode_batch, encode_marker, encode_message_set
from tests.record_fields import decode_value, encode_value

pytestmark = pytest.mark.thorough

Pair = tuple[bytes | None, bytes | None]
CAP_BYTES = 1 << 24
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if magic == 2 or codec != codecs.ZSTD]
READ_BY_PYTHON = {False: 200, True: 40_000}  # records for each format and seed
READ_BY_KAFKA = {False: 150, True: 4_700}


# --- compression by other libraries


def _raw_snappy(data: bytes) -> bytes:
    return pa.Codec("snappy").compress(data, asbytes=True)


def _xerial_snappy(data: bytes) -> bytes:
    """As snappy-java frames it, here in blocks of 1000 bytes."""
    blocks = [_raw_snappy(data[at : at + 1000]) for at in range(0, len(data), 1000)]
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def _lz4(data: bytes) -> bytes:
    return pa.Codec("lz4").compress(data, asbytes=True)


def _old_lz4(data: bytes) -> bytes:
    """With the header checksum that nobody looks at in format v0 (KAFKA-3160)."""
    frame = bytearray(_lz4(data))
    frame[6] ^= 0x55
    return bytes(frame)


def _streamed_zstd(data: bytes) -> bytes:
    """Without the size of the content in its header, as Java's stream leaves it."""
    deflater = zstandard.ZstdCompressor().compressobj()
    return deflater.compress(data) + deflater.flush()


def compressed(data: bytes, *, magic: int, codec: int, random: Random) -> bytes:
    ways: dict[int, list[Callable[[bytes], bytes]]] = {
        codecs.NONE: [bytes],
        codecs.GZIP: [gzip.compress],
        codecs.SNAPPY: [_raw_snappy, _xerial_snappy],
        codecs.LZ4: [_lz4 if magic else _old_lz4],
        codecs.ZSTD: [_streamed_zstd, zstandard.ZstdCompressor().compress],
    }
    return random.choice(ways[codec])(data)


# --- logs


def written(pairs: list[Pair], *, magic: int, codec: int, random: Random) -> bytes:
    """A log of these records, a few to a batch, with everything that a batch of the format can have."""
    log, at = b"", random.randrange(1 << 20)
    while pairs:
        some, pairs = pairs[: (size := random.choice([1, 2, 5, 60]))], pairs[size:]
        if magic == 2:
            data = new_batch(some, at, codec, random)
        elif codec:
            data = wrapper(some, at, magic, codec, random)
        else:
            data = encode_message_set(
                some, base_offset=at, magic=magic, timestamp_ms=stamp(random) if magic else -1,
                log_append_time=bool(magic) and random.random() < 0.2,
            )  # fmt: skip
        log += data
        at = batches_in(data)[-1].next_offset + random.choice([0, 0, 0, 3])
    return log


def new_batch(pairs: list[Pair], at: int, codec: int, random: Random) -> bytes:
    producer_id = random.choice([-1, -1, 0, 1 << 40])
    if producer_id >= 0 and random.random() < 0.3:
        marker = encode_marker(
            random.random() < 0.5, base_offset=at, timestamp_ms=stamp(random), producer_id=producer_id, producer_epoch=3
        )
        return marker + new_batch(pairs, at + 1, codec, random)
    deltas = sorted(random.sample(range(2 * len(pairs)), len(pairs)))
    plain = encode_batch(
        pairs,
        base_offset=at,
        timestamp_ms=stamp(random),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else random.choice([0, 32_767]),
        base_sequence=-1 if producer_id < 0 else random.choice([0, (1 << 31) - 1]),
        leader_epoch=random.choice([0, 7]),
        transactional=producer_id > 0,
        log_append_time=random.random() < 0.2,
        delete_horizon_ms=random.choice([None, None, BASE_MS + 9]),
        offset_deltas=deltas,
        timestamp_deltas=[random.choice([0, 5, -5, 1 << 33]) for _ in pairs],
        last_offset_delta=deltas[-1] + random.choice([0, 2]),
    )
    body = compressed(plain[61:], magic=2, codec=codec, random=random)
    return sealed(plain[:22] + bytes([plain[22] | codec]) + plain[23:61] + body)


def wrapper(pairs: list[Pair], at: int, magic: int, codec: int, random: Random) -> bytes:
    stamp_ms = stamp(random) if magic else -1
    inner = encode_message_set(pairs, base_offset=0 if magic else at, magic=magic, timestamp_ms=stamp_ms)
    return encode_message(
        None, compressed(inner, magic=magic, codec=codec, random=random), offset=at + len(pairs) - 1, magic=magic,
        timestamp_ms=stamp_ms, codec=codec, log_append_time=bool(magic) and random.random() < 0.2,
    )  # fmt: skip


def stamp(random: Random) -> int:
    return BASE_MS + random.choice([0, -1_000, 1 << 33])


def built_by_kafka_python(pairs: list[Pair], codec: int) -> bytes:
    """A batch of format v2, of which every record has a header."""
    builder = MemoryRecordsBuilder(2, codec, batch_size=1 << 20)
    for number, (key, value) in enumerate(pairs):
        builder.append(BASE_MS + number, key, value, [("name", b"value"), ("none", None)])
    builder.close()
    return bytes(builder.buffer())


def any_pairs(count: int, random: Random) -> list[Pair]:
    """Records of every type, and bytes that are none."""
    pairs: list[Pair] = []
    for _ in range(count):
        number, version = random.choice(ALL_VERSIONS)
        value = None if random.random() < 0.2 else random_value(number, version, random)
        pairs.append((random_key(number, random), value))
    pairs[:: max(count // 7, 1)] = [(None, b"v") for _ in pairs[:: max(count // 7, 1)]]
    pairs[-1] = (b"", random.randbytes(3_000))
    return pairs


# --- kafka-python


@pytest.fixture(scope="module")
def kafka_python() -> Iterator[None]:
    """kafka-python with the codecs whose own libraries are not installed, by way of pyarrow."""

    def snappy(block: bytes) -> bytes:
        size = shift = at = 0
        while True:
            byte = block[at]
            size |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)

    def lz4(frame: bytes) -> bytes:
        return pa.CompressedInputStream(pa.BufferReader(frame), "lz4").read()

    def old_lz4(frame: bytes) -> bytes:
        return lz4(frame[:6] + bytes([frame[6] ^ 0x55]) + frame[7:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka.codec, "snappy", SimpleNamespace(decompress=snappy))
        patch.setattr(kafka.codec, "has_lz4", lambda: True)
        for module in (kafka.record.default_records, kafka.record.legacy_records):
            patch.setattr(module, "lz4_decode", lz4)
        patch.setattr(kafka.record.legacy_records, "lz4_decode_old_kafka", old_lz4)
        yield


def by_kafka_python(log: bytes) -> Iterator[tuple[object, ...]]:
    records = MemoryRecords(log)
    while records.has_next():
        batch = records.next_batch()
        is_new = batch.magic == 2
        yield (
            batch.base_offset, batch.size_in_bytes, batch.magic, batch.compression_type,
            bool(batch.timestamp_type), batch.validate_crc(),
            *((batch.last_offset, batch.leader_epoch, batch.is_transactional, batch.is_control_batch,
               batch.first_timestamp, batch.max_timestamp, batch.producer_id, batch.producer_epoch,
               batch.base_sequence, batch.records_count) if is_new else ()),
        )  # fmt: skip
        for record in batch:
            yield record.offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value
    assert records.valid_bytes() == len(log)


def by_us(log: bytes) -> Iterator[tuple[object, ...]]:
    for batch in batches_in(log):
        yield (
            batch.base_offset, batch.size_bytes, batch.magic, batch.codec, batch.is_log_append_time, batch.crc_ok,
            *((batch.last_offset, batch.leader_epoch, batch.is_transactional, batch.is_control,
               batch.base_timestamp_ms, batch.max_timestamp_ms, batch.producer_id, batch.producer_epoch,
               batch.base_sequence, batch.record_count) if batch.magic == 2 else ()),
        )  # fmt: skip
        for record in read_records(batch, cap_bytes=CAP_BYTES):
            assert isinstance(record, Record), record
            yield record.log_offset, record.timestamp_ms, record.key, record.value


@pytest.mark.parametrize("magic, codec", FORMATS)
def test_kafka_python_reads_the_same(kafka_python, magic: int, codec: int, full: bool, seed: int, tell) -> None:
    random, records = Random(f"{seed} {magic} {codec}"), 0
    while records < READ_BY_PYTHON[full]:
        count = min(200, READ_BY_PYTHON[full])
        log = written(any_pairs(count, random), magic=magic, codec=codec, random=random)
        ours = list(by_us(log))
        assert ours == list(by_kafka_python(log))
        if records % 2_000 == 0:
            assert_equal(fold_bytes(log), loaded(log))
        records += count
    if full:
        tell(f"{records:,} records")


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.GZIP, codecs.ZSTD])
def test_what_kafka_python_has_built(kafka_python, codec: int) -> None:
    random = Random(codec)
    pairs = any_pairs(60, random)
    log = moved(built_by_kafka_python(pairs, codec), 1_000)
    ours = list(by_us(log))
    assert ours == list(by_kafka_python(log))
    assert [row[2:] for row in ours[1:]] == pairs
    assert_equal(fold_bytes(log), loaded(log))


# --- kafka-dump-log

UNLIKE_4_3: dict[int, dict[str, Any]] = {
    2: {"protocol_type": "connect"},
    17: {"stored_description_topology_epoch": -1, "failed_description_topology_epoch": -1},  # of 4.4
}


def readable_pairs(count: int, random: Random) -> list[Pair]:
    """Records that Kafka 4.3 knows in full, without members' metadata, which the tool would open."""
    pairs: list[Pair] = []
    known = [(number, version) for number, version in ALL_VERSIONS if RECORD_TYPES[number].is_read_by((4, 3))]
    for _ in range(count):
        number, version = random.choice([*known, *[(1, 3), (1, 4)] * 9])
        value = None if random.random() < 0.2 else random_value(number, version, random)
        if number in UNLIKE_4_3 and value is not None:
            _, fields = decode_value(number, value)
            value = encode_value(number, version, fields | UNLIKE_4_3[number])
        pairs.append((random_key(number, random), value))
    return pairs


def test_kafka_dump_log_reads_the_same(tmp_path: Path, full: bool, seed: int, tell) -> None:
    random = Random(seed)
    logs = {
        f"v{magic}-{codecs.CODECS[codec]}": written(
            readable_pairs(READ_BY_KAFKA[full], random), magic=magic, codec=codec, random=random
        )
        for magic, codec in FORMATS
    }
    files = {}
    for name, log in logs.items():
        (tmp_path / name).mkdir()
        files[tmp_path / name / f"{batches_in(log)[0].base_offset:020d}.log"] = log
    for path, log in files.items():
        path.write_bytes(log)
    assert_reads_the_same(files)
    tell(f"{READ_BY_KAFKA[full] * len(logs):,} records in {len(logs)} formats")
