"""The table groups: groups at as_of, as a coordinator knows them after it has loaded the log."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_OFFSET, LOG_PARTITION, TEXTS
from sexton.tables.table import Column, Table
from sexton.vocabulary import GROUP_STATES, GROUP_TYPES

GROUPS = Table(
    name="groups",
    grain="a group at as_of, with or without offsets",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        Column("group_type", pa.string(), "the type, as ListGroups names it", allowed=GROUP_TYPES),
        Column("state", pa.string(), "the state that the broker reports after loading", allowed=GROUP_STATES),
        Column(
            "protocol_type",
            pa.string(),
            # Members bring their protocol type with them, even an empty one: "" is only absence without them.
            "consumer, share or streams for the new types; NULL for a simple group",
            nullable=True,
        ),
        Column("protocol", pa.string(), "the selected assignor", nullable=True),
        Column("generation", pa.int32(), "generation id; for the new types, the group epoch", nullable=True),
        Column("leader", pa.string(), "member id of the leader", nullable=True, known_from="log"),
        Column(
            "current_state_timestamp_ms",
            pa.int64(),
            "when the group entered its state",
            nullable=True,
            absent=-1,
            known_from="log",
        ),
        Column(
            "empty_after_ms",
            pa.int64(),
            "last admin snapshot in which it was not Empty: it became Empty later; NULL where no snapshot is early "
            "enough",
            nullable=True,
            known_from="admin_snapshots",
        ),
        Column(
            "empty_by_ms",
            pa.int64(),
            "latest time at which it became Empty, as far as admin snapshots can show; NULL where it is not Empty",
            nullable=True,
            known_from="admin_snapshots",
        ),
        Column(
            "snapshot_error",
            pa.string(),
            "why the admin snapshot does not describe it, or lacks its offsets; its verdicts are then unknown",
            nullable=True,
            known_from="admin_snapshots",
        ),
        Column("member_count", pa.int32(), "number of members", minimum=0),
        Column("subscribed_topics", TEXTS, "topics that its members subscribe to, sorted", nullable=True),
        Column(
            "subscription_known",
            pa.bool_(),
            "whether the coordinator could read every subscription; if not, subscribed_topics is meaningless",
        ),
        Column(
            "left_targets",
            TEXTS,
            "ids with a target assignment but no member: while one is left, the group cannot be deleted, and once the "
            "group is Empty without an offset to keep, the sweep of its log partition fails; NULL for classic groups",
            nullable=True,
            known_from="log",
        ),
        Column("offset_count", pa.int64(), "number of its rows in committed_offsets", minimum=0),
        Column(
            "has_open_transaction",
            pa.bool_(),
            "whether the coordinator considers a transaction with the group's offsets open, and so keeps the group",
        ),
        Column("pending_count", pa.int64(), "number of its rows in pending_offsets", minimum=0),
        LOG_PARTITION,
        Column(
            "home_log_partition",
            pa.int32(),
            "the log partition that its id hashes to, where clients look for it; NULL where the number of log "
            "partitions is not known",
            nullable=True,
        ),
        replace(
            LOG_OFFSET,
            nullable=True,
            doc="log_offset of its last group record; NULL for a group that has only offsets",
            known_from="log",
        ),
    ),
)
