"""The table tombstones: the plan, record by record."""

from dataclasses import replace

from sexton.tables.columns import (
    COMMITTED_OFFSET,
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    PARTITION,
    PLAN_ID,
    POSITION,
    TOPIC,
    binary,
    int32,
    string,
)
from sexton.tables.table import Table

TOMBSTONES = Table(
    name="tombstones",
    grain="a planned tombstone",
    key=("log_partition", "position"),
    columns=(
        PLAN_ID,
        LOG_PARTITION,
        POSITION,
        int32("record_type", "the record type of the key", minimum=0),
        GROUP_ID,
        replace(TOPIC, nullable=True, doc="NULL for a group record"),
        replace(PARTITION, nullable=True, doc="NULL for a group record"),
        string("member_id", "the member id, in a record of a member", nullable=True),
        string("regular_expression", "the regular expression, in a record of a resolved one", nullable=True),
        binary("key", "the record's key"),
        string("cause", "why it is deleted: broker_retention, rule:<name> or group_empty"),
        replace(
            LOG_OFFSET,
            name="target_log_offset",
            nullable=True,
            below_cut=False,
            doc="log_offset of the record to be deleted",
            known_from="log",
        ),
        replace(
            COMMITTED_OFFSET, name="target_committed_offset", nullable=True, doc="the committed offset to be deleted"
        ),
        replace(
            LOG_PARTITION,
            name="target_log_partition",
            doc="log partition of the value to be deleted; differs from log_partition for a misplaced group, which a "
            "coordinator with one cache serves",
        ),
    ),
    doc="Within a log partition, position orders by group_id bytes, then offsets by topic bytes and partition, "
    "then the group records in the coordinator's order. The broker may delete the groups in another order.",
)
