"""Computes offset_verdicts of one shard of a run.

It joins the broker's verdict on each offset, its orphan kind, the open transaction that holds it, and the policy's
verdict.
"""

from types import MappingProxyType

import pyarrow as pa

from sexton.as_text import MINUTE_MS
from sexton.coordinator.expiry import (
    CHECK_INTERVAL,
    DEFAULT_CHECK_INTERVAL_MS,
    NOT_LOADED,
    SweepBlock,
    block_in,
    first_block,
)
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.policy import Policy
from sexton.runs.admin_tables import with_nulls
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord, Shard
from sexton.tables import TABLES
from sexton.verdicts.expiry import held_offsets, judge_unblocked, suspects, sweep_block, under_block
from sexton.verdicts.intervals import at_latest, by_latest, judge_between
from sexton.verdicts.keeping import (
    NOTHING_DONE,
    KeepSteps,
    activity_of_clients,
    base_of_clients,
    client_times,
    keep_columns,
)
from sexton.verdicts.orphans import TopicsTable, against_topics
from sexton.verdicts.pins import Owners, pins
from sexton.verdicts.policy import judge_by_policy

TABLE = "offset_verdicts"
KAFKAS_DEFAULT = "Kafka's default in"
"""Prefix of a retention's source if nobody requested the retention and no broker reported it."""
_HELD = ("committed_offsets", "unreachable_offsets")
_COMMITTED = TABLES["committed_offsets"].column("commit_timestamp_ms")
"""The instant of a commit. If the run's evidence only gives an interval, a policy counts retention from its later
end."""


def judge_offsets(
    folder: RunFolder,
    record: RunRecord,
    shard: Shard,
    *,
    policy: Policy | None = None,
    owners: Owners = MappingProxyType({}),
    steps: KeepSteps = NOTHING_DONE,
    every_ms: int | None = None,
) -> pa.Table:
    """The rows of offset_verdicts of one shard, in the order of `read_held`, without the run's columns.

    Retention, instant, profile and topics come from `record`, which may differ from the record in `folder`. A policy
    counts from what clients did, so `steps` has what `sexton keep` did. `every_ms` is as in `keep_columns`.
    """
    offsets, groups = read_held(folder, shard), folder.read_table("groups", shard)
    pending = folder.read_table("pending_offsets", shard)
    latest, latest_groups, now_ms, profile = offsets, groups, record.as_of_ms, profile_of(record.profile)
    is_instant = record.knows(_COMMITTED)
    if is_instant:
        verdicts = judge_unblocked(
            offsets, groups, pending, retention_ms=record.retention_ms, now_ms=now_ms, profile=profile
        )
        verdicts = under_block(verdicts, block_of(folder, record, shard.log_partition), now_ms=now_ms)
    else:
        latest, latest_groups = at_latest(offsets, groups)
        verdicts = judge_between(
            offsets,
            groups,
            retention_ms=record.retention_ms,
            now_ms=now_ms,
            seen_ms=record.taken_at_ms,
            sweep_ms=_sweep_ms(record),
            profile=profile,
        )
    verdicts = verdicts.append_column("log_partition", offsets["log_partition"])
    verdicts = _beside(verdicts, against_topics(latest, known_topics(folder, record)))
    transactions = folder.read_table("open_transactions", shard.log_partition)
    verdicts = _beside(verdicts, pins(offsets, pending, transactions, owners))
    verdicts = with_nulls(verdicts, (column for column in TABLES[TABLE].columns if column.known_from is not None))
    if policy is not None:
        verdicts = _beside(verdicts, client_times(offsets, groups, steps))
        counted = base_of_clients(verdicts if is_instant else by_latest(verdicts, offsets), latest)
        latest, latest_groups = activity_of_clients(latest, latest_groups, verdicts)
        judged = judge_by_policy(policy, latest, counted, latest_groups, now_ms=now_ms)
        kept = keep_columns(
            policy,
            latest,
            _beside(counted, judged),
            steps,
            now_ms=now_ms,
            every_ms=every_ms,
            check_interval_ms=check_interval_ms(record),
        )
        verdicts = _beside(_beside(verdicts, judged), kept)
    return with_nulls(verdicts, TABLES[TABLE].columns)


def _sweep_ms(record: RunRecord) -> int | None:
    """How long after its expiry an offset may still exist; None if the retention is not the broker's."""
    own_ms = record.broker_retention_ms
    if own_ms is None and record.retention_source.startswith(KAFKAS_DEFAULT):
        own_ms = profile_of(record.profile).default_retention_minutes * MINUTE_MS
    if record.retention_ms != own_ms:
        return None
    return check_interval_ms(record)


def check_interval_ms(record: RunRecord) -> int:
    """The broker's sweep interval as recorded, else Kafka's default."""
    return int(record.broker_settings.get(CHECK_INTERVAL) or DEFAULT_CHECK_INTERVAL_MS)


def block_of(folder: RunFolder, record: RunRecord, log_partition: int) -> SweepBlock | None:
    """Why the broker's sweep of a log partition fails with the retention and instant of `record`; else None."""
    if _recorded_block(folder, log_partition) == NOT_LOADED:
        return NOT_LOADED
    profile = profile_of(record.profile)
    blocks = []
    for shard in folder.shards_in("groups", log_partition):
        columns = ["group_id", "group_type", "left_targets"]  # usually no group is suspect, and nothing else is read
        if suspects(folder.read_table("groups", shard, columns), profile).num_rows:
            groups, pending = (folder.read_table(name, shard) for name in ("groups", "pending_offsets"))
            block = block_at(record, read_held(folder, shard), groups, pending, profile)
            blocks += [block] if block is not None else []
    return first_block(blocks)


def block_at(
    record: RunRecord, held: pa.Table, groups: pa.Table, pending: pa.Table, profile: Profile
) -> SweepBlock | None:
    """`sweep_block` with the retention and instant of `record`."""
    return sweep_block(held, groups, pending, retention_ms=record.retention_ms, now_ms=record.as_of_ms, profile=profile)


def sweep_fails(folder: RunFolder, record: RunRecord, log_partition: int) -> bool:
    """Whether the broker's sweep of a log partition writes nothing at the run's instant, as the replay recorded."""
    block = _recorded_block(folder, log_partition)
    return block is not None and block.is_on(record.as_of_ms)


def _recorded_block(folder: RunFolder, log_partition: int) -> SweepBlock | None:
    profiles = folder.read_table("load_profile", log_partition).to_pylist()
    return block_in(profiles[0]) if profiles else None  # a run from admin snapshots has no load profile


def read_held(folder: RunFolder, shard: Shard) -> pa.Table:
    """The offsets that the sweep of one shard visits; verdicts have the same row order."""
    committed, unreachable = (folder.read_table(name, shard, [*TABLES[name].column_names]) for name in _HELD)
    return held_offsets(committed, unreachable)


def known_topics(folder: RunFolder, record: RunRecord) -> TopicsTable | None:
    """The cluster's topics as the run knows them; None if they were not recorded."""
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
