"""The table members: the members of groups at as_of."""

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, binary, int32, string, strings
from sexton.tables.table import Table

MEMBERS = Table(
    name="members",
    grain="a group member",
    key=("log_partition", "group_id", "member_id"),
    columns=(
        GROUP_ID,
        string("member_id", "the member id"),
        string("group_instance_id", "static membership (KIP-345)", nullable=True),
        string("client_id", "client.id", nullable=True),
        string("client_host", "host that it connected from", nullable=True),
        string("rack_id", "client.rack", nullable=True),
        int32("session_timeout_ms", "session timeout", nullable=True, known_from="log"),
        int32("rebalance_timeout_ms", "rebalance timeout", nullable=True, known_from="log"),
        int32("member_epoch", "member epoch; NULL for classic members", nullable=True),
        strings("subscribed_topics", "the topics that it subscribes to; NULL when unreadable", nullable=True),
        strings(
            "assignment",
            "entries `<topic, topic id or subtopology>-<partition>`, as a broker describes it: since 4.3 including "
            "what a member of a consumer group has yet to revoke; NULL when unreadable",
            nullable=True,
        ),
        strings(
            "assignment_epochs",
            "consumer groups: entries `<topic id>-<partition>@<member epoch of its assignment>`, including what it "
            "has yet to revoke (KIP-1251); streams groups: `<subtopology>-<partition>@...` of its active tasks",
            nullable=True,
            known_from="log",
        ),
        binary(
            "member_metadata", "classic groups: the bytes of its subscription, as the member sent them", nullable=True
        ),
        binary(
            "member_assignment", "classic groups: the bytes of its assignment, as the leader sent them", nullable=True
        ),
        strings(
            "static_instance_ids",
            "classic groups: the instance ids that the coordinator maps to the member; NULL where that is just its "
            "group_instance_id. They differ only if a group value names a member or an instance twice",
            nullable=True,
            known_from="log",
        ),
        LOG_PARTITION,
    ),
)
