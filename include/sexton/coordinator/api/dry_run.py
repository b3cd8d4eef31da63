"""The write path as a dry run: from a request to the batch that a coordinator would append, and the answer.

`commit_offsets` is OffsetCommit and TxnOffsetCommit (GroupMetadataManager.storeOffsets, OffsetMetadataManager
.commitOffset), `store_group` the record of a classic group (GroupMetadataManager.storeGroup,
GroupCoordinatorRecordHelpers.newGroupMetadataRecord). Nothing is written. Whether an append fails is up to the log, so
there is an answer for each error that the log may return (append_errors.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sexton.coordinator.api.append_errors import ALL_IN_SYNC, Operation, acks_error, answered, never_caused
from sexton.coordinator.api.commit import MAX_METADATA_LENGTH, NO_TIMESTAMP, Commit, CommitPartition, validate_commit
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.group_metadata_record import GroupMetadataRecord
from sexton.coordinator.api.view import TopicPartition
from sexton.coordinator.batches import (
    BATCH_FORMAT,
    EMPTY_LOG,
    KAFKA_DEFAULTS,
    NOBODY,
    LogEnd,
    Producer,
    TopicSettings,
    encode_append,
    largest_entry_bytes,
)
from sexton.coordinator.profile import Profile
from sexton.records import ZERO_UUID, OffsetCommitKey, OffsetCommitValue, encode_key, encode_value, parse_kafka_uuid

_WITH_RETENTION = 1
"""The version of an offset's value that has an expire timestamp."""
_COMMIT_SEQUENCE = 0
_TIMESTAMP_API = 1
"""The version of OffsetCommit that can have a timestamp."""
_RETENTION_API = range(2, 5)
"""Versions of OffsetCommit with a retention (removed by KIP-211)."""
_TOPIC_IDS_API = 10
"""The first version of OffsetCommit that names topics by id (KIP-848, Kafka 4.1)."""
LOG_ERRORS = (
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.REQUEST_TIMED_OUT,
    Error.MESSAGE_TOO_LARGE,
    Error.NETWORK_EXCEPTION,
    Error.RECORD_LIST_TOO_LARGE,
    Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Error.KAFKA_STORAGE_ERROR,
    Error.INVALID_FETCH_SIZE,
)
"""Errors that an append may return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDryRun:
    """The result of a commit. `outcome` has each of its partitions; NONE means that its record is appended."""

    outcome: Mapping[TopicPartition, Error]
    records: tuple[tuple[bytes, bytes], ...] = ()
    """(key, value) in the order of the request."""
    batch: bytes = b""
    """Empty where nothing would be appended."""
    after_failed_append: Mapping[Error, Mapping[TopicPartition, Error]] = field(default_factory=dict)
    """The answer to the client for each error of the log; empty where nothing would be appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDryRun:
    """The result of storing a classic group."""

    record: tuple[bytes, bytes]
    batch: bytes
    """Empty where nothing would be appended: the log partition is not served, or the batch is too large."""
    error: Error
    """The answer to the members; NONE means that the record is appended."""
    after_failed_append: Mapping[Error, Error]
    """The answer of JoinGroup and SyncGroup to the members, for each error of the log."""


def commit_offsets(
    coordinator: Coordinator,
    commit: Commit,
    *,
    now_ms: int,
    retention_ms: int,
    topic: TopicSettings = KAFKA_DEFAULTS,
    end: LogEnd = EMPTY_LOG,
    max_metadata_length: int = MAX_METADATA_LENGTH,
    partition_counts: Mapping[str, int] | None = None,
    required_acks: int = ALL_IN_SYNC,
) -> CommitDryRun:
    """Validate `commit`, encode what would be appended at `now_ms`, and answer for each error of the append.

    `retention_ms` is the broker's offsets.retention.minutes, which is part of the record up to 2.0; `required_acks` is
    its offsets.commit.required.acks.
    """
    profile = coordinator.profile
    outcome = validate_commit(
        coordinator, commit, max_metadata_length=max_metadata_length, partition_counts=partition_counts
    )
    accepted = [item for item in commit.partitions if outcome[item.topic, item.partition] is Error.NONE]
    if not accepted:
        return CommitDryRun(outcome=outcome)
    if commit.is_transactional and topic.magic(profile) < BATCH_FORMAT:
        # thrown before the append, so it is the answer for every partition
        return CommitDryRun(outcome=dict.fromkeys(outcome, Error.UNSUPPORTED_FOR_MESSAGE_FORMAT))
    if error := acks_error(required_acks, profile):
        return CommitDryRun(outcome=_with(outcome, error))
    records = tuple(
        _offset_record(item, commit, now_ms=now_ms, retention_ms=retention_ms, profile=profile) for item in accepted
    )
    batch = encode_append(
        records,
        profile=profile,
        topic=topic,
        end=end,
        now_ms=now_ms,
        base_sequence=_COMMIT_SEQUENCE,
        producer=(
            Producer(producer_id=commit.producer_id, producer_epoch=commit.producer_epoch)
            if commit.is_transactional
            else NOBODY
        ),
    )
    after = {
        error: _with(outcome, answered(error, Operation.OFFSET_COMMIT, profile, required_acks=required_acks))
        for error in _log_errors(profile, is_transactional=commit.is_transactional, required_acks=required_acks)
    }
    if largest_entry_bytes(batch) > topic.max_message_bytes:
        return CommitDryRun(outcome=after[Error.MESSAGE_TOO_LARGE], records=records)
    return CommitDryRun(outcome=outcome, records=records, batch=batch, after_failed_append=after)


def store_group(
    coordinator: Coordinator,
    group: GroupMetadataRecord,
    *,
    now_ms: int,
    topic: TopicSettings = KAFKA_DEFAULTS,
    end: LogEnd = EMPTY_LOG,
    required_acks: int = ALL_IN_SYNC,
) -> GroupDryRun:
    """Encode the record of a classic group and its batch; ValueError if the release has no groups.

    Nothing is appended if the broker does not serve the group's log partition: the error is then NOT_COORDINATOR, as
    storeGroup answers if the broker does not have the log (getMagic), or COORDINATOR_LOAD_IN_PROGRESS.
    """
    profile = coordinator.profile
    record = group.encode(profile)
    error = coordinator.error_of(group.group_id) or acks_error(required_acks, profile)
    if error is not Error.NONE:
        return GroupDryRun(record=record, batch=b"", error=error, after_failed_append={})
    batch = encode_append(
        [record], profile=profile, topic=topic, end=end, now_ms=now_ms, base_sequence=profile.base_sequence
    )
    after = {
        error: answered(error, Operation.STORE_GROUP, profile)
        for error in _log_errors(profile, is_transactional=False, required_acks=required_acks)
    }
    if largest_entry_bytes(batch) > topic.max_message_bytes:
        return GroupDryRun(record=record, batch=b"", error=after[Error.MESSAGE_TOO_LARGE], after_failed_append={})
    return GroupDryRun(record=record, batch=batch, error=Error.NONE, after_failed_append=after)


def _log_errors(profile: Profile, *, is_transactional: bool, required_acks: int) -> tuple[Error, ...]:
    """The errors that an append of this release may return; from 4.0 on a transaction is verified over the network
    (KIP-890)."""
    unknown = set(never_caused(required_acks, profile))
    if not (is_transactional and profile.is_java):
        unknown.add(Error.NETWORK_EXCEPTION)
    if not profile.has_storage_errors:
        unknown.add(Error.KAFKA_STORAGE_ERROR)
    return tuple(error for error in LOG_ERRORS if error not in unknown)


def _with(outcome: Mapping[TopicPartition, Error], error: Error) -> dict[TopicPartition, Error]:
    """The outcome when the append of the accepted partitions ends in `error`."""
    return {key: error if answer is Error.NONE else answer for key, answer in outcome.items()}


def _offset_record(
    item: CommitPartition, commit: Commit, *, now_ms: int, retention_ms: int, profile: Profile
) -> tuple[bytes, bytes]:
    """Key and value of one offset (GroupCoordinatorRecordHelpers.newOffsetCommitRecord, offsetCommitValue).

    0.8.2, and every release from 2.1 on, stores the client's timestamp unchanged. From 0.9 to 2.0 the commit has the
    current time, and its retention counts from the client's timestamp (KafkaApis.handleOffsetCommitRequest).
    """
    brings_timestamp = commit.api_version == _TIMESTAMP_API and not commit.is_transactional
    timestamp_ms = item.timestamp_ms if brings_timestamp and item.timestamp_ms != NO_TIMESTAMP else now_ms
    expires_from_ms = timestamp_ms if profile.expires_by_own_stamp else now_ms
    asked_ms = commit.retention_ms if commit.api_version in _RETENTION_API and not commit.is_transactional else None
    if profile.expires_by_own_stamp and asked_ms is None:
        asked_ms = retention_ms
    version = profile.offset_value_version if asked_ms is None else min(_WITH_RETENTION, profile.offset_value_version)
    is_named_by_id = commit.api_version >= _TOPIC_IDS_API and not commit.is_transactional
    topic_id = item.topic_id if profile.resolves_topic_ids or is_named_by_id else None
    value = OffsetCommitValue(
        committed_offset=item.committed_offset,
        leader_epoch=-1 if item.leader_epoch is None else item.leader_epoch,
        metadata=item.metadata or "",
        commit_timestamp_ms=now_ms if profile.expires_by_own_stamp else timestamp_ms,
        expire_timestamp_ms=-1 if asked_ms is None else expires_from_ms + asked_ms,
        topic_id=ZERO_UUID if topic_id is None else parse_kafka_uuid(topic_id),
    )
    key_type = profile.offset_key_type
    key = OffsetCommitKey(group_id=commit.group_id, topic=item.topic, partition=item.partition)
    return encode_key(key_type, key), encode_value(key_type, version, value)
