"""Computes offset_verdicts of one shard of a run.

It joins the broker's verdict on each offset, its orphan kind, the open transaction that holds it, and the policy's
verdict.
"""

from types import MappingProxyType

import pyarrow as pa

from sexton.coordinator.expiry import SweepBlock, block_in, first_block
from sexton.coordinator.profiles import profile_of
from sexton.policy import Policy
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord, Shard
from sexton.tables import TABLES
from sexton.verdicts.expiry import held_offsets, judge_unblocked, suspects, sweep_block, under_block
from sexton.verdicts.orphans import TopicsTable, against_topics
from sexton.verdicts.pins import Owners, pins
from sexton.verdicts.policy import judge_by_policy

TABLE = "offset_verdicts"
_HELD = ("committed_offsets", "unreachable_offsets")
_POLICY_COLUMNS = (
    "policy_verdict",
    "policy_reason",
    "policy_rule",
    "policy_expires_at_ms",
    "policy_owner",
)


def judge_offsets(
    folder: RunFolder,
    record: RunRecord,
    shard: Shard,
    *,
    policy: Policy | None = None,
    owners: Owners = MappingProxyType({}),
) -> pa.Table:
    """The rows of offset_verdicts of one shard, in the order of `read_held`, without the run's columns.

    Retention, instant, profile and topics are those of `record`, which need not be the one that `folder` holds.
    """
    offsets = read_held(folder, shard)
    groups = folder.read_table("groups", shard)
    pending = folder.read_table("pending_offsets", shard)
    verdicts = judge_unblocked(
        offsets,
        groups,
        pending,
        retention_ms=record.retention_ms,
        now_ms=record.as_of_ms,
        profile=profile_of(record.profile),
    )
    verdicts = under_block(verdicts, block_of(folder, record, shard.log_partition), now_ms=record.as_of_ms)
    verdicts = verdicts.append_column("log_partition", offsets["log_partition"])
    verdicts = _beside(verdicts, against_topics(offsets, known_topics(folder, record)))
    transactions = folder.read_table("open_transactions", shard.log_partition)
    verdicts = _beside(verdicts, pins(offsets, pending, transactions, owners))
    if policy is not None:
        return _beside(verdicts, judge_by_policy(policy, offsets, verdicts, groups, now_ms=record.as_of_ms))
    nothing = {name: pa.nulls(verdicts.num_rows, TABLES[TABLE].column(name).type) for name in _POLICY_COLUMNS}
    return _beside(verdicts, pa.table(nothing))


def block_of(folder: RunFolder, record: RunRecord, log_partition: int) -> SweepBlock | None:
    """What makes the broker's sweep of a log partition fail, by the retention and instant of `record`."""
    profile = profile_of(record.profile)
    blocks = []
    for shard in folder.shards_in("groups", log_partition):
        columns = ["group_id", "group_type", "left_targets"]  # usually none is suspect, and nothing else is read
        if suspects(folder.read_table("groups", shard, columns), profile).num_rows:
            block = sweep_block(
                read_held(folder, shard),
                folder.read_table("groups", shard),
                folder.read_table("pending_offsets", shard),
                retention_ms=record.retention_ms,
                now_ms=record.as_of_ms,
                profile=profile,
            )
            blocks += [block] if block is not None else []
    return first_block(blocks)


def sweep_fails(folder: RunFolder, record: RunRecord, log_partition: int) -> bool:
    """Whether the broker's sweep of one log partition at the instant of the run writes nothing, as its replay found."""
    (profile,) = folder.read_table("load_profile", log_partition).to_pylist()
    block = block_in(profile)
    return block is not None and block.is_on(record.as_of_ms)


def read_held(folder: RunFolder, shard: Shard) -> pa.Table:
    """The offsets that the sweep of one shard walks over; verdicts are rows of the same order."""
    committed, unreachable = (folder.read_table(name, shard) for name in _HELD)
    return held_offsets(committed, unreachable)


def known_topics(folder: RunFolder, record: RunRecord) -> TopicsTable | None:
    """The cluster's topics as the run knows them; None where nothing was recorded of them."""
    if not record.has_topics:
        return None
    return TopicsTable(
        partitions=folder.read_table("topic_partitions", WHOLE_RUN),
        sees_all=bool(record.sees_all_topics),
        recorded_at_ms=record.topics_at_ms,
    )


def _beside(rows: pa.Table, more: pa.Table) -> pa.Table:
    for name in more.column_names:
        rows = rows.append_column(name, more[name])
    return rows
