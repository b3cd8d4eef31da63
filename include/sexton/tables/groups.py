"""The table groups: groups at as_of, as a coordinator knows them after it has loaded the log."""

from dataclasses import replace

from sexton.tables.columns import GROUP_ID, LOG_OFFSET, LOG_PARTITION, boolean, count, int32, int64, string, strings
from sexton.tables.table import Table
from sexton.vocabulary import GROUP_STATES, GROUP_TYPES

GROUPS = Table(
    name="groups",
    grain="a group at as_of, with or without offsets",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        string("group_type", "the type, as ListGroups names it", allowed=GROUP_TYPES),
        string("state", "the state that the broker reports after loading", allowed=GROUP_STATES),
        # "" means no protocol type (NULL) only without members: a member may have an empty protocol type.
        string("protocol_type", "consumer, share or streams for the new types; NULL for a simple group", nullable=True),
        string("protocol", "the selected assignor", nullable=True),
        int32("generation", "generation id; for the new types, the group epoch", nullable=True),
        string("leader", "member id of the leader", nullable=True, known_from="log"),
        int64(
            "current_state_timestamp_ms", "when the group entered its state", nullable=True, absent=-1, known_from="log"
        ),
        int64(
            "empty_after_ms",
            "it became Empty after this admin snapshot; NULL if it is not Empty, or if no snapshot is old enough to "
            "show it",
            nullable=True,
            known_from="admin_snapshots",
        ),
        int64(
            "empty_by_ms",
            "latest time at which it became Empty, as far as admin snapshots can show; NULL where it is not Empty",
            nullable=True,
            known_from="admin_snapshots",
        ),
        string(
            "snapshot_error",
            "why the admin snapshot does not describe it, or lacks its offsets; its verdicts are then unknown",
            nullable=True,
            known_from="admin_snapshots",
        ),
        int32("member_count", "number of members", minimum=0),
        strings("subscribed_topics", "topics that its members subscribe to, sorted", nullable=True),
        boolean(
            "subscription_known",
            "whether the coordinator could read every subscription; if not, subscribed_topics is meaningless",
        ),
        strings(
            "subtopologies",
            "streams groups: entries `<subtopology>@<source topic>`; NULL for other groups",
            nullable=True,
            known_from="log",
        ),
        strings(
            "left_targets",
            "ids with a target assignment but no member: while one is left, the group cannot be deleted, and once the "
            "group is Empty without an offset to keep, the sweep of its log partition fails; NULL for classic groups",
            nullable=True,
            known_from="log",
        ),
        count("offset_count", "number of its rows in committed_offsets"),
        boolean(
            "has_open_transaction",
            "whether the coordinator considers a transaction with the group's offsets open, and so keeps the group",
        ),
        count("pending_count", "number of its rows in pending_offsets"),
        LOG_PARTITION,
        int32(
            "home_log_partition",
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
