"""The write path: what brokers have written is written again from the requests behind it, byte for byte."""

from dataclasses import replace

import pytest

from sexton.coordinator.api.append_settings import PROTOCOL, append_settings
from sexton.coordinator.api.commit import Commit, CommitPartition
from sexton.coordinator.api.configs import Recorded
from sexton.coordinator.api.coordinator import LOADING
from sexton.coordinator.api.dry_run import commit_offsets, store_group
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.group_metadata_record import GroupMetadataRecord
from sexton.coordinator.api.java_map import iteration_order
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.batches import KAFKA_DEFAULTS, LogEnd, TopicSettings
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.profiles import of_broker
from sexton.log import codec as codecs
from sexton.log.batch import read_batches
from sexton.records import GroupMetadataValue, kafka_uuid
from tests.coordinator.api.broker import one_log
from tests.coordinator.golden import RELEASES, data_batches
from tests.record_fields import decode_key, decode_value, from_fields

DAY_MS = 24 * 3_600_000
NOW_MS = 1_795_000_000_000


VALUE = ("committed_offset", "leader_epoch", "metadata")


def asked(partition, topic="t", **fields):
    return CommitPartition(topic=topic, partition=partition, **fields)


def value_of(fields):
    return {**{name: fields[name] for name in VALUE}, "topic_id": kafka_uuid(fields["topic_id"])}


def commit_of(*partitions, **request):
    return Commit(group_id="g", partitions=partitions, **request)


def end_before(batch):
    return LogEnd(log_offset=batch.base_offset, leader_epoch=max(batch.leader_epoch, 0))


def _commits(name):
    """Batches of one group's commits, each with the request that it answers."""
    for batch, records in data_batches(name):
        parts = [
            (decode_key(record.key)[1], decode_value(1, record.value)[1], record)
            for record in records
            if record.key[:2] in (b"\0\0", b"\0\1") and record.value is not None
        ]
        requests = {(key["group_id"], value["commit_timestamp_ms"]) for key, value, _ in parts}
        if len(parts) == len(records) and len(requests) == 1:
            yield batch, parts


@pytest.mark.parametrize("name, release", RELEASES.items())
def test_a_commit_is_written_as_the_broker_wrote_it(name, release):
    coordinator = one_log(profile=of_broker(release))
    compared = 0
    for batch, parts in _commits(name):
        key, value, record = parts[0]
        if batch.magic > 0 and record.timestamp_ms != value["commit_timestamp_ms"]:
            continue  # the request was read a moment before its batch was made
        commit = Commit(
            group_id=key["group_id"],
            partitions=tuple(asked(key["partition"], key["topic"], **value_of(value)) for key, value, _ in parts),
            is_transactional=batch.is_transactional,
            api_version=10,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
        )
        retention_ms = max(value["expire_timestamp_ms"] - value["commit_timestamp_ms"], 0)
        run = commit_offsets(
            coordinator,
            commit,
            now_ms=value["commit_timestamp_ms"],
            retention_ms=retention_ms,
            topic=TopicSettings(codec=batch.codec, max_message_bytes=1 << 30),
            end=end_before(batch),
        )
        assert list(run.records) == [(record.key, record.value) for _, _, record in parts]
        if batch.codec == codecs.NONE:
            assert run.batch == bytes(batch.data)
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("name, release", RELEASES.items())
def test_a_group_is_stored_as_the_broker_stored_it(name, release):
    """With its members, or when they have left; and in 4.x a new group, before it has any."""
    profile = of_broker(release)
    broker = one_log(profile=profile)
    compared, new_count = 0, 0
    for batch, records in data_batches(name):
        for record in records:
            if record.key[:2] != b"\0\2" or record.value is None:
                continue
            group_id, (_, fields) = decode_key(record.key)[1]["group_id"], decode_value(2, record.value)
            group = ClassicGroup.from_value(group_id, from_fields(GroupMetadataValue, fields), profile)
            if fields["generation"] == 0:
                stamp = fields["current_state_timestamp_ms"]
                registration = GroupMetadataRecord.of_new_group(group_id, now_ms=stamp, profile=profile)
                new_count += 1
            elif profile.forgets_protocol_type and not fields["members"]:
                continue  # what it holds of an empty group is not what it wrote
            else:
                registration = GroupMetadataRecord.of_group(
                    LoadedGroup.from_row(group.to_group_row()),
                    [LoadedMember.from_row(row) for row in group.to_member_rows()],
                    profile=profile,
                )
            topic, end = TopicSettings(codec=batch.codec), end_before(batch)
            run = store_group(broker, registration, now_ms=record.timestamp_ms, topic=topic, end=end)
            assert run.record == (record.key, record.value)
            if batch.codec == codecs.NONE and len(records) == 1:
                assert run.batch == bytes(batch.data)
            compared += 1
    assert compared > new_count
    assert bool(new_count) == profile.is_java


def dry(release, *partitions, topic=KAFKA_DEFAULTS, **request):
    """A commit to an empty log; `partitions` are numbers of the topic t, each with one character of metadata."""
    commit = commit_of(*(asked(number, metadata="m") for number in partitions or (0,)), **request)
    coordinator = one_log(profile=of_broker(release))
    return commit_offsets(coordinator, commit, now_ms=NOW_MS, retention_ms=DAY_MS, topic=topic)


@pytest.mark.parametrize(
    "release, request_version, retention_ms, value_version, expires_ms",
    [
        ("0.8.2", 1, None, 0, -1),
        ("0.9", 2, None, 1, NOW_MS + DAY_MS),
        ("2.0.1", 3, None, 1, NOW_MS + DAY_MS),
        ("2.0.1", 3, 1000, 1, NOW_MS + 1000),
        ("2.0.1", 1, 1000, 1, NOW_MS + DAY_MS),
        ("2.1.1", 4, None, 3, -1),
        ("2.1.1", 4, 1000, 1, NOW_MS + 1000),
        ("3.9", 5, 1000, 3, -1),
        ("4.0.0", 4, 0, 1, NOW_MS),
        ("4.1.2", 9, None, 4, -1),
        ("4.3.1", 4, 1000, 1, NOW_MS + 1000),
    ],
)
def test_version_and_end_of_an_offset_follow_release_and_request(
    release, request_version, retention_ms, value_version, expires_ms
):
    run = dry(release, api_version=request_version, retention_ms=retention_ms)
    ((_, value),) = run.records
    version, fields = decode_value(1, value)
    assert (version, fields["expire_timestamp_ms"]) == (value_version, expires_ms)


EARLIER_MS = NOW_MS - 5 * DAY_MS


@pytest.mark.parametrize(
    "release, api_version, timestamp_ms, committed_ms, expires_ms",
    [
        ("0.8.2", 1, EARLIER_MS, EARLIER_MS, -1),
        ("0.8.2", 1, -1, NOW_MS, -1),
        ("0.9", 1, EARLIER_MS, NOW_MS, EARLIER_MS + DAY_MS),
        ("2.0.1", 1, EARLIER_MS, NOW_MS, EARLIER_MS + DAY_MS),
        ("2.0.1", 1, -1, NOW_MS, NOW_MS + DAY_MS),
        ("2.0.1", 2, EARLIER_MS, NOW_MS, NOW_MS + DAY_MS),
        ("2.1.1", 1, EARLIER_MS, EARLIER_MS, -1),
        ("3.9", 1, EARLIER_MS, EARLIER_MS, -1),
        ("3.9", 1, -1, NOW_MS, -1),
        ("3.9", 2, EARLIER_MS, NOW_MS, -1),
        ("4.3.1", 2, EARLIER_MS, NOW_MS, -1),
    ],
)
def test_only_version_1_brings_a_timestamp(release, api_version, timestamp_ms, committed_ms, expires_ms):
    """It is the commit's, except from 0.9 to 2.0, which count the retention from it."""
    commit = commit_of(asked(0, timestamp_ms=timestamp_ms), api_version=api_version)
    run = commit_offsets(one_log(profile=of_broker(release)), commit, now_ms=NOW_MS, retention_ms=DAY_MS)
    _, fields = decode_value(1, run.records[0][1])
    assert (fields["commit_timestamp_ms"], fields["expire_timestamp_ms"]) == (committed_ms, expires_ms)


def test_a_transaction_brings_no_timestamp():
    commit = commit_of(asked(0, timestamp_ms=EARLIER_MS), api_version=1, is_transactional=True)
    run = commit_offsets(one_log(profile=of_broker("3.9")), commit, now_ms=NOW_MS, retention_ms=DAY_MS)
    assert decode_value(1, run.records[0][1])[1]["commit_timestamp_ms"] == NOW_MS


@pytest.mark.parametrize("release, answer", [("3.9", Error.NONE), ("4.0.0", Error.UNSUPPORTED_VERSION)])
def test_version_1_ends_with_3_9(release, answer):
    assert dry(release, api_version=1).outcome == {("t", 0): answer}
    assert dry(release, api_version=2).outcome == {("t", 0): Error.NONE}
    assert dry(release, api_version=1, is_transactional=True).outcome == {("t", 0): Error.NONE}


@pytest.mark.parametrize(
    "release, api_version, stores", [("4.0.2", 10, False), ("4.2.1", 9, False), ("4.2.1", 10, True), ("4.3.0", 9, True)]
)
def test_a_topic_id_is_stored_where_the_release_knows_it(release, api_version, stores):
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    commit = commit_of(asked(0, topic_id=topic_id), api_version=api_version)
    run = commit_offsets(one_log(profile=of_broker(release)), commit, now_ms=NOW_MS, retention_ms=DAY_MS)
    stored = decode_value(1, run.records[0][1])[1]["topic_id"]
    assert kafka_uuid(stored) == (topic_id if stores else None)


def test_what_is_refused_is_no_part_of_the_batch():
    commit = commit_of(asked(0, metadata="x" * 5000), asked(1), asked(0, "gone"))
    broker = one_log(profile=of_broker("4.3.1"))
    run = commit_offsets(broker, commit, now_ms=NOW_MS, retention_ms=DAY_MS, partition_counts={"t": 2})
    refused = {("t", 0): Error.OFFSET_METADATA_TOO_LARGE, ("gone", 0): Error.UNKNOWN_TOPIC_OR_PARTITION}
    assert run.outcome == {**refused, ("t", 1): Error.NONE}
    assert [decode_key(key)[1]["partition"] for key, _ in run.records] == [1]
    failed = run.after_failed_append[Error.REQUEST_TIMED_OUT]
    assert failed == {**refused, ("t", 1): Error.COORDINATOR_NOT_AVAILABLE}


def test_nothing_accepted_is_nothing_appended():
    run = dry("3.9", generation=7, member_id="m")
    assert run.outcome == {("t", 0): Error.ILLEGAL_GENERATION}
    assert (run.records, run.batch, run.after_failed_append) == ((), b"", {})


@pytest.mark.parametrize("magic", [0, 1])
def test_a_transaction_needs_batches(magic):
    """GroupMetadataManager.storeOffsets throws, so that the error answers for every partition of the request."""
    old = TopicSettings(message_format=magic)
    run = dry("2.8", 0, 1, topic=old, is_transactional=True, api_version=2)
    assert set(run.outcome.values()) == {Error.UNSUPPORTED_FOR_MESSAGE_FORMAT}
    assert run.batch == b""
    assert Error.UNSUPPORTED_FOR_MESSAGE_FORMAT == 43
    plain = dry("2.8", 0, 1, topic=old)
    assert set(plain.outcome.values()) == {Error.NONE}
    assert [batch.magic for batch in read_batches(plain.batch)] == [magic, magic]


@pytest.mark.parametrize(
    "release, answer", [("4.3.1", Error.UNKNOWN_SERVER_ERROR), ("3.9", Error.INVALID_COMMIT_OFFSET_SIZE)]
)
def test_a_batch_that_the_topic_does_not_take(release, answer):
    size = len(dry(release, 0, 1).batch)
    assert dry(release, 0, 1, topic=TopicSettings(max_message_bytes=size)).outcome["t", 0] is Error.NONE
    run = dry(release, 0, 1, topic=TopicSettings(max_message_bytes=size - 1))
    assert set(run.outcome.values()) == {answer}
    assert run.batch == b""


@pytest.mark.parametrize("release", ["4.3.1", "3.9", "0.10.2.2"])
def test_a_group_that_the_topic_does_not_take(release):
    broker, group = one_log(profile=of_broker(release)), GroupMetadataRecord(group_id="g" * 500)
    fits = store_group(broker, group, now_ms=NOW_MS)
    assert (bool(fits.batch), fits.error) == (True, Error.NONE)
    small = TopicSettings(max_message_bytes=500)
    run = store_group(broker, group, now_ms=NOW_MS, topic=small)
    assert (run.batch, run.error, run.after_failed_append) == (b"", Error.UNKNOWN_SERVER_ERROR, {})


@pytest.mark.parametrize("release", ["0.9", "2.8", "4.3.1"])
def test_a_group_of_a_log_partition_that_is_not_served_is_not_stored(release):
    served = one_log(profile=of_broker(release))
    group = GroupMetadataRecord(group_id="g", protocol="range", leader="m")
    assert store_group(served, group, now_ms=NOW_MS).error is Error.NONE
    for shards, error in (({}, Error.NOT_COORDINATOR), ({0: LOADING}, Error.COORDINATOR_LOAD_IN_PROGRESS)):
        run = store_group(replace(served, shards=shards), group, now_ms=NOW_MS)
        assert (run.error, run.batch, run.after_failed_append) == (error, b"", {})


def test_up_to_0_10_0_a_new_group_has_no_record():
    with pytest.raises(ValueError, match="with its first generation"):
        GroupMetadataRecord.of_new_group("g", now_ms=NOW_MS, profile=of_broker("0.10.0"))
    record = GroupMetadataRecord.of_new_group("g", now_ms=NOW_MS, profile=of_broker("0.10.1"))
    _, value = decode_value(2, record.encode(of_broker("0.10.1"))[1])
    assert (value["generation"], value["protocol_type"], value["members"]) == (0, "", [])


def test_acks_decide_what_an_append_can_fail_with():
    broker, group = one_log(profile=of_broker("3.9")), GroupMetadataRecord(group_id="g")
    waiting = {Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND}

    def failed(acks):
        run = commit_offsets(broker, commit_of(asked(0)), now_ms=NOW_MS, retention_ms=DAY_MS, required_acks=acks)
        stored = store_group(broker, group, now_ms=NOW_MS, required_acks=acks)
        return run.outcome["t", 0], stored.error, *({*one.after_failed_append} & waiting for one in (run, stored))

    assert failed(-1) == (Error.NONE, Error.NONE, waiting, waiting)
    assert failed(1) == (Error.NONE, Error.NONE, set(), set())
    assert failed(2) == (Error.INVALID_REQUIRED_ACKS, Error.INVALID_REQUIRED_ACKS, set(), set())


def test_the_log_of_a_release_has_its_errors_alone():
    few = {Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    assert few <= dry("3.9").after_failed_append.keys()
    assert few.isdisjoint(dry("4.0").after_failed_append)
    group = store_group(one_log(profile=of_broker("4.0")), GroupMetadataRecord(group_id="g"), now_ms=NOW_MS)
    assert few.isdisjoint(group.after_failed_append)
    assert Error.KAFKA_STORAGE_ERROR not in dry("0.11.0.3").after_failed_append
    assert Error.KAFKA_STORAGE_ERROR in dry("1.0").after_failed_append
    stored = store_group(one_log(profile=of_broker("0.11.0.3")), GroupMetadataRecord(group_id="g"), now_ms=NOW_MS)
    assert Error.KAFKA_STORAGE_ERROR not in stored.after_failed_append


@pytest.mark.parametrize("release", ["0.9", "0.10.2.2"])
def test_before_0_11_there_are_no_transactions(release):
    run = dry(release, 0, 1, is_transactional=True, api_version=0)
    assert (set(run.outcome.values()), run.records, run.batch) == ({Error.UNSUPPORTED_VERSION}, (), b"")


@pytest.mark.parametrize(
    "release, protocol, of_offset, of_group",
    [
        ("2.8.2", "2.0", 1, 1), ("2.8.2", "0.10.0", 1, 0), ("2.8.2", "2.1-IV0", 2, 2), ("2.8.2", "2.1-IV1", 3, 2),
        ("2.8.2", "2.3-IV0", 3, 3), ("2.8.2", None, 3, 3), ("1.1.1", "2.8", 1, 1), ("4.3.1", "2.0", 4, 3),
    ],
)  # fmt: skip
def test_values_are_of_the_version_that_the_protocol_allows(release, protocol, of_offset, of_group):
    recorded = Recorded(broker_settings={} if protocol is None else {PROTOCOL: protocol})
    profile = append_settings(recorded, profile=of_broker(release)).profile
    run = commit_offsets(one_log(profile=profile), commit_of(asked(0)), now_ms=NOW_MS, retention_ms=DAY_MS)
    stored = store_group(one_log(profile=profile), GroupMetadataRecord(group_id="g"), now_ms=NOW_MS)
    assert (decode_value(1, run.records[0][1])[0], decode_value(2, stored.record[1])[0]) == (of_offset, of_group)


def test_messages_of_old_formats_are_measured_one_by_one():
    one = len(dry("0.10.2.2", 0).batch)
    assert dry("0.10.2.2", 0, 1, topic=TopicSettings(max_message_bytes=one)).outcome["t", 1] is Error.NONE


def test_members_come_in_the_order_of_javas_hash_map():
    """As java.util.HashMap of OpenJDK 17 gave them out; the last four names share buckets."""
    ids = [f"consumer-{number}-\u00e9{number * 7919}" for number in range(13)]
    order = [6, 10, 11, 12, 2, 8, 0, 7, 9, 1, 4, 3, 5]
    assert [ids.index(name) for name in iteration_order(ids)] == order
    assert iteration_order(["BB", "Aa", "AaBB", "BBAa", "C#", "x"]) == ["BB", "Aa", "C#", "x", "AaBB", "BBAa"]
