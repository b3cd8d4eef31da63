"""The sink `log`: writes tombstones into the log itself, for offsets that the coordinator refuses to delete because
their topic is gone.

This is dangerous, and therefore limited. It writes tombstones only for offsets, never for a group's own records, which
could prevent a coordinator from loading; only for groups without members; only to the log partition to which the group
hashes now; and only while the newest value is still the plan's. It uses the only client id that brokers allow to write
there. The coordinator does not notice: it serves the offset from memory until it loads the log partition again. A 4.x
coordinator does so at the next commit to that partition, and answers that commit with NOT_COORDINATOR.
"""

from collections.abc import Collection, Sequence

from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import Refused, UsageError
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.delete_step import deletion_step
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow, batch_chunks
from sexton.execution.delete.preflight_check import SHARE, has_members
from sexton.execution.delete.resume import compare_rows
from sexton.execution.engine import Answer
from sexton.ledger.entries import ItemId, Result

TOPIC_GONE = "UNKNOWN_TOPIC_OR_PARTITION"
RECORD_FORMAT = 2


def append_orphans(context: DeleteContext, group: PlannedGroup) -> None:
    """Write tombstones for the offsets of a group that the coordinator refused to delete because the topic is gone."""
    rows = [row for row in group.rows if row.is_offset and _is_orphan(context, row)]
    if not rows:
        return
    if (why := _not_allowed(context, group)) is not None:
        results = [Result.of(row.item_id, "refused", f"{TOPIC_GONE}; {why}") for row in rows]
        context.conclude(results, beyond=[row.item for row in rows])
        return
    for chunk in batch_chunks(rows, max_batch_bytes=context.max_batch_bytes):
        _append(context, group, chunk)


def _append(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> None:
    # Only these rows: the group's other rows are gone or refused by now.
    found = compare_rows(context, group, rows)
    if not found.fresh:
        return
    stamp_ms = context.clocks.now_ms()

    def ask(_: Collection[ItemId]) -> Answer:
        batches = encode_batches(
            [(group.group_id, row.key) for row in found.fresh],
            base_offset=0,
            as_of_ms=stamp_ms,
            profile=profile_of(context.plan.record.profile),
            max_batch_bytes=context.max_batch_bytes,
        )
        try:
            context.client.append_tombstones(group.log_partition, batches)
        except (Refused, UsageError) as error:
            return Answer(whole=str(error))
        return Answer()

    deletion_step(context, group, found.fresh, {**found.checks, "call": "append"}, ask)


def _not_allowed(context: DeleteContext, group: PlannedGroup) -> str | None:
    """Why no tombstone for this group may be written into the log; None when it may."""
    if profile_of(context.plan.record.profile).record_format < RECORD_FORMAT:
        return "the log's record format is too old for what this writes"
    count = context.client.identity().partition_count
    if partition_of(group.group_id, count) != group.log_partition:
        return f"with {count} log partitions the group belongs to another"
    now = context.client.group_now(group.group_id)
    if now.exists and now.group_type == SHARE:
        return "it is a share group now"
    if has_members(now):
        return f"the group is {now.state}: the log is only written to for groups without members"
    return None


def _is_orphan(context: DeleteContext, row: PlannedRow) -> bool:
    result = context.status.results.get(row.item_id)
    return result is not None and result.outcome == "refused" and result.error == TOPIC_GONE
