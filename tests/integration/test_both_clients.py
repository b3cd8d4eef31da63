"""Where two clients could ask: that their answers agree, or what an AdminClient would lose.

A test of the second kind that fails says that its reason is gone: the request may move (sexton.kafka).
"""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from sexton.kafka.admin import commit_offsets
from sexton.kafka.broker_settings import BROKER, TOPIC, described
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.rights import topic_states
from sexton.kafka.session import ClusterSession
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.workload import Workload

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def admin(config: ClientConfig, workload: Workload) -> AdminClient:
    return AdminClient({**config.for_confluent(), "log_level": 0})


# --- asked with an AdminClient ---


def test_settings(session: ClusterSession, workload: Workload) -> None:
    broker = str(session.broker_ids[0])
    resources = [(BROKER, broker), (TOPIC, OFFSETS_TOPIC)]
    Resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [Resource(resource_type=kind.value, resource_name=name) for kind, name in resources]
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
    by_protocol = session.call(request, node_id=int(broker)).results
    assert [one.settings for one in described(session, *resources)] == [
        {item.name: item.value for item in result.configs if item.value} for result in by_protocol
    ]


def test_what_may_be_done_with_the_cluster(session: ClusterSession, admin: AdminClient) -> None:
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True, min_version=8, max_version=10)
    allowed = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S).authorized_operations
    assert {operation.value for operation in allowed} == set(session.call(request).authorized_operations)


# --- asked in Kafka's protocol ---


def test_names_end_at_a_nul(session: ClusterSession, admin: AdminClient) -> None:
    """So groups are taken for one another, and a topic that is gone for another that is there."""
    given = {"nul": (1, None, "a\0b"), "nul\0led": (2, None, "")}
    for group, value in given.items():
        assert commit_offsets(session, group, {("orders", 0): value}) == {("orders", 0): None}
        assert committed_offsets(session, group)["orders", 0].as_committed == value
    assert {group.group_id for group in list_groups(session).groups} >= given.keys()
    listed = admin.list_consumer_groups().result(TIMEOUT_S).valid
    assert [one.group_id for one in listed if one.group_id.startswith("nul")] == ["nul", "nul"]
    for group in given:
        (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        (found,) = answer.result(TIMEOUT_S).topic_partitions
        assert (found.offset, found.metadata) == (1, "a")
    assert topic_states(session, ["orders\0"]) == {"orders\0": "gone"}
    (described_topic,) = admin.describe_topics(TopicCollection(["orders\0"])).values()
    assert described_topic.result(TIMEOUT_S).name == "orders"


def test_some_groups_are_not_listed(session: ClusterSession, admin: AdminClient, workload: Workload) -> None:
    listed = {one.group_id for one in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    others = {group.group_id for group in list_groups(session).groups if group.protocol_type not in ("", "consumer")}
    assert others >= set(workload.groups["share"])
    assert not others & listed


def test_leader_epochs_are_missing(admin: AdminClient) -> None:
    (answer,) = admin.describe_topics(TopicCollection([OFFSETS_TOPIC])).values()
    assert not [name for name in vars(answer.result(TIMEOUT_S).partitions[0]) if "epoch" in name]
    listed = admin.list_topics(OFFSETS_TOPIC, timeout=TIMEOUT_S).topics[OFFSETS_TOPIC].partitions[0]
    assert not [name for name in vars(listed) if "epoch" in name]
