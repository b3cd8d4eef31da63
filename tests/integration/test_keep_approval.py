"""`sexton keep` under a standing approval, on a broker that keeps offsets for a minute: its limits, its end, and the
offsets that a sweep took before it acted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton import cli
from sexton.as_text import now_ms
from sexton.execution.standing_approval import PACED
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.ledger.entries import Intent
from sexton.ledger.ledger import Ledger
from sexton.policy import parse_policy
from sexton.settings import settings
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S
from tests.approvals import LOCAL, give_approval
from tests.clients import admin_of, commit_when_ready, make_topics
from tests.integration.test_broker import commit
from tests.waiting import until

pytestmark = pytest.mark.full

KEY, VALUE = ("t", 0), (7, 0, "m\0м")
POLICY = """
version: 1
holds:
  - {name: kept, match: {prefix: kept-}, kind: operational, owner: o, reason: r, keep: true, restore: true}
"""
SETTINGS = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}


@pytest.fixture
def config(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ClientConfig]:
    with EmbeddedBroker(tmp_path / "kafka", port=free_port(), java=java, jars=kafka_jars, settings=SETTINGS) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {"t": 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for _ in range(10):
            producer.produce("t", b"x", partition=0)
        producer.flush(TIMEOUT_S)
        commit(config, group_id="first", count=1)
        yield config


@pytest.fixture
def sexton(
    config: ClientConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Any]]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    for name, value in {
        "HOME": str(tmp_path), "ARCHIVE": str(tmp_path / "archive"), "SETTLE_MS": "500",
        "BOOTSTRAP_SERVERS": config.bootstrap_servers, "POLICY": str(tmp_path / "policy.yaml"),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"SEXTON_{name}", value)
    settings.cache_clear()

    def run(*words: str, code: int = 0) -> Any:
        given = ["--bootstrap-servers", config.bootstrap_servers, "--json"]
        got = cli.main([*words, *(given[-1:] if "--revoke" in words else given)])
        out, err = capsys.readouterr()
        assert got == code, err + out
        return json.loads(out or err.strip().splitlines()[-1])

    yield run
    settings.cache_clear()


def test_what_one_approval_allows(config: ClientConfig, sexton: Callable[..., Any], tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with ClusterSession(config) as session:
        for group_id in ("kept-lost", "kept-deleted", "other"):
            commit_when_ready(session, group_id, {KEY: VALUE})
        cluster_id = sexton("snapshot")["cluster_id"]
        admin = admin_of(config)
        admin.delete_consumer_groups(["kept-deleted"])["kept-deleted"].result(TIMEOUT_S)
        until(lambda: not committed_offsets(session, "kept-lost"), within_s=300, every_s=0.5)
        commit_when_ready(session, "kept-here", {KEY: VALUE})
        before = committed_offsets(session, "kept-here")

        def approve(**terms: Any) -> str:
            sha256 = parse_policy(POLICY, where="p").sha256
            at_ms = now_ms()
            return give_approval(str(archive), cluster_id=cluster_id, policy_sha256=sha256, at_ms=at_ms, **terms)

        def keep(approval_id: str, **expected: int) -> Any:
            return sexton("keep", "--every", "1m", "--apply", "--approval", approval_id, **expected)

        one = keep(approve(max_offsets_per_hour=1))
        assert one["would"] == {"restore": 1, "keep": 1}
        assert {row["group_id"]: (row["outcome"], row["error"]) for row in one["offsets"]} == {
            "kept-here": ("done", None), "kept-lost": ("not_done", PACED)
        }  # fmt: skip
        assert [text for text in one["warnings"] if "not restored" in text] == [
            "1 offsets are gone and not restored: group_deleted, not swept"
        ]
        assert committed_offsets(session, "kept-lost") == {}

        approval_id = approve()
        both = keep(approval_id)
        assert both["counts"] == {"done": 2}
        assert committed_offsets(session, "kept-lost") == committed_offsets(session, "kept-here") == before
        assert committed_offsets(session, "kept-deleted") == committed_offsets(session, "other") == {}
        entries = Ledger(LOCAL, str(archive), cluster_id, both["restore_id"]).entries()
        intents = [entry.body for entry in entries if isinstance(entry.body, Intent)]
        assert sorted((body.action, body.checks["approval_id"]) for body in intents) == [
            ("keep", approval_id), ("restore", approval_id)
        ]  # fmt: skip

        sexton("keep", "--revoke", approval_id)
        assert "was revoked" in keep(approval_id, code=6)["error"]
