"""A profile: the rules of one coordinator of Kafka at one release.

Its fields are the differences between releases. Their values are in dated_rules/, a table for each coordinator;
profiles.py looks them up by name, releases.py compares releases, kernels/profile_flags.py passes them to compiled code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from sexton.log.entry import ZSTD

Release = tuple[int, ...]
DatedRules = tuple[tuple[Release, Mapping[str, Any]], ...]
"""Releases in order, each with the fields of Profile that it changes; a release also has all earlier changes."""


class PendingRule(StrEnum):
    """The offset values that are pending until the end of a transaction."""

    WITH_PRODUCER_ID = "producer"
    """Values in any batch with a producer id, whatever its transactional bit."""
    IF_TRANSACTIONAL = "transaction"
    """Values in transactional batches."""
    NEVER = "never"


class Subscriptions(StrEnum):
    """How a load treats a classic consumer's subscription that cannot be parsed."""

    FAIL = "fail"
    """The subscription ends the load, unless its bytes end inside a number."""
    FAIL_UNLESS_SHORT = "fail_unless_short"
    """As FAIL, but the topics are also unknown if the bytes end inside a topic or before the last one (2.7.0 to 2.8.1,
    3.0.1, 3.1.1 and 3.2.1)."""
    UNKNOWN = "unknown"
    """The load continues; the coordinator does not know the topics (KAFKA-20570)."""
    UNREAD = "unread"
    """The coordinator never reads subscriptions (before KIP-496)."""


LOADED = "loaded"
LEADERSHIP_LOST = "leadership_lost"
"""The outcome, up to 3.9, of a load during which another broker became leader: the records read until then are kept."""


class AfterFailure(StrEnum):
    """What a coordinator serves from a log partition whose load has failed."""

    NOTHING = "not_coordinator"
    """It answers NOT_COORDINATOR."""
    EMPTY = "empty_cache"
    """It serves the log partition as if it were empty."""
    PREFIX = "prefix"
    """It serves the records before the failure."""


class Expiry(StrEnum):
    """The rule that decides when an offset is due."""

    OWN_STAMP = "own_stamp"
    """The offset's own timestamp alone, strictly in the past; groups do not matter (before KIP-211)."""
    EMPTY_GROUPS = "empty_groups"
    """KIP-211: offsets of groups without members, counted from when the group became empty, and offsets of simple
    groups, counted from the commit."""
    UNSUBSCRIBED = "unsubscribed"
    """KIP-211 and KIP-496: also offsets of topics to which an active consumer group is not subscribed."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The rules of one coordinator at one release; the defaults are those of the newest group_coordinator."""

    name: str
    release: Release
    is_proven: bool
    """Whether a broker of this release was recorded for the tests; otherwise the rules only follow Kafka's sources."""

    # --- which records and fields a load reads

    value_versions: Mapping[int, int]
    """Highest version of the value by record type; a type that is missing is unknown."""
    skips_unknown_types: bool = True
    """Whether an unknown type is skipped with a warning (from KIP-915 on); else it ends the load."""
    newest_format: int = 2
    """The newest record format (magic) that is read."""
    grows_load_buffer: bool = True
    """Whether a batch larger than offsets.load.buffer.size is read all the same; else the load never ends."""
    reads_topic_ids: bool = True
    """Whether the topic id of an offset is kept; earlier releases skip it as an unknown tag."""
    keeps_expire_of_minus_1: bool = False
    """Whether an expire timestamp of -1 is taken literally, as an instant long past (2.1.0 and 2.1.1; KAFKA-8069)."""
    forgets_state_timestamp: bool = False
    """Whether the state timestamp of a group value of version 3 is lost (2.3.0 to 2.6.0; KAFKA-10401)."""
    forgets_protocol_type: bool = False
    """Whether the protocol type of a group without members is lost (up to 1.0.0; KAFKA-6287)."""
    refuses_null_protocol: bool = False
    """Whether a group value without a protocol or a leader ends the load (up to 0.10.0)."""
    empty_control_batch_fails: bool = False
    """Whether a control batch that compaction has emptied ends the load (0.11.0.0 to 2.0.0; KAFKA-7467)."""
    members_may_repeat: bool = False
    """Whether a group value may name a member twice (up to 2.0)."""
    instances_may_repeat: bool = False
    """Whether a group value may name a static member's instance twice (up to 2.8)."""
    says_schema: bool = False
    """Whether messages about an unknown version say "schema" (up to 2.7)."""
    says_key_schema: bool = False
    """Whether the message about an unknown type says "message key schema" (2.4 to 2.7)."""
    subscriptions: Subscriptions = Subscriptions.FAIL
    after_failure: AfterFailure = AfterFailure.NOTHING

    # --- how it applies the records that it reads

    pending_rule: PendingRule = PendingRule.WITH_PRODUCER_ID
    tombstones_cancel_pending: bool = True
    """Whether a tombstone cancels all pending values of its key; otherwise only one in the same transaction does."""
    offsets_hold_groups: bool = False
    """Whether a group exists as long as it has offsets, whether it was deleted or not."""
    loads_groups_stable: bool = False
    """Whether a group that has a record is Stable after a load even without members (up to 0.10.0)."""
    lists_simple_groups: bool = True
    """Whether a group that was created by offsets alone is listed (from 0.10.1 on)."""
    one_cache: bool = False
    """Whether one cache holds the groups of all log partitions, so that misplaced groups are served."""
    leaks_open_transactions: bool = False
    """Whether a transaction stays open for a group after tombstones have cancelled all of the group's pending values,
    and the sweep deletes groups without offsets even with open transactions (4.0.0; KAFKA-19163, KAFKA-19164)."""
    streams_replace_simple: bool = True
    """Whether records of a streams group replace a simple classic group of the same id (KAFKA-20254)."""
    early_consumer_groups: bool = False
    """Whether consumer groups are those of the preview in 3.8 and 3.9: records never replace a simple classic group
    (KAFKA-17306). A record before its group ends the load, unless it is a value of type 3 or 5; so does a record of
    type 8, or a tombstone of type 5, before its member."""
    early_share_groups: bool = False
    """Whether share groups are those of 4.0's early access: type 9 has their topics, and type 15 ends the load. So does
    a record before its group, unless it is a value of type 10 or 11, and a record of type 14, or a tombstone of type
    10, before its member (KIP-932)."""
    keeps_topic_metadata: bool = False
    """Whether the topics in types 4 and 9 are kept, and refused where they have no id or no name (4.0; KIP-1101)."""
    newer_owners_win: bool = True
    """Whether tasks, and at a higher epoch partitions, can move to another member before their owner has released them;
    otherwise that ends the load (KAFKA-19862)."""
    refuses_repeats: frozenset[int] = frozenset()
    """The types of current assignments in which no topic and no subtopology may come twice (8 up to 4.2, 22 in 4.1)."""
    checks_task_epochs: bool = False
    """Whether active tasks must have an assignment epoch for each partition, or none at all (4.2)."""
    checks_target_epochs: bool = True
    """Whether the epoch and the timestamp of a target assignment are refused below their minimum (KIP-1263)."""
    initial_epoch: int = 1
    """Epoch of a modern group, and of its target assignment, until a record sets it (0 up to 4.2)."""
    validated_topology_epoch: int | None = -1
    """Validated topology epoch of a streams group until a record sets it; None if records do not have it, so that until
    its next heartbeat the group is not ready and is subscribed to nothing (4.1)."""

    # --- the operations other than the sweep that remove offsets

    has_offset_delete: bool = True
    """OffsetDelete (KIP-496, 2.4): OffsetMetadataManager.deleteOffsets, GroupCoordinator.handleDeleteOffsets."""
    has_delete_groups: bool = True
    """DeleteGroups (KIP-229, 1.1): GroupCoordinatorShard.deleteGroups, GroupCoordinator.handleDeleteGroups."""
    drops_deleted_topics: bool = True
    """Whether the deletion of a topic removes its offsets (KAFKA-2000, 0.10.2): OffsetMetadataManager
    .onPartitionsDeleted, from 4.3 on .onTopicsDeleted; GroupCoordinator.handleDeletedPartitions."""
    drops_topics_by_id: bool = True
    """Whether the deletion of a topic keeps the offsets of an earlier or later topic with the same name (4.3)."""

    # --- the offsets and groups that the sweep removes

    sweeps_all_that_is_due: bool = True
    """Whether a sweep that removes one of a group's offsets removes all due ones. Before 3.7.1 a commit refused for its
    metadata prevented its offset from expiring until the next load (KAFKA-16371)."""
    default_retention_minutes: int = 10_080
    """Kafka's default of offsets.retention.minutes: 7 days, 24 hours before 2.0 (KIP-186)."""
    expiry: Expiry = Expiry.UNSUBSCRIBED
    pending_blocks_expiry: bool = True
    deletes_generation_0: bool = True
    """Whether a group that never had a generation gets a tombstone."""
    deletes_groups: bool = True
    """Whether the sweep deletes groups at all."""
    deletes_share_groups: bool = False
    """Whether the sweep deletes share groups without members (4.0)."""
    sweeps_share_groups: bool = True
    """Whether the sweep asks share groups for expired offsets: if a share group has any offset, Kafka throws, and the
    sweep of its log partition writes nothing (4.0, and from 4.4 on)."""

    # --- how it writes

    offset_key_type: int = 1
    record_format: int = 2
    newest_codec: int = ZSTD
    """The newest codec of offsets.topic.compression.codec (zstd from 2.1 on; KIP-110)."""
    batch_per_group: bool = False
    """Whether an operation on several groups appends one batch per group, each with its own timestamp and also with the
    group's tombstone if it is Empty without offsets (GroupMetadataManager.cleanupGroupMetadata); otherwise the
    operation is one write."""
    offset_value_version: int = 4
    """The version of an offset's value; from 2.1 on it is 1 for a commit with its own retention."""
    group_value_version: int | None = 3
    """The version of a classic group's value; None where there are no groups (0.8.2)."""
    stores_after_append: bool = False
    """Whether an offset is stored after the append (Scala); otherwise before it, and reverted if the append fails."""
    expires_by_own_stamp: bool = False
    """Whether every offset is written with an expire timestamp, from the broker's retention (0.9 to 2.0; KIP-211)."""
    resolves_topic_ids: bool = True
    """Whether a commit by topic name is written with topic ids (from 4.3 on; 4.1 and 4.2 only write an id that is in
    the request)."""
    base_sequence: int = 0
    """Base sequence of batches of tombstones and of group metadata; batches of commits have 0 in every release."""

    # --- how it answers clients, and its log lines

    describes_revoking: bool = True
    """Whether partitions that a consumer group's member has yet to revoke are in its described assignment (from
    4.3)."""
    has_group_errors: bool = True
    """Whether OffsetFetch has an error of the group (KIP-88, 0.10.2); earlier, each requested partition has it."""
    supports_stable_fetch: bool = True
    """Whether OffsetFetch knows `require_stable` (KIP-447, 2.5)."""
    checks_group_ids: bool = True
    """Whether a transactional commit with an empty group id is refused (2.0)."""
    fences_static_members: bool = True
    """Whether a commit with a static member's instance id and another member id is refused (KIP-345, 2.3)."""
    validates_transactional_members: bool = True
    """Whether a transactional commit that names a member is checked (KIP-447, 2.5)."""
    hides_loading: bool = True
    """Whether TxnOffsetCommit below version 2 gets COORDINATOR_NOT_AVAILABLE during a load (2.6)."""
    validates_commits_alike: bool = True
    """Whether plain and transactional commits share GroupCoordinator.validateOffsetCommit (3.0)."""
    checks_members_of_empty_groups: bool = False
    """Whether a commit to an Empty group that names a member but no generation is refused (3.0 to 3.2; KAFKA-14201)."""
    accepts_older_epochs: bool = True
    """Whether a consumer group accepts a commit with an older member epoch if the member has had the partitions since
    that epoch or longer (KIP-1251, 4.3)."""
    accepts_older_task_epochs: bool = True
    """The same for a streams group, whose member has the partitions by its active tasks (KAFKA-19779, 4.2)."""
    has_new_transaction_errors: bool = True
    """Whether TxnOffsetCommit of version 6 may get GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319, 4.4)."""
    maps_size_errors: bool = True
    """Whether an append that failed for its size is answered INVALID_COMMIT_OFFSET_SIZE, not with the log's error
    (0.9)."""
    maps_replica_errors: bool = True
    """Whether NOT_ENOUGH_REPLICAS of an append becomes COORDINATOR_NOT_AVAILABLE (0.10.1)."""
    has_storage_errors: bool = True
    """Whether an append may end in KAFKA_STORAGE_ERROR (KIP-112, 1.0)."""
    requires_member_ids: bool = True
    """Whether JoinGroup from version 4 on first assigns an id to a new member, with MEMBER_ID_REQUIRED (KIP-394,
    2.2)."""
    delays_first_rebalance: bool = True
    """Whether the first rebalance of an Empty group waits for more members (KIP-134, 0.11)."""
    converts_streams_groups: bool = True
    """Whether a classic member takes over an empty streams group, as it does an empty consumer group (4.2)."""
    unloads_every_group: bool = False
    """Whether unloading a log partition drops the groups of all log partitions, but not their offsets (0.9.0.0)."""
    offsets_excuse_unload: bool = True
    """Whether a group with offsets passes the check for an unexpected unload (0.10.2)."""
    logs_partition_in_brackets: bool = False
    """Whether log lines write `[topic,partition]` (before 0.10.2)."""

    @property
    def is_java(self) -> bool:
        """Whether this is the coordinator in Java: that of 4.0 and later, and as a preview in 3.8 and 3.9."""
        return self.name == "group_coordinator"

    @property
    def knows_commits_in_flight(self) -> bool:
        """Whether the coordinator tracks commits that the log has not answered (GroupMetadata.pendingOffsetCommits,
        0.10.1 to 3.9)."""
        return self.stores_after_append and self.lists_simple_groups

    @property
    def is_one_write(self) -> bool:
        """Whether all records that an operation appends have one timestamp (CoordinatorRuntime.append)."""
        return not self.batch_per_group

    @property
    def folds_in_slices(self) -> bool:
        """Whether folds of slices of a log partition can be merged; else it has to be read as a whole."""
        is_last_wins = self.pending_rule is PendingRule.NEVER
        return is_last_wins or (self.tombstones_cancel_pending and not self.leaks_open_transactions)

    @cached_property
    def text(self) -> str:
        """The profile in the syntax of `--profile`."""
        return f"{self.name}:{'.'.join(map(str, self.release))}"

    def reads(self, record_type: int) -> bool:
        return record_type in self.value_versions

    def unknown_version_text(self, record_type: int, version: int) -> str:
        """The coordinator's message about a value of an unknown version."""
        if not self.offsets_hold_groups:
            return f"Found an unknown record version {version} for {record_type} type"
        if self.says_schema:
            return f"Unknown {'group metadata' if record_type == 2 else 'offset schema'} version {version}"
        return f"Unknown {'group metadata' if record_type == 2 else 'offset'} message version: {version}"

    def unknown_type_text(self, record_type: int) -> str:
        """The coordinator's message about a type that it neither reads nor skips."""
        if self.says_schema:
            return f"Unknown {'message key' if self.says_key_schema else 'offset'} schema version {record_type}"
        return f"Unknown group metadata message version: {record_type}"
