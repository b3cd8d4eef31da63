"""OffsetCommit and TxnOffsetCommit: whether a coordinator accepts a commit, decided before anything is appended.

Follows OffsetMetadataManager.commitOffset and commitTransactionalOffset with the groups' validateOffsetCommit (Kafka
4.0 to 4.4), GroupCoordinator.doCommitOffsets and validateOffsetCommit (0.9 to 3.9) and KafkaApis in front of them.
append_errors.py has the errors of the append.

After a load groups are Empty, Stable or of the new types, so that answers to rebalancing groups do not occur.
Kafka 0.8.2 accepts every commit: it has no groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import stale_error
from sexton.coordinator.api.view import LoadedGroup, LoadedMember, PartitionView, TopicPartition
from sexton.coordinator.profile import PendingRule, Profile

MAX_METADATA_LENGTH = 4096
"""Kafka's default of offset.metadata.max.bytes, which counts UTF-16 code units."""
NO_GENERATION = -1
NO_TIMESTAMP = -1
"""Kafka's DEFAULT_TIMESTAMP: the commit gets the time at which the broker handles it."""

_OLDEST_JAVA_API = 2  # of OffsetCommit: KIP-896 removed versions 0 and 1 from Kafka 4.0
_NEW_TYPES_API = 9  # of OffsetCommit: KIP-848
_NEW_ERRORS_API = 6  # of TxnOffsetCommit: KIP-1319
_LOADING_API = 2  # of TxnOffsetCommit: older clients do not retry COORDINATOR_LOAD_IN_PROGRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPartition:
    """An offset to commit. `topic_id` is the topic's current id, None where it is not known.

    Whether a commit is accepted does not depend on `committed_offset`, `leader_epoch` and `timestamp_ms`, but its
    record does (dry_run.py). OffsetCommit has `timestamp_ms` in version 1 only.
    """

    topic: str
    partition: int
    committed_offset: int = 0
    leader_epoch: int | None = None
    metadata: str | None = None
    topic_id: str | None = None
    timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The request; by default from a client that is not a member of the group.

    `generation` is the member epoch in groups of the new types. `api_version` is that of OffsetCommit, or of
    TxnOffsetCommit if `is_transactional`; then the producer is that of the transaction. OffsetCommit has `retention_ms`
    in versions 2 to 4.
    """

    group_id: str
    partitions: tuple[CommitPartition, ...]
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = NO_GENERATION
    is_transactional: bool = False
    api_version: int = 9
    producer_id: int = 0
    producer_epoch: int = 0
    retention_ms: int | None = None

    @property
    def names_a_member(self) -> bool:
        return self.generation >= 0 or self.member_id != "" or self.group_instance_id is not None


def validate_commit(
    coordinator: Coordinator,
    commit: Commit,
    *,
    max_metadata_length: int = MAX_METADATA_LENGTH,
    partition_counts: Mapping[str, int] | None = None,
) -> dict[TopicPartition, Error]:
    """The outcome for each partition of `commit`, NONE for those that would be appended.

    With `partition_counts` (number of partitions by existing topic) missing partitions are answered
    UNKNOWN_TOPIC_OR_PARTITION, and the commit continues with the other partitions. An error of the whole commit is the
    outcome of all the others.
    """
    profile = coordinator.profile
    if commit.is_transactional:
        is_known = profile.pending_rule is not PendingRule.NEVER  # transactions came with KIP-98
    else:
        is_known = not profile.is_java or profile.early_consumer_groups or commit.api_version >= _OLDEST_JAVA_API
    if not is_known:
        return {(item.topic, item.partition): Error.UNSUPPORTED_VERSION for item in commit.partitions}
    outcome: dict[TopicPartition, Error] = {}
    asked = []
    for partition in commit.partitions:
        if partition_counts is not None and partition.partition >= partition_counts.get(partition.topic, 0):
            outcome[partition.topic, partition.partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
        else:
            asked.append(partition)
    error = _error_of(coordinator, commit, [item for item in asked if _fits(item, max_metadata_length)])
    for item in asked:
        too_large = Error.OFFSET_METADATA_TOO_LARGE if not _fits(item, max_metadata_length) else Error.NONE
        outcome[item.topic, item.partition] = too_large if error is Error.NONE else error
    return outcome


def group_made(coordinator: Coordinator, commit: Commit, outcome: Mapping[TopicPartition, Error]) -> LoadedGroup | None:
    """The group that `commit` creates, given the `outcome` from `validate_commit`; None if the group exists already, or
    is not created.

    Such a group has no record: as long as it has offsets, each load creates it again. Scala coordinators create it in
    their cache before they validate the metadata (GroupCoordinator.handleCommitOffsets); for a transactional commit
    they do so even if it names a member or a generation. 4.x coordinators create it only if an offset is written. Up to
    0.10.0 offsets create no group.
    """
    profile, errors = coordinator.profile, set(outcome.values()) - {Error.UNKNOWN_TOPIC_OR_PARTITION}
    if not profile.lists_simple_groups or not errors or coordinator.error_of(commit.group_id) is not Error.NONE:
        return None
    if coordinator.view_of(commit.group_id).group(commit.group_id) is not None:
        return None
    if profile.is_java:
        is_made = Error.NONE in errors
    else:
        is_made = commit.is_transactional or commit.generation < 0
    is_refused = not errors.isdisjoint((Error.INVALID_GROUP_ID, Error.UNSUPPORTED_VERSION))
    return LoadedGroup(group_id=commit.group_id) if is_made and not is_refused else None


def _fits(partition: CommitPartition, max_metadata_length: int) -> bool:
    units = len((partition.metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    return units <= max_metadata_length


def _error_of(coordinator: Coordinator, commit: Commit, asked: list[CommitPartition]) -> Error:
    """The error of the commit as a whole."""
    profile = coordinator.profile
    if commit.is_transactional and not commit.group_id and profile.checks_group_ids:
        return Error.INVALID_GROUP_ID
    error = coordinator.error_of(commit.group_id)
    if error is Error.COORDINATOR_LOAD_IN_PROGRESS and commit.is_transactional:
        is_hidden = profile.hides_loading and commit.api_version < _LOADING_API
        return Error.COORDINATOR_NOT_AVAILABLE if is_hidden else error
    if error is Error.COORDINATOR_LOAD_IN_PROGRESS and not profile.reads(2):
        return Error.NONE  # KafkaApis.handleOffsetCommitRequest of 0.8.2 appends even during a load
    if error is not Error.NONE:
        return error
    view = coordinator.view_of(commit.group_id)
    group = view.group(commit.group_id)
    if profile.is_java:
        return _java_error(profile, commit, view, group, asked)
    if not profile.lists_simple_groups and (group is None or group.log_offset is None):
        group = None  # up to 0.10.0 offsets create no group
    return _scala_error(profile, commit, view, group)


def _java_error(
    profile: Profile, commit: Commit, view: PartitionView, group: LoadedGroup | None, asked: list[CommitPartition]
) -> Error:
    """OffsetMetadataManager.validateOffsetCommit and validateTransactionalOffsetCommit."""
    has_new_errors = profile.has_new_transaction_errors and commit.api_version >= _NEW_ERRORS_API
    if group is None:
        if commit.generation < 0:
            return Error.NONE
        if commit.is_transactional:
            return Error.GROUP_ID_NOT_FOUND if has_new_errors else Error.ILLEGAL_GENERATION
        return Error.GROUP_ID_NOT_FOUND if commit.api_version >= _NEW_TYPES_API else Error.ILLEGAL_GENERATION
    match group.group_type:
        case "Share":
            return Error.GROUP_ID_NOT_FOUND
        case "Classic":
            return _classic_error(profile, commit, view, group)
    error = _modern_error(profile, commit, view, group, asked)
    if error is Error.STALE_MEMBER_EPOCH and commit.is_transactional and not has_new_errors:
        return Error.ILLEGAL_GENERATION
    return error


def _classic_error(profile: Profile, commit: Commit, view: PartitionView, group: LoadedGroup) -> Error:
    """ClassicGroup.validateOffsetCommit, and GroupCoordinator.validateOffsetCommit from 3.0 on."""
    is_empty = group.state == "Empty"
    if commit.generation < 0 and is_empty and not profile.checks_members_of_empty_groups:
        return Error.NONE
    if commit.names_a_member:
        error = member_error(commit.member_id, commit.group_instance_id, view.members(group.group_id))
        if error is Error.NONE and commit.generation != group.generation:
            return Error.ILLEGAL_GENERATION
        return error
    return Error.NONE if commit.is_transactional or is_empty else Error.UNKNOWN_MEMBER_ID


def member_error(member_id: str, group_instance_id: str | None, members: tuple[LoadedMember, ...]) -> Error:
    """ClassicGroup.validateMember: a static member must send the current member id of its instance."""
    if group_instance_id is not None:
        holder = _holder_of(group_instance_id, members)
        if holder is None:
            return Error.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return Error.FENCED_INSTANCE_ID
    is_member = any(member.member_id == member_id for member in members)
    return Error.NONE if is_member else Error.UNKNOWN_MEMBER_ID


def _holder_of(group_instance_id: str, members: tuple[LoadedMember, ...]) -> str | None:
    return next((member.member_id for member in members if member.holds(group_instance_id)), None)


def _modern_error(
    profile: Profile, commit: Commit, view: PartitionView, group: LoadedGroup, asked: list[CommitPartition]
) -> Error:
    """ConsumerGroup.validateOffsetCommit, StreamsGroup.validateOffsetCommit.

    An older epoch is accepted if the member has had every partition since that epoch or longer: by consumer groups from
    4.3 on, by streams groups (their active tasks) from 4.2 on.
    """
    members = view.members(group.group_id)
    if commit.generation < 0 and not members:
        return Error.NONE
    is_anonymous = commit.is_transactional and not commit.names_a_member and commit.generation == NO_GENERATION
    if is_anonymous and not profile.early_consumer_groups:
        return Error.NONE
    member = next((member for member in members if member.member_id == commit.member_id), None)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    is_classic = member.session_timeout_ms is not None
    if not commit.is_transactional and not is_classic and commit.api_version < _NEW_TYPES_API:
        return Error.UNSUPPORTED_VERSION
    epoch = member.member_epoch
    if epoch is None:  # a streams member without an assignment: the comparison throws
        return Error.UNKNOWN_SERVER_ERROR
    if commit.generation == epoch:
        return Error.NONE
    is_streams = group.group_type == "Streams"
    may_be_older = profile.accepts_older_task_epochs if is_streams else profile.accepts_older_epochs
    if may_be_older and commit.generation < epoch:
        owners = [group.subtopologies.get(item.topic) if is_streams else item.topic_id for item in asked]
        places = zip(owners, asked, strict=True)
        since = [member.assignment_epochs.get((owner or "", item.partition)) for owner, item in places]
        if all(assigned is not None and commit.generation >= assigned for assigned in since):
            return Error.NONE
    return stale_error(member)


def _scala_error(profile: Profile, commit: Commit, view: PartitionView, group: LoadedGroup | None) -> Error:
    """GroupCoordinator.handleCommitOffsets and handleTxnCommitOffsets, 0.9 to 3.9."""
    if not profile.reads(2):
        return Error.NONE
    if group is None:
        if not commit.is_transactional and commit.generation >= 0:
            return Error.ILLEGAL_GENERATION
        group = LoadedGroup(group_id=commit.group_id)  # created first, then the commit is validated against it
    if profile.validates_commits_alike:
        return _classic_error(profile, commit, view, group)
    members = view.members(group.group_id)
    if profile.fences_static_members and commit.group_instance_id is not None:
        holder = _holder_of(commit.group_instance_id, members)
        if holder not in (None, commit.member_id):  # isStaticMemberFenced: an unknown instance fences no member
            return Error.FENCED_INSTANCE_ID
    if commit.is_transactional:
        return _transaction_error(profile, commit, members, group)
    if commit.generation < 0 and group.state == "Empty":
        return Error.NONE
    if not any(member.member_id == commit.member_id for member in members):
        return Error.UNKNOWN_MEMBER_ID
    return Error.NONE if commit.generation == group.generation else Error.ILLEGAL_GENERATION


def _transaction_error(
    profile: Profile, commit: Commit, members: tuple[LoadedMember, ...], group: LoadedGroup
) -> Error:
    """GroupCoordinator.doTxnCommitOffsets, 2.5 to 2.8: a commit that names a member is checked; before 2.5 none is."""
    if not profile.validates_transactional_members:
        return Error.NONE
    if commit.member_id and not any(member.member_id == commit.member_id for member in members):
        return Error.UNKNOWN_MEMBER_ID
    is_other = commit.generation >= 0 and commit.generation != group.generation
    return Error.ILLEGAL_GENERATION if is_other else Error.NONE
