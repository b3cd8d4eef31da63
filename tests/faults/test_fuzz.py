"""Bytes that nobody wrote, given to every decoder: an answer, or an error that says what is wrong, soon and cheaply.

Full: 10,000,000 inputs. Half of them go to one decoder each, the rest are records in batches with good CRCs: the fold
reads all of those, the plain replay the logs of one in so many, and both must come to the same rows.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

import pyarrow as pa
import pytest

from sexton.coordinator import decoding
from sexton.coordinator.decoding import Decoded, Undecodable, UnknownType
from sexton.errors import LogError
from sexton.log import codec as codecs
from sexton.log.batch import (
    BadRecord,
    Batch,
    Damage,
    Record,
    TornTail,
    encode_batch,
    marker_of,
    read_batches,
    read_records,
)
from sexton.records import MalformedRecord, UnknownRecordType, decode_subscription
from sexton.settings import Settings
from tests.faults.logs import batches_in, every_kind, recordings, window
from tests.faults.memory import PeakMemory
from tests.faults.records import ALL_VERSIONS, random_key, random_value, recorded_pairs, spoiled
from tests.kernels.compare import PROFILES, assert_equal, fold_bytes, loaded
from tests.log_builder import BASE_MS, sealed, subscription
from tests.record_fields import decode_key, decode_value

pytestmark = pytest.mark.thorough

Make = Callable[[Random], bytes]
Read = Callable[[bytes, Random], str]

# inputs for each of the two seeds
CI = {"key": 2_000, "value": 4_000, "subscription": 1_000, "batch": 1_500, "body": 500, "record": 1_000}
FULL = {
    "key": 500_000, "value": 1_250_000, "subscription": 500_000, "batch": 150_000, "body": 100_000, "record": 2_500_000
}  # fmt: skip
SLOWEST_S = 1.0
MORE_BYTES = 64 << 20
MEASURED_AT_ONCE = 500
BODIES_OF_A_LOG = 10
CAP_BYTES = Settings.model_fields["inflated_cap_bytes"].default


def fuzz(make: Make, read: Read, *, count: int, random: Random) -> Counter[str]:
    """What `read` says of `count` inputs; each is taken in SLOWEST_S of the processor and MORE_BYTES of memory."""
    said: Counter[str] = Counter()
    for _ in range(0, count, MEASURED_AT_ONCE):
        inputs = [make(random) for _ in range(MEASURED_AT_ONCE)]
        with PeakMemory() as memory:
            for data in inputs:
                began = time.process_time()
                try:
                    said[read(data, random)] += 1
                except Exception as error:
                    raise AssertionError(f"{type(error).__name__} for {data.hex()}") from error
                assert time.process_time() - began < SLOWEST_S, data.hex()
        assert (memory.growth_bytes or 0) < MORE_BYTES
    return said


@cache
def _pool(seed: int) -> list[tuple[int, bytes, bytes]]:
    """(type, key, value) of every type and version, and what brokers wrote."""
    random = Random(seed)
    made = [
        (number, random_key(number, random), random_value(number, version, random))
        for number, version in ALL_VERSIONS
        for _ in range(20)
    ]
    recorded = [(int.from_bytes(key[:2], "big"), key, value or b"") for key, value in recorded_pairs()]
    return made + random.sample(recorded, 500)


def decoded(decode: Callable[..., object], *given: object) -> str:
    """What comes of it: "read", or why it cannot be."""
    try:
        decode(*given)
    except (MalformedRecord, UnknownRecordType) as error:
        return error.reason
    return "read"


def read_key(key: bytes, random: Random) -> str:
    judge(key, None, random)
    return decoded(decode_key, key)


def read_value(data: bytes, random: Random) -> str:
    """A value behind the number of its type, in two bytes of its own."""
    number, value = int.from_bytes(data[:2], "big"), data[2:]
    judge(random_key(number, random), value, random)
    return decoded(decode_value, number, value)


def judge(key: bytes, value: bytes | None, random: Random) -> None:
    """A coordinator of any release has a verdict."""
    record = Record(log_offset=5, timestamp_ms=BASE_MS, key=key, value=value)
    found = decoding.decode(record, base_offset=5, profile=random.choice(PROFILES))
    assert isinstance(found, Decoded | UnknownType | Undecodable)


def read_subscription(data: bytes, random: Random) -> str:
    try:
        return "unknown" if decode_subscription(data) is None else "read"
    except MalformedRecord as error:
        return error.reason


def read_log(data: bytes, random: Random) -> str:
    said = "nothing"
    for entry in read_batches(data):
        assert isinstance(entry, Batch | Damage | TornTail)
        if not isinstance(entry, Batch):
            said = type(entry).__name__
            continue
        for record in read_records(entry, cap_bytes=CAP_BYTES):
            assert isinstance(record, Record | BadRecord)
            said = "read" if isinstance(record, Record) else record.reason
            if isinstance(record, Record) and entry.is_control:
                said = read_marker(record)
    return said


def read_marker(record: Record) -> str:
    try:
        return str(marker_of(record))
    except LogError as error:
        return error.reason


@cache
def _batches(seed: int) -> list[bytes]:
    random = Random(seed)
    logs = [every_kind(), *(window(log, random, size_bytes=2_000) for log in recordings().values())]
    return [bytes(batch.data) for log in logs for batch in batches_in(log)]


def spoiled_batch(seed: int, random: Random) -> bytes:
    """A batch with changes in it, or any bytes; most have a good CRC again, so that their records are looked at."""
    data = bytearray(spoiled(random.choice(_batches(seed)), random))
    if len(data) > 61 and data[16] == 2 and random.random() < 0.8:
        return sealed(data)
    return bytes(data)


@pytest.mark.parametrize("kind", ["key", "value", "subscription", "batch"])
def test_decoders(kind: str, full: bool, seed: int, tell) -> None:
    pool = _pool(seed)

    def value(random: Random) -> bytes:
        number, _, value = random.choice(pool)
        return number.to_bytes(2, "big") + spoiled(value, random)

    ways: dict[str, tuple[Make, Read]] = {
        "key": (lambda random: spoiled(random.choice(pool)[1], random), read_key),
        "value": (value, read_value),
        "subscription": (lambda random: spoiled(subscription("t", "группа", "u" * 99), random), read_subscription),
        "batch": (lambda random: spoiled_batch(seed, random), read_log),
    }
    make, read = ways[kind]
    said = fuzz(make, read, count=(FULL if full else CI)[kind], random=Random(seed))
    tell(f"{said.total():,} inputs: {dict(said.most_common())}")
    assert len(said) > 1, "no input was bad, or none was good"


def test_compressed_bodies(full: bool, seed: int, tell) -> None:
    """The fold decompresses most of them itself; the reader, by other libraries, must come to the same."""
    random, pool, said = Random(seed), _pool(seed), Counter[str]()
    count = (FULL if full else CI)["body"]
    for _ in range(0, count, BODIES_OF_A_LOG):
        log = b"".join(spoiled_body(pool, at, random) for at in range(0, 10 * BODIES_OF_A_LOG, 10))
        try:
            assert_equal(fold_bytes(log), plain := loaded(log))
        except Exception as error:
            raise AssertionError(log.hex()) from error
        said.update(row.reason for row in plain.undecodable)
    tell(f"{count:,} bodies: {dict(said.most_common())}")
    assert said["bad_codec"]


def spoiled_body(pool: list[tuple[int, bytes, bytes]], at: int, random: Random) -> bytes:
    """A batch with a good CRC whose compressed records are spoiled, or now and then are not."""
    records = [random.choice(pool)[1:] for _ in range(random.choice([1, 3, 10]))]
    plain = encode_batch(records, base_offset=at, timestamp_ms=BASE_MS)
    codec = random.randint(1, 4)
    body = random.choice(WRITERS)(plain[61:], codec)
    body = spoiled(body, random) if random.random() < 0.8 else body
    return sealed(plain[:21] + bytes([0, codec]) + plain[23:61] + body)


def by_pyarrow(data: bytes, codec: int) -> bytes:
    """As clients that do not run on Java write it: snappy without xerial's frame, zstd with its size told."""
    name = {codecs.GZIP: "gzip", codecs.SNAPPY: "snappy", codecs.LZ4: "lz4", codecs.ZSTD: "zstd"}[codec]
    return bytes(pa.Codec(name).compress(data, asbytes=True))


WRITERS: tuple[Callable[[bytes, int], bytes], ...] = (lambda data, codec: codecs.deflate(codec, data), by_pyarrow)
