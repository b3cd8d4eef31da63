"""Logs of every broker line, and logs that outlived an upgrade or a downgrade: records of one line behind another's.

What tests/records/test_recordings.py shows of the recordings before their sweeps is shown here of all of them, with
Kafka's own kafka-dump-log in place of its printed text: that of the newest release reads what every older one wrote.
"""

import itertools
import re
from functools import cache

import pytest

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST, of_broker
from sexton.log.batch import Record, read_records
from sexton.records import UnknownRecordType
from tests.faults.kafka_dump import assert_reads_the_same
from tests.faults.logs import GOLDEN, batches_in, joined
from tests.kernels.compare import PROFILES, assert_equal, fold_bytes, loaded
from tests.record_fields import decode_key, decode_value, encode_key, encode_value
from tests.tiers import later

pytestmark = pytest.mark.thorough

LINES = ("0.9.0.1", "2.8.2", "3.9.1", "4.0.0", "4.3.1")
"""One broker of each line, of which there must be a recording."""


def release_of(recording: str) -> tuple[int, ...]:
    (text,) = re.findall(r"^kafka-([\d.]+)", recording)
    return tuple(map(int, text.split(".")))


RECORDINGS = sorted((path.name for path in GOLDEN.glob("kafka-[0-9]*")), key=release_of)
SEGMENTS = sorted(GOLDEN.glob("kafka-[0-9]*/*/__consumer_offsets-*/*.log"))
ONE_OF_EACH_LINE = [next(name for name in RECORDINGS if name.startswith(f"kafka-{release}")) for release in LINES]


@cache
def log_of(recording: str, log_partition: int, state: str = "before") -> bytes:
    folder = GOLDEN / recording / state / f"__consumer_offsets-{log_partition}"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def profile_of_broker(recording: str) -> Profile:
    return of_broker(".".join(map(str, release_of(recording))))


@pytest.mark.parametrize("state", ["before", "swept"])
@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_record_is_read_and_written_again(recording: str, state: str) -> None:
    release, records = release_of(recording), 0
    for log_partition in range(4):
        for batch in batches_in(log_of(recording, log_partition, state)):
            for record in () if batch.is_control else read_records(batch, cap_bytes=1 << 24):
                assert isinstance(record, Record)
                assert written_again(record, None) == (record.key, record.value)
                assert written_again(record, release) == (record.key, record.value)
                records += 1
        plain = loaded(log_of(recording, log_partition, state), profile=profile_of_broker(recording))
        assert plain.undecodable == []
    assert records > 100


def written_again(record: Record, release: tuple[int, ...] | None) -> tuple[bytes, bytes | None]:
    assert record.key is not None
    number, key = decode_key(record.key, release=release)
    if record.value is None:
        return encode_key(number, key), None
    version, value = decode_value(number, record.value, release=release)
    return encode_key(number, key), encode_value(number, version, value, release=release)


def test_kafka_dump_log_of_the_newest_release_reads_the_same(full: bool, tell) -> None:
    segments = SEGMENTS if full else [path for path in SEGMENTS if path.parent.name.endswith("-2")]
    rows = assert_reads_the_same({path: path.read_bytes() for path in segments})
    tell(f"{rows:,} batches and records of {len(segments)} segments")


def check(log: bytes, profile: Profile) -> None:
    assert_equal(fold_bytes(log, profile=profile), loaded(log, profile=profile), partition_count=4)


@pytest.mark.parametrize("older, newer", itertools.combinations(ONE_OF_EACH_LINE, 2))
@pytest.mark.parametrize("change", ["upgrade", "downgrade"])
def test_one_line_behind_another(change: str, older: str, newer: str, full: bool) -> None:
    """A downgrade leaves records that the older release does not know."""
    first, second = (older, newer) if change == "upgrade" else (newer, older)
    for log_partition in range(4) if full else (2,):
        log = joined(log_of(first, log_partition), log_of(second, log_partition, "swept"))
        for profile in (
            (NEWEST, profile_of_broker(older), profile_of_broker(newer)) if full else (profile_of_broker(second),)
        ):
            check(log, profile)
        assert loaded(log).undecodable == []


@pytest.mark.parametrize("log_partition", later(pytest.mark.full, range(4), but=[0, 2]))
def test_all_lines_in_the_order_of_their_releases(log_partition: int, full: bool) -> None:
    log = joined(*(log_of(recording, log_partition) for recording in RECORDINGS))
    assert loaded(log).undecodable == []
    for profile in PROFILES if full else (NEWEST, PROFILES[log_partition * 3]):
        check(log, profile)


def test_an_unknown_type_is_told_by_the_release_that_reads() -> None:
    """Records of Kafka 4 in front of a coordinator of 3.9, which skips them, and of 2.8, whose load ends there."""
    log = log_of("kafka-4.3.1-plain", 0)
    newer_types = 0
    for batch in batches_in(log):
        for record in () if batch.is_control else read_records(batch, cap_bytes=1 << 24):
            try:
                decode_key(record.key, release=(2, 8))
            except UnknownRecordType:
                newer_types += 1
    assert newer_types > 10
    skipping, ending = (loaded(log, profile=of_broker(release)) for release in ("3.9.1", "2.8.2"))
    assert skipping.unknown_types.total() == newer_types
    assert sum(row.reason == "unknown_record_type" for row in ending.undecodable) == newer_types
