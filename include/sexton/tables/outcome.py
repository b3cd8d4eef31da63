"""Tables of what follows from the state and its verdicts: the plan, what happened, and how well it was checked."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import COMMITTED_OFFSET, LOG_PARTITION, OFFSET_KEY, PARTITION, TEXTS, TOPIC
from sexton.tables.columns import GROUP_ID as _GROUP_ID
from sexton.tables.columns import LOG_OFFSET as _LOG_OFFSET
from sexton.tables.table import Column, Table

FATES = ("live", "superseded", "tombstoned", "aborted", "pending", "cancelled", "unreachable", "undecodable")
"""What became of the values of record types 0 and 1: each has exactly one fate, so they add up to read_values."""
CHANGE_KINDS = ("set", "expired", "deleted", "group_deleted", "topic_deleted", "restored", "ambiguous")
"""What an offset change may be; all but set and restored are disappearances."""
APPLY_OUTCOMES = ("done", "changed_since", "refused", "gone", "not_done", "raced")
"""What may come of an item of a plan: raced is done, and a newer commit fell into the window before it."""

_POSITION = Column(name="position", type=pa.int64(), doc="place in the plan of its log partition", minimum=0)
_PLAN_ID = Column(name="plan_id", type=pa.string(), doc="SHA-256 of the canonical plan")


def _count(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name=name, type=pa.int64(), doc=doc, unit="count", minimum=0, nullable=nullable)


TOMBSTONES = Table(
    name="tombstones",
    grain="a planned tombstone",
    key=("log_partition", "position"),
    columns=(
        _PLAN_ID,
        LOG_PARTITION,
        _POSITION,
        Column(name="record_type", type=pa.int32(), doc="of the key", minimum=0),
        _GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group's own record"),
        replace(PARTITION, nullable=True, doc="NULL for a group's own record"),
        Column(name="member_id", type=pa.string(), doc="of a member's record", nullable=True),
        Column(name="regular_expression", type=pa.string(), doc="of a resolved regex's record", nullable=True),
        Column(name="key", type=pa.binary(), doc="the record's key"),
        Column(name="cause", type=pa.string(), doc="broker_retention, rule:<name> or group_empty"),
        replace(_LOG_OFFSET, name="target_log_offset", nullable=True, below_cut=False, doc="log_offset of what goes"),
        replace(COMMITTED_OFFSET, name="target_committed_offset", nullable=True, doc="the offset that goes"),
        replace(
            LOG_PARTITION,
            name="target_log_partition",
            doc="where what goes was read; another than log_partition for a stray group that a cache of old serves",
        ),
    ),
    doc=(
        "Within a log partition, position orders by group_id bytes, then offsets by topic bytes and partition, then "
        "the group's own records in the coordinator's order. The broker's order between groups is not claimed."
    ),
)

LOAD_PROFILE = Table(
    name="load_profile",
    grain="a log partition",
    key=("log_partition",),
    columns=(
        LOG_PARTITION,
        Column(name="bytes", type=pa.int64(), doc="log read", unit="bytes", minimum=0),
        _count("batches", "record batches read"),
        _count("records", "records read, control records included"),
        _count("live_records", "records that a coordinator still needs"),
        _count("tombstones", "records without a value"),
        _count("control_records", "transaction markers and the like"),
        Column(name="largest_batch_bytes", type=pa.int64(), doc="largest batch", unit="bytes", minimum=0),
        Column(name="first_log_offset", type=pa.int64(), doc="first record read", nullable=True, minimum=0),
        Column(name="next_log_offset", type=pa.int64(), doc="log_offset behind the last record read", minimum=0),
        _count("stray_groups", "groups that hash elsewhere; NULL when the partition count is unknown", nullable=True),
        Column(
            name="coordinator",
            type=pa.int32(),
            doc="id of the broker that led it when the snapshot was taken, and so coordinates its groups; NULL where "
            "nothing recorded that",
            nullable=True,
        ),
        Column(name="load_would_fail", type=pa.bool_(), doc="whether its load would fail or never end"),
        Column(name="load_failure", type=pa.string(), doc="why it would", nullable=True),
        Column(
            name="load_outcome",
            type=pa.string(),
            doc="loaded, or what a coordinator serves after a load that failed: not_coordinator (an error), "
            "empty_cache (as if there were no offsets), prefix (what came before the failure); never_ends: the load "
            "goes on for ever (before 2.0.1), and every answer is COORDINATOR_LOAD_IN_PROGRESS",
            allowed=("loaded", "not_coordinator", "empty_cache", "prefix", "never_ends"),
        ),
        Column(
            name="sweep_blocked_by",
            type=pa.string(),
            doc="the group for which the broker's sweep fails, so that nothing in the log partition expires; NULL where"
            " sweeps work",
            nullable=True,
        ),
        Column(
            name="sweep_blocked_from_ms",
            type=pa.int64(),
            doc="from when on it fails, which may be after as_of; NULL where every sweep does, and where sweeps work",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="predicted_load_ms",
            type=pa.int64(),
            doc="how long a coordinator takes to load it, by a model of measured loads; longer where it is compressed",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="garbage_share",
            type=pa.float64(),
            doc="fraction of the records that a perfect compaction would drop; NULL without records",
            nullable=True,
            minimum=0,
        ),
        Column(
            name="skew",
            type=pa.float64(),
            doc="its bytes over those of the average log partition: 1 is even; NULL for a log without bytes",
            nullable=True,
            minimum=0,
        ),
        Column(name="hot_groups", type=TEXTS, doc="up to five groups with most commits, the hottest first"),
        Column(
            name="hottest_group_share",
            type=pa.float64(),
            doc="the hottest group's fraction of all commits",
            nullable=True,
            minimum=0,
        ),
        Column(
            name="first_unstable_log_offset",
            type=pa.int64(),
            doc="where the oldest open transaction begins: the log cleaner stops there; NULL when none is open",
            nullable=True,
        ),
        _count("read_values", "values of record types 0 and 1 read: the sum of their fates"),
        _count("live", "fate: a client can fetch it"),
        _count("superseded", "fate: a newer value of its key came"),
        _count("tombstoned", "fate: a tombstone of its key came"),
        _count("aborted", "fate: its transaction was aborted"),
        _count("pending", "fate: its transaction is open"),
        _count("cancelled", "fate: its transaction is open, but a tombstone of its key came"),
        _count("unreachable", "fate: in the log, but no client can fetch it"),
        _count("undecodable", "fate: could not be decoded"),
        _count(
            "undecodable_records",
            "records, batches and stretches of bytes that could not be decoded, also those that have no row in "
            "undecodable_records, which keeps the first 10,000",
        ),
        _count(
            "unexpected_unloads",
            "removed groups over which a load up to 3.9 logs `Unexpected unload of active group`; all is served",
        ),
        _count("unknown_types", "records of types that nobody knows, skipped as the coordinator does"),
        _count("future_batches", "batches stamped over an hour after the snapshot, passed over in finding the cut"),
    ),
)

OFFSET_CHANGES = Table(
    name="offset_changes",
    grain="a change of one offset in an interval",
    key=("log_partition", "group_id", "topic", "partition", "log_offset"),
    columns=(
        *OFFSET_KEY,
        replace(
            COMMITTED_OFFSET,
            name="old_committed_offset",
            nullable=True,
            doc="before: of a disappearance the value right before it, else that at the interval's beginning; NULL "
            "where there was none, or where it disappeared since",
        ),
        replace(COMMITTED_OFFSET, name="new_committed_offset", nullable=True, doc="after; NULL for a disappearance"),
        Column(
            name="kind",
            type=pa.string(),
            doc="what changed it: set by a commit, restored by a plan of ours, or gone for the cause named",
            allowed=CHANGE_KINDS,
        ),
        Column(name="candidates", type=TEXTS, doc="what an ambiguous change may have been", nullable=True),
        replace(_PLAN_ID, name="by_plan_id", nullable=True, doc="the plan of ours that did it"),
        LOG_PARTITION,
        replace(_LOG_OFFSET, doc="place of the tombstone, or of the value that was set"),
        Column(
            name="timestamp_ms",
            type=pa.int64(),
            doc="when the tombstone was written, or the value committed; NULL in logs of record format 0",
            nullable=True,
            unit="ms",
        ),
        replace(_LOG_OFFSET, name="old_log_offset", nullable=True, doc="place of the old value"),
        Column(
            name="old_commit_timestamp_ms",
            type=pa.int64(),
            doc="when the old value was committed",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="due_at_ms",
            type=pa.int64(),
            doc="when retention let what disappeared go; NULL where that is not known, or where more than time kept it",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="evidence",
            type=pa.string(),
            doc="what the log shows of a disappearance, in words; NULL where the commit is all there is to tell",
            nullable=True,
        ),
    ),
    kind="interval",
    doc=(
        "One row for each offset that ends the interval with another committed offset than it began with, and one for "
        "each time that one disappeared, also where it was committed again. Commits in between, and of the same offset "
        "again, are no rows. Why the causes are what they are: docs/changes.md."
    ),
)

EXPIRY_SWEEPS = Table(
    name="expiry_sweeps",
    grain="a sweep of one log partition in an interval, recognised in offset_changes",
    key=("log_partition", "first_log_offset"),
    columns=(
        LOG_PARTITION,
        replace(_LOG_OFFSET, name="first_log_offset", doc="place of its first offset's tombstone"),
        replace(_LOG_OFFSET, name="last_log_offset", doc="place of its last offset's tombstone"),
        Column(
            name="started_at_ms",
            type=pa.int64(),
            doc="when the first was written; NULL in logs of record format 0",
            nullable=True,
            unit="ms",
        ),
        _count("offsets", "offsets that it removed, or may have removed"),
        _count("certain_offsets", "of them those that nothing but a sweep can have removed"),
        _count("groups", "groups that lost them"),
    ),
    kind="interval",
)

COMMIT_COUNTS = Table(
    name="commit_counts",
    grain="a group that has committed in an interval",
    key=("log_partition", "group_id"),
    columns=(
        _GROUP_ID,
        LOG_PARTITION,
        _count("commits", "offset values written, also those of transactions that were aborted; at least so many"),
        Column(
            name="commits_per_second",
            type=pa.float64(),
            doc="commits over the length of the interval, from changes_since_ms to as_of_ms of the run",
            minimum=0,
        ),
        Column(
            name="is_whole",
            type=pa.bool_(),
            doc="whether the log partition's log of the interval lacks no record: else compaction took some before the "
            "snapshot, and there were more commits",
        ),
    ),
    kind="interval",
)

APPLY_LEDGER = Table(
    name="apply_ledger",
    grain="an attempt at one item of a plan: a tombstone, or an offset to be restored",
    key=("plan_id", "log_partition", "position", "attempt"),
    columns=(
        replace(_PLAN_ID, doc="the plan, or of a restore its id"),
        Column(name="action", type=pa.string(), doc="what was to be done", allowed=("tombstone", "restore")),
        LOG_PARTITION,
        _POSITION,
        _GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group's own record"),
        replace(PARTITION, nullable=True, doc="NULL for a group's own record"),
        Column(name="attempt", type=pa.int32(), doc="from 1", minimum=1),
        Column(name="intent_at_ms", type=pa.int64(), doc="written before the call", unit="ms", minimum=0),
        Column(name="outcome_at_ms", type=pa.int64(), doc="written after it", nullable=True, unit="ms", minimum=0),
        Column(
            name="outcome",
            type=pa.string(),
            doc="what came of it; NULL while nobody knows. changed_since, refused and not_done left everything as it "
            "was, gone found nothing, raced was done while a newer commit came",
            nullable=True,
            allowed=APPLY_OUTCOMES,
        ),
        Column(name="error", type=pa.string(), doc="what the cluster answered", nullable=True),
        Column(
            name="before",
            type=pa.struct(
                [
                    ("committed_offset", pa.int64()),
                    ("leader_epoch", pa.int32()),
                    ("metadata", pa.string()),
                    ("commit_timestamp_ms", pa.int64()),
                ]
            ),
            doc="the value that was there before, enough to put it back",
            nullable=True,
        ),
        replace(
            _LOG_OFFSET,
            name="written_log_offset",
            nullable=True,
            below_cut=False,
            doc="place of the record that the call wrote, as read back; NULL where nothing was written or found",
        ),
        Column(
            name="window_ms",
            type=pa.int64(),
            doc="from the last look at the offset to the answer of the call: a commit in between is not seen before it",
            nullable=True,
            unit="ms",
            minimum=0,
        ),
        Column(name="approved_by", type=pa.string(), doc="who approved the plan"),
    ),
    kind="append",
    doc=(
        "The plan's ledger beside the archive, put here when an attempt ends. Restores are rows like removals: their "
        "`before` is what the restore replaced, NULL where nothing was there."
    ),
)

DQ_RESULTS = Table(
    name="dq_results",
    grain="an expectation of a run",
    key=("table", "expectation"),
    columns=(
        Column(name="table", type=pa.string(), doc="the table it is about"),
        Column(name="expectation", type=pa.string(), doc="what is expected, as a sentence"),
        Column(
            name="severity",
            type=pa.string(),
            doc="critical stops publication, warning is told",
            allowed=("critical", "warning"),
        ),
        Column(name="success", type=pa.bool_(), doc="whether it was met"),
        Column(name="observed", type=pa.string(), doc="what was there", nullable=True),
    ),
    per_log_partition=False,
)

RUNS = Table(
    name="runs",
    grain="a published run",
    key=("cluster_id", "as_of_ms"),
    columns=(
        Column(name="topic_id", type=pa.string(), doc="topic id of `__consumer_offsets`, or `unknown`"),
        Column(name="taken_at_ms", type=pa.int64(), doc="when the log was read", unit="ms"),
        Column(name="profile", type=pa.string(), doc="whose rules"),
        Column(name="retention_ms", type=pa.int64(), doc="retention judged by", unit="ms", minimum=0),
        Column(
            name="cuts",
            type=pa.list_(pa.struct([("log_partition", pa.int32()), ("cut", pa.int64())])),
            doc="log_offset per log partition where reading stopped",
        ),
        Column(name="coverage", type=pa.string(), doc="complete or partial"),
        Column(
            name="changes_since_ms",
            type=pa.int64(),
            doc="beginning of the interval that offset_changes tells of; NULL where it tells of none",
            nullable=True,
            unit="ms",
        ),
        Column(name="missing_log_partitions", type=pa.list_(pa.int32()), doc="log partitions that were not there"),
        Column(
            name="snapshots",
            type=pa.list_(pa.struct([("table", pa.string()), ("snapshot_id", pa.int64())])),
            doc="Iceberg snapshot per table: what belongs to this run is read there",
        ),
        Column(name="checkpoint_sha256", type=pa.string(), doc="hash of the fold kept for the next run", nullable=True),
        Column(name="plan_id", type=pa.string(), doc="SHA-256 of the canonical plan", nullable=True),
        Column(
            name="plan_sha256",
            type=pa.string(),
            doc="SHA-256 of the plan.json that is kept in the archive; NULL where no plan is kept",
            nullable=True,
        ),
        Column(name="policy_sha256", type=pa.string(), doc="hash of the policy; NULL without one", nullable=True),
        Column(name="code_version", type=pa.string(), doc="version of Sexton"),
        Column(
            name="counts",
            type=pa.list_(pa.struct([("table", pa.string()), ("rows", pa.int64())])),
            doc="rows per table",
        ),
        Column(name="warnings", type=TEXTS, doc="what a reader should know"),
    ),
    kind="index",
    per_log_partition=False,
    doc="Written last: a run that is not here is not published.",
)
