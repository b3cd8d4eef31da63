"""The table replica_differences: what clients would read if another replica of a log partition led it."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, PARTITION, TOPIC, boolean, int32, int64, string, strings
from sexton.tables.table import Column, Table

REPLICA_KINDS = (
    *("unloadable", "conflict", "lost", "resurrected"),
    *("aborted_to_committed", "committed_to_aborted", "committed_hidden", "stuck", "ghost_member"),
)

REPLICA_PROOFS = ("tombstone", "marker", "value", "no_gap", "leader_epoch", "load", "cleaned", "behind", "unknown")

_ANSWER = pa.struct(
    {
        "replica": pa.string(),
        "committed_offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
        "commit_timestamp_ms": pa.int64(),
        "log_offset": pa.int64(),
        "pending_offset": pa.int64(),
        "pending_log_offset": pa.int64(),
        "producer_id": pa.int64(),
        "group_type": pa.string(),
        "group_state": pa.string(),
        "member_ids": pa.list_(pa.string()),
        "error": pa.string(),
    }
)

REPLICA_DIFFERENCES = Table(
    name="replica_differences",
    grain="a group, or one of its offsets, that clients would see differently depending on which replica leads",
    key=("log_partition", "ordinal"),
    columns=(
        LOG_PARTITION,
        int32("ordinal", "number within the log partition, from 0", minimum=0),
        replace(GROUP_ID, nullable=True, doc="the group; NULL for a transaction marker"),
        replace(TOPIC, nullable=True, doc="NULL for the group itself"),
        replace(PARTITION, nullable=True, doc="NULL for the group itself"),
        string("kind", "the worst of `kinds`; docs/replicas.md explains each", allowed=REPLICA_KINDS),
        strings("kinds", "everything that applies, the worst first"),
        strings("wrong_replicas", "replicas that would serve clients wrongly"),
        strings("right_replicas", "replicas that are right; empty where nothing shows which are"),
        string(
            "proof",
            "the evidence. tombstone, marker: such a record still exists; value: a value survives on the right "
            "replica or is applied there; no_gap: nothing was written after the value that could have removed it; "
            "leader_epoch: the records are from an older leader; load: the coordinator's own checks; behind: the "
            "replica ends before the record; cleaned: inferred, since the deciding record was cleaned away; unknown",
            allowed=REPLICA_PROOFS,
        ),
        boolean(
            "needs_unclean_election",
            "true: only if a wrong replica led without catching up first; false: any leader change is enough",
        ),
        Column("answers", "what each replica would serve for this group or offset", type=pa.list_(_ANSWER)),
        Column("log_offsets", "records that differ, in log order", type=pa.list_(pa.int64())),
        int64("since_log_offset", "the tombstone or marker that is missing", nullable=True, minimum=0, below_cut=True),
        int64("since_timestamp_ms", "when it was written", nullable=True),
        int64(
            "next_commit_offset",
            "pending offsets: the offset that clients read after the producer's next COMMIT; NULL: none",
            nullable=True,
        ),
        int64(
            "next_abort_offset",
            "pending offsets: the offset that clients read after the producer's next ABORT; NULL: none",
            nullable=True,
        ),
        string("evidence", "why, in words"),
        string("noticed_by", "who would notice if a wrong replica led"),
        string("advice", "steps that repair it; nothing is done automatically"),
    ),
    kind="append",
    doc="The findings of an audit of replicas ([Replicas that disagree](replicas.md)); `as_of_ms` is when the "
    "replicas were read. `sexton replicas diff` prints the same.",
)
