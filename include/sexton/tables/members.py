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
        Column("member_id", pa.string(), "the member"),
        Column("group_instance_id", pa.string(), "static membership (KIP-345)", nullable=True),
        Column("client_id", pa.string(), "client.id", nullable=True),
        Column("client_host", pa.string(), "host that it connected from", nullable=True),
        Column("rack_id", pa.string(), "client.rack", nullable=True),
        Column("session_timeout_ms", pa.int32(), "session timeout", nullable=True, known_from="log"),
        Column("rebalance_timeout_ms", pa.int32(), "rebalance timeout", nullable=True, known_from="log"),
        Column("member_epoch", pa.int32(), "epoch; NULL for classic members", nullable=True),
        Column("subscribed_topics", TEXTS, "its subscription; NULL when unreadable", nullable=True),
        Column(
            "assignment",
            TEXTS,
            "`<topic, topic id or subtopology>-<partition>` each, as a broker describes it: from 4.3 on what a "
            "member of a consumer group has yet to give up, too; NULL when unreadable",
            nullable=True,
        ),
        Column(
            "assignment_epochs",
            TEXTS,
            "of consumer groups, `<topic id>-<partition>@<member epoch since which it has it>` each, also what it "
            "has yet to give up (KIP-1251)",
            nullable=True,
            known_from="log",
        ),
        Column(
            "member_metadata",
            pa.binary(),
            "of classic groups, the bytes of its subscription as the member sent them",
            nullable=True,
        ),
        Column(
            "member_assignment",
            pa.binary(),
            "of classic groups, the bytes of its assignment as the leader sent them",
            nullable=True,
        ),
        Column(
            "static_instance_ids",
            TEXTS,
            "of classic groups, the instances that the coordinator maps to the member; NULL where that is its "
            "group_instance_id: another only where a group value names a member or an instance twice",
            nullable=True,
            known_from="log",
        ),
        LOG_PARTITION,
    ),
)
