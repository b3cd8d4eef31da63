"""Checks what this principal may see: brokers leave out hidden names, and answer as if the cluster were smaller.

Metadata of all topics and ListGroups are filtered silently (KafkaApis: partitionSeqByAuthorized,
handleListGroupsRequest). So this requests a name that does not exist: a principal that may see every name is answered
that it does not exist, any other principal that access is not allowed.

Limits of this check: ACLs that deny single names are not noticed, nor are topics with their own ACLs on a cluster
that allows everything where there is no ACL (allow.everyone.if.no.acl.found). `topic_states` asks about each name.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Literal, TypeAlias
from uuid import uuid4

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest

from sexton.kafka.acls import Acl
from sexton.kafka.failures import NotAllowed, error_name
from sexton.kafka.group_state import committed_offsets, find_coordinator
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_cluster
from sexton.topics import OFFSETS_TOPIC

TopicState: TypeAlias = Literal["there", "gone", "hidden"]

TOPICS_A_REQUEST = 1_000
NOT_SEEN = "TOPIC_AUTHORIZATION_FAILED"
_READ = 3  # as AclOperation numbers it


def sees_all_topics(session: ClusterSession) -> bool:
    """Whether a topic that is not listed does not exist, instead of being hidden from this principal."""
    name = _nobodys_name()
    return topic_states(session, [name])[name] != "hidden"


def sees_all_groups(session: ClusterSession) -> bool:
    """Whether ListGroups shows every group to this principal: it needs DESCRIBE on the cluster, or on every group."""
    return session.retrying(lambda: _may_describe_the_cluster(session)) or sees_every_group_by_name(session)


def sees_every_group_by_name(session: ClusterSession) -> bool:
    """Whether this principal may describe every group: only then does a group that is not found not exist."""
    request = DescribeGroupsRequest(groups=[_nobodys_name()], include_authorized_operations=False)
    (group,) = session.retrying(lambda: session.call(request)).groups
    return not group.error_code or error_name(group.error_code) != "GROUP_AUTHORIZATION_FAILED"


def hidden(session: ClusterSession) -> list[str]:
    """Resources hidden from this principal, one line each with the ACL that would show them; empty when it sees
    everything."""
    lines = []
    if not sees_all_topics(session):
        acl = session.missing_acl(NOT_SEEN, "Metadata")
        lines.append(f"not every topic can be seen, and one that is not seen may exist: {acl}")
    if not sees_all_groups(session):
        acl = session.missing_acl("GROUP_AUTHORIZATION_FAILED", "ListGroups")
        lines.append(f"not every group can be seen, and one that is not listed may exist: {acl}")
    return lines


def may_read(session: ClusterSession, topic: str) -> bool:
    """Whether this principal may read a topic; True where brokers do not say (before Kafka 2.3, KIP-430)."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (found,) = session.retrying(lambda: session.call(request)).topics
    operations = getattr(found, "authorized_operations", None)  # a set of numbers; None where the answer lacks it
    return not operations or _READ in operations


def missing_to_keep(session: ClusterSession, group_ids: Iterable[str], *, prefix: str) -> list[Acl]:
    """The ACLs that this principal lacks to keep offsets of these groups alive (docs/keep.md); empty if it lacks none.

    `prefix` is the prefix of the transactional ids. No request changes anything: EndTxn for a transactional id that
    does not exist only checks the right to send it.
    """
    acl = partial(Acl, principal=session.config.principal)
    missing = [] if may_read(session, OFFSETS_TOPIC) else [acl(operation="READ", resource="topic", name=OFFSETS_TOPIC)]
    request = EndTxnRequest(
        transactional_id=f"{prefix}{uuid4().hex}", producer_id=0, producer_epoch=0, committed=False, max_version=3
    )
    answer = session.retrying(lambda: session.call(request))
    if answer.error_code and error_name(answer.error_code) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
        missing.append(acl(operation="WRITE", resource="transactional id", name=f"{prefix}*"))
    topics: set[str] = set()
    for group_id in group_ids:
        try:
            topics |= {topic for topic, _ in committed_offsets(session, group_id)}
            allowed = _READ in session.retrying(partial(_group_operations, session, group_id))
        except NotAllowed:
            allowed = False
        if not allowed:
            missing.append(acl(operation="READ", resource="group", name=group_id))
    missing += [
        acl(operation="READ", resource="topic", name=topic) for topic in sorted(topics) if not may_read(session, topic)
    ]
    return missing


def _group_operations(session: ClusterSession, group_id: str) -> Collection[int]:
    """The operations that this principal may carry out on a group, as numbers of AclOperation (KIP-430)."""
    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=True, max_version=5)
    (group,) = session.call(request, node_id=find_coordinator(session, group_id)).groups
    session.check(group.error_code, "DescribeGroups", group_id=group_id)
    return group.authorized_operations or ()


def seen_topics(session: ClusterSession) -> frozenset[str] | None:
    """The topics that this principal may see; None when it sees every topic."""
    if sees_all_topics(session):
        return None
    return frozenset(session.retrying(lambda: describe_cluster(session)).topics)


def topic_states(session: ClusterSession, names: Iterable[str]) -> dict[str, TopicState]:
    """Whether each topic is there, gone, or hidden from this principal."""
    wanted = sorted(set(names))
    states: dict[str, TopicState] = {}
    for at in range(0, len(wanted), TOPICS_A_REQUEST):
        some = [MetadataRequest.MetadataRequestTopic(name=name) for name in wanted[at : at + TOPICS_A_REQUEST]]
        request = MetadataRequest(topics=some, allow_auto_topic_creation=False)
        states |= session.retrying(partial(_states, session, request))
    return {name: states[name] for name in wanted}


def _may_describe_the_cluster(session: ClusterSession) -> bool:
    """Whether DESCRIBE is among the operations that a broker lists as allowed, since Kafka 2.3 (KIP-430)."""
    (answer,) = session.ask_admin(
        lambda admin: {"cluster": admin.describe_cluster(include_authorized_operations=True)}
    ).values()
    if isinstance(answer, KafkaError):
        session.check(answer.code(), "Metadata")
    return AclOperation.DESCRIBE in (answer.authorized_operations or ())


def _states(session: ClusterSession, request: MetadataRequest) -> dict[str, TopicState]:
    states: dict[str, TopicState] = {}
    for topic in session.call(request).topics:
        name = error_name(topic.error_code) if topic.error_code else None
        if name == NOT_SEEN:
            states[topic.name] = "hidden"
        elif name in ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"):
            states[topic.name] = "gone"
        elif name in (None, "LEADER_NOT_AVAILABLE"):
            states[topic.name] = "there"
        else:
            session.check(topic.error_code, "Metadata", topic=topic.name)
    return states


def _nobodys_name() -> str:
    return f"sexton-probe-{uuid4().hex}"
