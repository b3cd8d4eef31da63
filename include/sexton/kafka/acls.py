"""The ACLs that calls need, so that a refusal can name the missing one. Follows KafkaApis of Kafka 4.3.

A broker's refusal never names the ACL that would allow the call.
"""

from collections.abc import Mapping
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
"""The operation that a call needs on each type of resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """A missing permission. `principal` is None where only the broker knows it (mTLS, OAUTHBEARER)."""

    operation: str
    resource: Resource
    name: str | None
    principal: str | None

    def __str__(self) -> str:
        on = "the cluster" if self.resource == "cluster" else f"{self.resource} {self.name or '*'}"
        return f"allow {self.principal or 'this principal'} {self.operation} on {on}"


def missing_acl(error_name: str, call: str, names: Mapping[str, str | None], *, principal: str | None) -> Acl | None:
    """The ACL that `principal` lacks when `call` (ListGroups, OffsetDelete, ...) on the named resources fails with
    `error_name`; None for errors other than missing access."""
    resource = RESOURCES.get(error_name)
    if resource is None:
        return None
    operation = OPERATIONS[call].get(resource, "DESCRIBE")
    return Acl(operation=operation, resource=resource, name=names.get(resource), principal=principal)
