"""The table replica_differences: what clients would read if another replica of a log partition led it."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, PARTITION, TEXTS, TOPIC
from sexton.tables.table import Column, Table

REPLICA_KINDS = (
    "unloadable",
    "conflict",
    "lost",
    "resurrected",
    "aborted_to_committed",
    "committed_to_aborted",
    "committed_hidden",
    "stuck",
    "ghost_member",
)

REPLICA_PROOFS = ("tombstone", "marker", "value", "no_gap", "leader_epoch", "load", "cleaned", "behind", "unknown")

_ANSWER = pa.struct(
    [
        ("replica", pa.string()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
        ("log_offset", pa.int64()),
        ("pending_offset", pa.int64()),
        ("pending_log_offset", pa.int64()),
        ("producer_id", pa.int64()),
        ("group_type", pa.string()),
        ("group_state", pa.string()),
        ("member_ids", TEXTS),
        ("error", pa.string()),
    ]
)

REPLICA_DIFFERENCES = Table(
    name="replica_differences",
    grain="a group, or one of its offsets, that clients would see differently depending on which replica leads",
    key=("log_partition", "ordinal"),
    columns=(
        LOG_PARTITION,
        Column("ordinal", pa.int32(), "number within the log partition, from 0", minimum=0),
        replace(GROUP_ID, nullable=True, doc="the group; NULL for a transaction marker"),
        replace(TOPIC, nullable=True, doc="NULL for the group itself"),
        replace(PARTITION, nullable=True, doc="NULL for the group itself"),
        Column("kind", pa.string(), "the worst of `kinds`; docs/replicas.md explains each", allowed=REPLICA_KINDS),
        Column("kinds", TEXTS, "everything that applies, the worst first"),
        Column("wrong_replicas", TEXTS, "replicas that would serve clients wrongly"),
        Column("right_replicas", TEXTS, "replicas that are right; empty where nothing shows which are"),
        Column(
            "proof",
            pa.string(),
            "the evidence. tombstone, marker: such a record still exists; value: a value survives on the right "
            "replica or is applied there; no_gap: nothing was written after the value that could have removed it; "
            "leader_epoch: the records are from an older leader; load: the coordinator's own checks; behind: the "
            "replica ends before the record; cleaned: inferred, since the deciding record was cleaned away; unknown",
            allowed=REPLICA_PROOFS,
        ),
        Column(
            "needs_unclean_election",
            pa.bool_(),
            "true: only if a wrong replica led without catching up first; false: any leader change is enough",
        ),
        Column("answers", pa.list_(_ANSWER), "what each replica would serve for this group or offset"),
        Column("log_offsets", pa.list_(pa.int64()), "records that differ, in log order"),
        Column(
            "since_log_offset",
            pa.int64(),
            "the tombstone or marker that is missing",
            nullable=True,
            minimum=0,
            below_cut=True,
        ),
        Column("since_timestamp_ms", pa.int64(), "when it was written", nullable=True),
        Column(
            "next_commit_offset",
            pa.int64(),
            "pending offsets: the offset that clients read after the producer's next COMMIT; NULL: none",
            nullable=True,
        ),
        Column(
            "next_abort_offset",
            pa.int64(),
            "pending offsets: the offset that clients read after the producer's next ABORT; NULL: none",
            nullable=True,
        ),
        Column("evidence", pa.string(), "why, in words"),
        Column("noticed_by", pa.string(), "who would notice if a wrong replica led"),
        Column("advice", pa.string(), "steps that repair it; nothing is done automatically"),
    ),
    kind="append",
    doc="The findings of an audit of replicas ([Replicas that disagree](replicas.md)); `as_of_ms` is when the "
    "replicas were read. `sexton replicas diff` prints the same.",
)
