"""The table of planned tombstones, and the ledger of what was done with them."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import (
    COMMITTED_OFFSET,
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    PARTITION,
    PLAN_ID,
    TOPIC,
)
from sexton.tables.table import Column, Table

APPLY_OUTCOMES = ("done", "changed_since", "refused", "gone", "not_done", "raced")
"""What may come of an item of a plan: raced is done, and a newer commit fell into the window before it."""
RETRYABLE_OUTCOMES = ("refused", "not_done")
"""Outcomes of items that may be tried again."""
_POSITION = Column(name="position", type=pa.int64(), doc="place in the plan of its log partition", minimum=0)


TOMBSTONES = Table(
    name="tombstones",
    grain="a planned tombstone",
    key=("log_partition", "position"),
    columns=(
        PLAN_ID,
        LOG_PARTITION,
        _POSITION,
        Column(name="record_type", type=pa.int32(), doc="of the key", minimum=0),
        GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group record"),
        replace(PARTITION, nullable=True, doc="NULL for a group record"),
        Column(name="member_id", type=pa.string(), doc="of a member's record", nullable=True),
        Column(name="regular_expression", type=pa.string(), doc="of a resolved regex's record", nullable=True),
        Column(name="key", type=pa.binary(), doc="the record's key"),
        Column(name="cause", type=pa.string(), doc="broker_retention, rule:<name> or group_empty"),
        replace(LOG_OFFSET, name="target_log_offset", nullable=True, below_cut=False, doc="log_offset of what goes"),
        replace(COMMITTED_OFFSET, name="target_committed_offset", nullable=True, doc="the offset that goes"),
        replace(
            LOG_PARTITION,
            name="target_log_partition",
            doc="where the removed value was read; differs from log_partition for a misplaced group, which a "
            "coordinator with one cache serves",
        ),
    ),
    doc=(
        "Within a log partition, position orders by group_id bytes, then offsets by topic bytes and partition, then "
        "the group records in the coordinator's order. The broker's order between groups is not claimed."
    ),
)


APPLY_LEDGER = Table(
    name="apply_ledger",
    grain="an attempt at one item of a plan: a tombstone, or an offset to be restored",
    key=("plan_id", "log_partition", "position", "attempt"),
    columns=(
        replace(PLAN_ID, doc="the plan, or of a restore its id"),
        Column(name="action", type=pa.string(), doc="what was to be done", allowed=("tombstone", "restore")),
        LOG_PARTITION,
        _POSITION,
        GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group record"),
        replace(PARTITION, nullable=True, doc="NULL for a group record"),
        Column(name="attempt", type=pa.int32(), doc="from 1", minimum=1),
        Column(name="intent_at_ms", type=pa.int64(), doc="written before the call", unit="ms", minimum=0),
        Column(name="outcome_at_ms", type=pa.int64(), doc="written after it", nullable=True, unit="ms", minimum=0),
        Column(
            name="outcome",
            type=pa.string(),
            doc="the result; NULL while it is unknown. changed_since, refused and not_done changed nothing, gone found "
            "nothing, raced was done while a newer commit came",
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
            LOG_OFFSET,
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
        "The plan's ledger of the archive, copied here when an attempt ends. Restores are rows like removals: their "
        "`before` is the value that the restore replaced, NULL where there was none."
    ),
)
