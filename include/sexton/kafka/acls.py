"""Which ACL a call needs, so that a refusal can name the one that is missing. Follows KafkaApis of Kafka 4.3.

A broker answers that something is not allowed, never what would allow it.
"""

from dataclasses import dataclass
from typing import Literal

Resource = Literal["cluster", "group", "topic", "transactional id"]

_GROUP, _TOPIC, _CLUSTER = "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"
_TRANSACTIONAL_ID = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
RESOURCES: dict[str, Resource] = {
    _GROUP: "group", _TOPIC: "topic", _CLUSTER: "cluster", _TRANSACTIONAL_ID: "transactional id",
}  # fmt: skip

OPERATIONS: dict[str, dict[Resource, str]] = {
    "Metadata": {"topic": "DESCRIBE"},
    "ListOffsets": {"topic": "DESCRIBE"},
    "OffsetForLeaderEpoch": {"topic": "DESCRIBE", "cluster": "CLUSTER_ACTION"},
    "Fetch": {"topic": "READ"},
    "DescribeProducers": {"topic": "READ"},
    "DescribeConfigs": {"topic": "DESCRIBE_CONFIGS", "cluster": "DESCRIBE_CONFIGS"},
    "FindCoordinator": {"group": "DESCRIBE", "transactional id": "WRITE"},
    "ListGroups": {"group": "DESCRIBE"},
    "DescribeGroups": {"group": "DESCRIBE"},
    "OffsetFetch": {"group": "DESCRIBE", "topic": "DESCRIBE"},
    "OffsetCommit": {"group": "READ", "topic": "READ"},
    "OffsetDelete": {"group": "DELETE", "topic": "READ"},
    "DeleteGroups": {"group": "DELETE"},
    "Produce": {"topic": "WRITE"},
    "InitProducerId": {"transactional id": "WRITE"},
    "AddOffsetsToTxn": {"transactional id": "WRITE", "group": "READ"},
    "TxnOffsetCommit": {"transactional id": "WRITE", "group": "READ", "topic": "READ"},
    "EndTxn": {"transactional id": "WRITE"},
}
"""The operation that a call needs on each kind of resource it touches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """What would have to be allowed. `principal` is None where only the broker knows it (mTLS, OAUTHBEARER)."""

    operation: str
    resource: Resource
    name: str | None
    principal: str | None

    def __str__(self) -> str:
        on = "the cluster" if self.resource == "cluster" else f"{self.resource} {self.name or '*'}"
        return f"allow {self.principal or 'this principal'} {self.operation} on {on}"


def missing_acl(
    error_name: str,
    call: str,
    *,
    principal: str | None,
    topic: str | None = None,
    group_id: str | None = None,
    transactional_id: str | None = None,
) -> Acl | None:
    """The ACL that `principal` lacks when `call` (ListGroups, OffsetDelete, ...) is answered `error_name`; None when
    that is no refusal of access."""
    resource = RESOURCES.get(error_name)
    if resource is None:
        return None
    operation = OPERATIONS[call].get(resource, "DESCRIBE")
    name = {
        "group": group_id, "topic": topic, "cluster": None, "transactional id": transactional_id,
    }[resource]  # fmt: skip
    return Acl(operation=operation, resource=resource, name=name, principal=principal)
