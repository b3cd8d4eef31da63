"""What recorded settings decide of appends, by release."""

import pytest

from sexton.coordinator.api.append_settings import ACKS, REPLICATION, TIMEOUT, AppendSettings, append_settings
from sexton.coordinator.api.configs import CODEC, Recorded
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import encode_batches
from sexton.log.batch import Batch, Record, read_batches, read_records

NEWEST, OLD = "group_coordinator:4.3.1", "group_metadata_manager:2.8.2"
KEYS = [("g", b"\x00\x01key-%d" % number) for number in range(40)]


def settings(profile, broker=None, topic=None, max_message_bytes=None) -> AppendSettings:
    recorded = Recorded(broker_settings=broker or {}, topic_settings=topic or {}, max_message_bytes=max_message_bytes)
    return append_settings(recorded, profile=profile_of(profile))


def test_what_nobody_recorded_is_kafkas_default():
    told = settings(NEWEST)
    assert (told.topic.codec, told.topic.message_format, told.topic.max_message_bytes) == (0, None, 1_048_588)
    assert (told.max_metadata_length, told.warnings) == (4096, ())


@pytest.mark.parametrize("number, name", [*enumerate(["none", "gzip", "snappy", "lz4", "zstd"])])
def test_the_codec_of_the_broker_unless_the_topic_has_its_own(number, name):
    assert settings(NEWEST, {CODEC: str(number)}).topic.codec == number
    assert settings(NEWEST, {CODEC: str(number)}, {"compression.type": "producer"}).topic.codec == number
    assert settings(NEWEST, {CODEC: str(number)}, {"compression.type": "uncompressed"}).topic.codec == 0
    assert settings(NEWEST, {CODEC: "1"}, {"compression.type": name}).topic.codec == number


def test_other_settings():
    told = settings(NEWEST, {"offset.metadata.max.bytes": "9"}, max_message_bytes=5)
    assert (told.max_metadata_length, told.topic.max_message_bytes) == (9, 5)


def test_how_long_an_append_waits():
    assert (settings(OLD).required_acks, settings(OLD).commit_timeout_ms) == (-1, 5000)
    told = settings(OLD, {ACKS: "1", TIMEOUT: "250"})
    assert (told.required_acks, told.commit_timeout_ms, told.warnings) == (1, 250, ())
    assert settings(NEWEST, {ACKS: "1"}).required_acks == -1  # KIP-1041


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        (TIMEOUT, "0", False),
        (TIMEOUT, "1", True),
        (TIMEOUT, "x", False),
        (ACKS, "-2", False),
        (ACKS, "2", True),
        (ACKS, "4", False),
    ],
)
def test_a_value_that_no_broker_starts_with_is_said(name, value, allowed):
    told = settings(OLD, {name: value, REPLICATION: "3"})
    assert len(told.warnings) == (not allowed)
    assert all(name in warning and value in warning for warning in told.warnings)
    found = {ACKS: told.required_acks, TIMEOUT: told.commit_timeout_ms}
    assert found == {ACKS: -1, TIMEOUT: 5000} | ({name: int(value)} if allowed else {})


@pytest.mark.parametrize(
    "profile, broker, topic, says",
    [
        ("group_metadata_manager:2.0.1", {CODEC: "4"}, {}, "Kafka 2.0.1 does not write zstd in format 2"),
        ("offset_manager:0.9.0.1", {CODEC: "4"}, {}, "Kafka 0.9.0.1 does not write zstd in format 0"),
        (OLD, {CODEC: "4"}, {"message.format.version": "0.10.2-IV0"}, "does not write zstd in format 1"),
        (NEWEST, {CODEC: "9"}, {}, f"{CODEC} is 9"),
        (NEWEST, {}, {"compression.type": "brotli"}, "compression.type is brotli"),
    ],
)
def test_a_codec_that_cannot_be_is_said(profile, broker, topic, says):
    told = settings(profile, broker, topic)
    assert told.topic.codec == 0
    assert len(told.warnings) == 1
    assert says in told.warnings[0]


def test_zstd_since_2_1():
    assert settings("group_metadata_manager:2.1.1", {CODEC: "4"}).topic.codec == 4
    assert settings("offset_manager:0.8.2", {CODEC: "3"}).topic.codec == 3


@pytest.mark.parametrize(
    "profile, broker, text, magic",
    [
        (OLD, {}, "0.9.0", 0),
        (OLD, {}, "0.10.2-IV0", 1),
        (OLD, {}, "0.11.0-IV2", None),
        (OLD, {}, "2.8-IV1", None),
        ("group_metadata_manager:0.10.2.2", {}, "0.10.2-IV0", None),
        ("group_metadata_manager:3.5.2", {}, "0.10.2-IV0", None),
        ("group_metadata_manager:3.5.2", {"inter.broker.protocol.version": "3.0-IV1"}, "0.10.2-IV0", None),
        ("group_metadata_manager:3.5.2", {"inter.broker.protocol.version": "2.8-IV1"}, "0.10.2-IV0", 1),
        (NEWEST, {}, "0.10.2-IV0", None),
    ],
)
def test_the_record_format_of_the_topic(profile, broker, text, magic):
    """It is ignored once the brokers talk as 3.0 does (KIP-724)."""
    assert settings(profile, broker, {"message.format.version": text}).topic.message_format == magic


NEWEST_CODECS = {"offset_manager:0.9.0.1": 3, "group_metadata_manager:0.10.2.2": 3, OLD: 4, NEWEST: 4}


@pytest.mark.parametrize(
    "release, codec", [(release, codec) for release, newest in NEWEST_CODECS.items() for codec in range(newest + 1)]
)
def test_batches_of_a_codec_hold_the_same_records(release, codec):
    profile = profile_of(release)
    assert profile.newest_codec == NEWEST_CODECS[release]
    plain = encode_batches(KEYS, base_offset=7, as_of_ms=5_000, profile=profile)
    packed = encode_batches(KEYS, base_offset=7, as_of_ms=5_000, profile=profile, codec=codec)
    (first, *_) = batches = [one for one in read_batches(packed) if isinstance(one, Batch)]
    assert (first.codec, first.magic, all(one.crc_ok for one in batches)) == (codec, profile.record_format, True)
    assert len(batches) == (40 if codec == 0 and profile.record_format < 2 else 1)
    assert records(packed) == records(plain)
    assert [one.log_offset for one in records(packed)] == [*range(7, 47)]


def records(data):
    found = [one for batch in read_batches(data) for one in read_records(batch, cap_bytes=1 << 20)]
    assert all(isinstance(one, Record) for one in found)
    return found
