"""The way from a hold to offsets that are kept, through Airflow by clicks alone, as docs/how-to/keep.md has it: a dry
run, a question, another person's answer, a run under the standing approval, the dashboard, a revocation."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest
from confluent_kafka import Producer, TopicPartition

from sexton.as_text import DAY_MS, MINUTE_MS
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.ledger.entries import Intent
from sexton.ledger.ledger import Ledger
from sexton.local.compose_init import APPROVER
from sexton_dev.airflow_api import NotFoundError
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.workload import commit_offsets
from tests import airflow_calls
from tests.aged import age
from tests.airflow_database import system_in
from tests.approvals import LOCAL
from tests.clients import make_topics
from tests.integration.test_apply_dag import wait_for
from tests.integration.test_walks import task_log
from tests.ui.walks import PAGES, walk

KEEP, APPROVE = "keep_offsets", "approve_keep"
VARIABLE = "/api/v2/variables/sexton_keep_approval"
AGE_MS = 7 * DAY_MS - 90 * MINUTE_MS
"""What is left of the broker's retention falls due before the second run from now, and not while the test runs."""
HELD, PARTITIONS, MESSAGES = "billing-year-end", 3, 60
DASHBOARD_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
HOSTILE = """\
  - {name: hostile, match: {prefix: hostile-}, kind: legal, owner: o, reason: "{{ 7*7 }} <b>", keep: true}
"""
"""A reason that an approver reads, and that nothing may take for a template."""

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]


def commit(clients: ClientConfig) -> None:
    """Offsets of a group under the hold of the page, and of one that nobody holds."""
    admin = make_topics(clients, {"orders": PARTITIONS})
    producer = Producer({**clients.for_confluent(), "log_level": 0})
    for number in range(PARTITIONS * MESSAGES):
        producer.produce("orders", b"an order", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    for group in (HELD, "web-shop"):
        commit_offsets(admin, group, [TopicPartition("orders", part, 10 + part) for part in range(PARTITIONS)])


def policy_of_page() -> str:
    (text,) = re.findall(r"```yaml\n(.+?)\n *```", (PAGES / "keep.md").read_text("utf-8"), re.DOTALL)
    return dedent(text)


def test_from_a_hold_to_offsets_that_are_kept(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], needs_airflow: None, needs_browser: None
) -> None:
    system = system_in(tmp_path)
    config, clients = system.config, client_config({}, bootstrap_servers=system.config.bootstrap_servers)
    policy, pictures = tmp_path / "policy.yaml", tmp_path / "pictures"
    policy.write_text(f"{policy_of_page()}\n{HOSTILE}", "utf-8")
    pictures.mkdir()
    broker = EmbeddedBroker(system.broker_directory, port=system.broker_port, java=java, jars=kafka_jars)
    try:
        with broker:
            commit(clients)
        age(broker.data, AGE_MS)
        system.start(
            SEXTON_ENGINE="auto",
            SEXTON_SCHEDULE="",
            SEXTON_SETTLE_MS="500",
            SEXTON_POLICY=str(policy),
        )
        api = system.api()
        for dag_id in (KEEP, APPROVE):
            wait_for(lambda name=dag_id: api.has_dag(name), lambda: "no such DAG")
        assert api.call("GET", f"/api/v2/dags/{KEEP}")["is_paused"], "off until it is switched on"

        told = walk(system, pictures, "keep")
        assert {state for _, state in told["runs"].values()} == {"success"}, told["runs"]
        assert f"it would do: keep {PARTITIONS}" in task_log(system, KEEP, told["dry"])
        question = airflow_calls.question(api, APPROVE, told["approval"], "approve")
        assert question["body"].startswith("Approving lets every run of `keep_offsets` carry out these holds")
        assert "‹U+007B›‹U+007B› 7*7" in question["body"]

        (file,) = Path(config.archive_uri).rglob("approvals/*/approval.json")
        approval_id = file.parent.name
        assert json.loads(file.read_bytes())["approved_by"] == APPROVER
        (folder,) = Path(config.archive_uri).glob("*/ledger/*")
        entries = Ledger(LOCAL, config.archive_uri, folder.parents[1].name, folder.name).entries()
        assert entries[0].body.approved_by == APPROVER
        intents = [entry.body for entry in entries if isinstance(entry.body, Intent)]
        assert {(intent.action, intent.checks["approval_id"]) for intent in intents} == {("keep", approval_id)}
        assert {item.group_id for intent in intents for item in intent.items} == {HELD}
        assert told["holds"][:6] == ["year-end", "kept", "1", str(PARTITIONS), str(PARTITIONS), "0"]
        assert all(DASHBOARD_TIME.fullmatch(instant) for instant in told["holds"][7:]), told["holds"]

        states = {name: task["state"] for name, task in api.task_states(APPROVE, told["end"]).items()}
        assert states == {"propose": "success", "approve": "skipped", "record": "skipped"}
        with pytest.raises(NotFoundError):
            api.call("GET", VARIABLE)
        assert (file.parent / "revoked.json").is_file()
    finally:
        system.stop()
