"""The table apply_ledger: what became of each planned deletion."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import (
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    PARTITION,
    PLAN_ID,
    POSITION,
    TOPIC,
    int32,
    int64,
    string,
)
from sexton.tables.table import Column, Table

APPLY_OUTCOMES = ("done", "changed_since", "refused", "gone", "not_done", "raced")
"""Outcomes of an item of a plan; raced: done, but it removed or replaced a commit that arrived after the preflight
check."""

RETRYABLE_OUTCOMES = ("refused", "not_done")
"""Outcomes after which an item may be tried again."""

_VALUE = pa.struct(
    {
        "committed_offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
        "commit_timestamp_ms": pa.int64(),
    }
)

APPLY_LEDGER = Table(
    name="apply_ledger",
    grain="an attempt at one item of a plan: a tombstone, or an offset to be restored or kept alive",
    key=("plan_id", "log_partition", "position", "attempt"),
    columns=(
        replace(PLAN_ID, doc="id of the plan or of the restore"),
        string("action", "the intended action", allowed=("tombstone", "restore", "keep")),
        LOG_PARTITION,
        POSITION,
        GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group record"),
        replace(PARTITION, nullable=True, doc="NULL for a group record"),
        int32("attempt", "number of the attempt, from 1", minimum=1),
        int64("intent_at_ms", "when the intent was recorded, before the call", minimum=0),
        int64("outcome_at_ms", "when the outcome was recorded, after the call", nullable=True, minimum=0),
        string(
            "outcome",
            "the result; NULL while it is unknown. changed_since, refused, not_done: nothing was changed; gone: "
            "nothing was found; raced: done, but a newer commit fell into the window",
            nullable=True,
            allowed=APPLY_OUTCOMES,
        ),
        string("error", "what the cluster answered", nullable=True),
        Column("before", "the value before the call, complete enough to restore it", type=_VALUE, nullable=True),
        replace(
            LOG_OFFSET,
            name="written_log_offset",
            nullable=True,
            below_cut=False,
            doc="log_offset of the record that the call wrote, as read back; NULL where nothing was written or found",
        ),
        int64(
            "window_ms",
            "the window: from the preflight check to the answer of the call; a commit in it is only noticed afterwards",
            nullable=True,
            minimum=0,
        ),
        string("approved_by", "who approved the plan"),
    ),
    kind="append",
    doc="A copy of the ledger in the archive, made when an attempt ends. Restores have rows like deletions: "
    "`before` is the value that the restore replaced, NULL where there was none.",
)
