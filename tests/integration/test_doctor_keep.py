"""`sexton doctor` on a broker with ACLs: each that `sexton keep` needs is missed by name, and what it asks changes
nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sexton import cli
from sexton.execution.compare_and_set import PREFIX
from sexton.java import JavaHome
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.workload import wait
from tests.clients import admin_of, commit_when_ready, make_topics
from tests.integration.secure_broker import APPLIER, SecureCluster, secure_cluster
from tests.waiting import until

pytestmark = pytest.mark.full

HELD, TOPIC = "kept-group", "orders"
POLICY = """
version: 1
holds:
  - {name: kept, match: {prefix: kept-}, kind: operational, owner: o, reason: r, keep: true}
"""
Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
NEEDED: dict[str, Right] = {
    f"READ on topic {OFFSETS_TOPIC}": (
        ResourceType.TOPIC, OFFSETS_TOPIC, ResourcePatternType.LITERAL, AclOperation.READ,
    ),
    f"WRITE on transactional id {PREFIX}*": (
        ResourceType.TRANSACTIONAL_ID, PREFIX, ResourcePatternType.PREFIXED, AclOperation.WRITE,
    ),
    f"READ on group {HELD}": (ResourceType.GROUP, "kept-", ResourcePatternType.PREFIXED, AclOperation.READ),
    f"READ on topic {TOPIC}": (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, AclOperation.READ),
}  # fmt: skip
SEEING: list[Right] = [
    (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
    (ResourceType.GROUP, "*", ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
    (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, AclOperation.DESCRIBE),
]


def acl(right: Right, kind: Any = AclBinding) -> Any:
    resource, name, pattern, operation = right
    return kind(resource, name, pattern, f"User:{APPLIER}", "*", operation, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("keeper"), java=java, jars=kafka_jars) as cluster:
        admin = make_topics(cluster.all_powerful, {TOPIC: 1})
        wait(admin.create_acls([acl(right) for right in [*SEEING, *NEEDED.values()]]))
        with ClusterSession(cluster.all_powerful) as session:
            for group_id in (HELD, "other"):
                commit_when_ready(session, group_id, {(TOPIC, 0): (1, -1, "")})
        yield cluster


def test_each_missing_acl_is_named(cluster: SecureCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, config = tmp_path / "policy.yaml", tmp_path / "keeper.properties"
    policy.write_text(POLICY)
    config.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties(APPLIER).items()))

    def keep() -> dict[str, str]:
        cli.main(["doctor", "--client-config", str(config), "--policy", str(policy), "--json"])
        (found,) = (one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "keep")
        return found

    until(lambda: keep()["state"] == "ok", within_s=60)
    assert keep()["found"] == "1 of 1 held group checked: every ACL that `sexton keep` needs is there"
    admin = admin_of(cluster.all_powerful)
    for line, right in NEEDED.items():
        (gone,) = wait(admin.delete_acls([acl(right, AclBindingFilter)]))
        assert len(gone) == 1
        until(lambda: keep()["state"] == "problem", within_s=60)
        assert keep()["found"] == f"1 of 1 held group checked: allow User:{APPLIER} {line}"
        wait(admin.create_acls([acl(right)]))
        until(lambda: keep()["state"] == "ok", within_s=60)
    with ClusterSession(cluster.all_powerful) as session:
        assert [one.committed_offset for one in committed_offsets(session, HELD).values()] == [1]


def test_without_a_hold_that_keeps_nothing_is_asked(
    cluster: SecureCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace(", keep: true", ""))
    cli.main(["doctor", "--bootstrap-servers", cluster.broker.bootstrap_servers, "--policy", str(policy), "--json"])
    assert "keep" not in [one["name"] for one in json.loads(capsys.readouterr().out)["checks"]]
