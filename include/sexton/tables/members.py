"""The table members: the members of groups at as_of."""

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, TEXTS
from sexton.tables.table import Column, Table

MEMBERS = Table(
    name="members",
    grain="a group member",
    key=("log_partition", "group_id", "member_id"),
    columns=(
        GROUP_ID,
        Column("member_id", pa.string(), "the member id"),
        Column("group_instance_id", pa.string(), "static membership (KIP-345)", nullable=True),
        Column("client_id", pa.string(), "client.id", nullable=True),
        Column("client_host", pa.string(), "host that it connected from", nullable=True),
        Column("rack_id", pa.string(), "client.rack", nullable=True),
        Column("session_timeout_ms", pa.int32(), "session timeout", nullable=True, known_from="log"),
        Column("rebalance_timeout_ms", pa.int32(), "rebalance timeout", nullable=True, known_from="log"),
        Column("member_epoch", pa.int32(), "member epoch; NULL for classic members", nullable=True),
        Column("subscribed_topics", TEXTS, "the topics that it subscribes to; NULL when unreadable", nullable=True),
        Column(
            "assignment",
            TEXTS,
            "entries `<topic, topic id or subtopology>-<partition>`, as a broker describes it: since 4.3 including "
            "what a member of a consumer group has yet to revoke; NULL when unreadable",
            nullable=True,
        ),
        Column(
            "assignment_epochs",
            TEXTS,
            "consumer groups: entries `<topic id>-<partition>@<member epoch of its assignment>`, including what it "
            "has yet to revoke (KIP-1251)",
            nullable=True,
            known_from="log",
        ),
        Column(
            "member_metadata",
            pa.binary(),
            "classic groups: the bytes of its subscription, as the member sent them",
            nullable=True,
        ),
        Column(
            "member_assignment",
            pa.binary(),
            "classic groups: the bytes of its assignment, as the leader sent them",
            nullable=True,
        ),
        Column(
            "static_instance_ids",
            TEXTS,
            "classic groups: the instance ids that the coordinator maps to the member; NULL where that is just its "
            "group_instance_id. They differ only if a group value names a member or an instance twice",
            nullable=True,
            known_from="log",
        ),
        LOG_PARTITION,
    ),
)
