"""What the log cannot tell: the cluster, its topics with ids and offsets, and the broker's `offsets.*` settings.

Also the few reads of group state that checks compare replayed state with: groups with type and state, and committed
offsets as OffsetFetch by name answers them, plain or stable only (KIP-447).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sexton.errors import BrokerError
from sexton.kafka.failures import error_name
from sexton.kafka.rights import sees_all_topics
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import EARLIEST, LATEST, READ_COMMITTED, Cluster, Topic, describe_cluster, list_offsets
from sexton.log.archive import FactsRecord
from sexton.log.facts import differences_text

OFFSETS_TOPIC = "__consumer_offsets"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DELETE_RETENTION, MAX_MESSAGE_BYTES = "delete.retention.ms", "max.message.bytes"
RETENTION_MINUTES = "offsets.retention.minutes"
OF_COORDINATORS = ("offset.metadata.max.bytes", "inter.broker.protocol.version")
"""Settings of a broker that decide what its coordinator takes and appends, besides those that begin with `offsets.`."""
OF_APPENDS = ("compression.type", "message.format.version")
"""Settings of the offsets topic that decide how a broker writes what its coordinator appends."""
UNTOLD_RETENTION = f"the offsets topic's {DELETE_RETENTION} is not known, Kafka's default is taken"
UNKNOWN_OFFSET = -1
UNKNOWN_ID = "unknown"
"""Topics have ids since Kafka 2.8."""
GROUP_COORDINATOR = 0
OFFSET_FETCH_BY_NAME = 9
"""The last version that names topics; the answer to it is what clients call the committed offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Where one log partition begins and ends, and who leads it."""

    log_partition: int
    leader: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSettings:
    """Settings as a cluster tells them; `brokers_differ` as a FactsRecord has it."""

    broker: dict[str, str]
    topic: dict[str, str]
    brokers_differ: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups answers it: types in small letters (classic, consumer, share, streams), states not."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset as OffsetFetch answers it: -1 where the wire has -1, "" where metadata is empty."""

    committed_offset: int
    leader_epoch: int
    metadata: str
    error_code: int = 0


def collect_facts(session: ClusterSession, *, offsets_topic: Topic, taken_at_ms: int) -> tuple[FactsRecord, list[str]]:
    """Everything a run needs to know about the cluster besides its log, and what could not be learned."""
    cluster = describe_cluster(session)
    told, warnings = told_settings(session, offsets_topic.name)
    sees_all = sees_all_topics(session)
    if not sees_all:
        acl = session.missing_acl("TOPIC_AUTHORIZATION_FAILED", "Metadata")
        warnings.append(f"not every topic can be seen, so none is taken for gone: {acl}")
    elif not cluster.is_whole:
        warnings.append("some topics are being made or deleted, or have no leader: none is taken for gone")
    record = FactsRecord(
        taken_at_ms=taken_at_ms,
        cluster_id=cluster.cluster_id,
        broker_version=session.broker_version,
        settings=told.broker,
        offsets_topic={"topic_id": offsets_topic.topic_id or UNKNOWN_ID, "partitions": len(offsets_topic.leaders)},
        topics=_topic_rows(session, cluster),
        delete_retention_ms=_number(told.topic.get(DELETE_RETENTION)),
        max_message_bytes=_number(told.topic.get(MAX_MESSAGE_BYTES)),
        sees_all_topics=sees_all and cluster.is_whole,
        topic_settings={name: told.topic[name] for name in OF_APPENDS if name in told.topic},
        brokers_differ=told.brokers_differ,
    )
    return record, warnings


def told_settings(session: ClusterSession, topic: str) -> tuple[ToldSettings, list[str]]:
    """What decides how offsets are kept and written: of the broker with the lowest id, and of the offsets topic.

    Every broker is asked, as each decides for the log partitions that it leads. What is not told is left out, with a
    warning that names the ACL.
    """
    first, *others = session.broker_ids
    results = {one.resource_type: one for one in _described(session, first, topic)}
    of_topic, of_broker = results[TOPIC_RESOURCE], results[BROKER_RESOURCE]
    warnings = [
        f"{what}: {_why_not_told(session, result.error_code, topic)}"
        for what, result in (("the broker's settings are not known", of_broker), (UNTOLD_RETENTION, of_topic))
        if result.error_code
    ]
    brokers = {first: _of_coordinator(of_broker)}
    for broker in () if of_broker.error_code else others:
        settings, why = _of_another(session, broker, topic)
        if why is None:
            brokers[broker] = settings
        else:
            warnings.append(f"the settings of broker {broker} are not known, those of broker {first} are taken: {why}")
    told = ToldSettings(broker=brokers[first], topic=_texts(of_topic), brokers_differ=differences(brokers))
    return told, [*warnings, *differences_text(told.brokers_differ)]


def _of_another(session: ClusterSession, broker: int, topic: str) -> tuple[dict[str, str], str | None]:
    """The settings of one broker of several, or why they are not known: one that fails ends no snapshot."""
    try:
        (answer,) = _described(session, broker)
    except BrokerError as error:
        return {}, error.message
    return _of_coordinator(answer), _why_not_told(session, answer.error_code, topic) if answer.error_code else None


def differences(brokers: Mapping[int, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The settings that brokers have otherwise, each with its value by broker id; "" where one does not tell it."""
    names = sorted({name for settings in brokers.values() for name in settings})
    values = {
        name: {str(broker): settings.get(name, "") for broker, settings in sorted(brokers.items())} for name in names
    }
    return {name: told for name, told in values.items() if len(set(told.values())) > 1}


def _described(session: ClusterSession, broker: int, topic: str | None = None) -> list[Any]:
    """The settings of one broker, which it alone knows, and those of a topic."""
    Resource = DescribeConfigsRequest.DescribeConfigsResource  # noqa: N806 (a class)
    resources = [Resource(resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=None)]
    if topic is not None:
        keys = [DELETE_RETENTION, MAX_MESSAGE_BYTES, *OF_APPENDS]
        resources.append(Resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=keys))
    request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
    return list(session.call(request, node_id=broker).results)


def _of_coordinator(result: Any) -> dict[str, str]:
    told = _texts(result)
    return {name: told[name] for name in sorted(told) if name.startswith("offsets.") or name in OF_COORDINATORS}


def _texts(result: Any) -> dict[str, str]:
    return {item.name: item.value for item in result.configs or [] if item.value}


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _why_not_told(session: ClusterSession, error_code: int, topic: str) -> str:
    name = error_name(error_code)
    acl = session.missing_acl(name, "DescribeConfigs", topic=topic)
    return f"{name} ({acl})" if acl else name


def log_ends(session: ClusterSession, topic: Topic) -> list[LogEnds]:
    """Begin and end of every partition that has a leader, in order."""
    starts = list_offsets(session, [topic], timestamp=EARLIEST)
    ends = list_offsets(session, [topic], timestamp=LATEST)
    stable = list_offsets(session, [topic], timestamp=LATEST, isolation=READ_COMMITTED)
    return [
        LogEnds(
            log_partition=partition,
            leader=leader.node_id,
            leader_epoch=leader.epoch,
            log_start_offset=starts[topic.name, partition],
            high_watermark=ends[topic.name, partition],
            last_stable_offset=stable[topic.name, partition],
        )
        for partition, leader in topic.leaders.items()
        if (topic.name, partition) in starts and (topic.name, partition) in ends and (topic.name, partition) in stable
    ]


def list_groups(session: ClusterSession) -> list[ListedGroup]:
    """Every group of the cluster that this principal may see, by group id; `rights.sees_all_groups` tells whether that
    is every group there is."""

    def ask() -> list[ListedGroup]:
        found = [group for broker in session.broker_ids for group in groups_at(session, broker)]
        return sorted(found, key=lambda group: group.group_id)

    return session.retrying(ask)


def groups_at(session: ClusterSession, node_id: int) -> list[ListedGroup]:
    """The groups that one broker coordinates and this principal may see."""
    answer = session.call(ListGroupsRequest(states_filter=[], types_filter=[]), node_id=node_id)
    session.check(answer.error_code, "ListGroups")
    return [
        ListedGroup(
            group_id=group.group_id,
            group_type=group.group_type,
            state=group.group_state,
            protocol_type=group.protocol_type,
        )
        for group in answer.groups
    ]


def committed_offsets(
    session: ClusterSession,
    group_id: str,
    *,
    require_stable: bool = False,
    only: Mapping[str, Collection[int]] | None = None,
) -> dict[tuple[str, int], CommittedOffset]:
    """Committed offsets of a group as OffsetFetch by name answers; with `require_stable` an offset that an open
    transaction may still change has error code 88 (UNSTABLE_OFFSET_COMMIT) and no value.

    Without `only` they are all, but for those of topics that this principal may not describe, which the broker leaves
    out without a word. With `only`, partitions by topic, each of these is answered: a committed_offset of -1 where none
    is committed, error code 29 (TOPIC_AUTHORIZATION_FAILED) where it may not be told. Raises NotAllowed for the group.
    """
    Asked = OffsetFetchRequest.OffsetFetchRequestGroup  # noqa: N806 (a class)
    topics = (
        None
        if only is None
        else [
            Asked.OffsetFetchRequestTopics(name=topic, partition_indexes=sorted(some))
            for topic, some in sorted(only.items())
        ]
    )
    wanted = Asked(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(groups=[wanted], require_stable=require_stable, max_version=OFFSET_FETCH_BY_NAME)

    def ask() -> dict[tuple[str, int], CommittedOffset]:
        (group,) = session.call(request, node_id=find_coordinator(session, group_id)).groups
        session.check(group.error_code, "OffsetFetch", group_id=group_id)
        return {
            (topic.name, partition.partition_index): CommittedOffset(
                committed_offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata or "",
                error_code=partition.error_code,
            )
            for topic in group.topics
            for partition in topic.partitions
        }

    return session.retrying(ask)


def find_coordinator(session: ClusterSession, group_id: str) -> int:
    """The broker that coordinates a group; TransientError while the coordinator is not there yet."""
    request = FindCoordinatorRequest(key_type=GROUP_COORDINATOR, coordinator_keys=[group_id])
    (found,) = session.call(request).coordinators
    session.check(found.error_code, "FindCoordinator", group_id=group_id)
    node_id: int = found.node_id
    return node_id


def _topic_rows(session: ClusterSession, cluster: Cluster) -> list[dict[str, Any]]:
    """One row a topic, by name: {"topic", "id", "partitions": [[log start, log end], ...]}; -1 is an unknown offset."""
    topics = [cluster.topics[name] for name in sorted(cluster.topics)]
    starts = list_offsets(session, topics, timestamp=EARLIEST)
    ends = list_offsets(session, topics, timestamp=LATEST)
    return [
        {
            "topic": topic.name,
            "id": topic.topic_id,
            "partitions": [
                [starts.get((topic.name, partition), UNKNOWN_OFFSET), ends.get((topic.name, partition), UNKNOWN_OFFSET)]
                for partition in topic.leaders
            ],
        }
        for topic in topics
    ]
