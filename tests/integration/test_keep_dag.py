"""The way from a hold to an offset that is kept, through Airflow as its users go it: a dry run, a question, another
person's answer, a run under the standing approval, a revocation."""

import json
from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.ledger.entries import Intent
from sexton.ledger.ledger import Ledger
from sexton_dev.airflow_api import NotFoundError
from tests.airflow_database import system_in
from tests.approvals import LOCAL
from tests.clients import make_topics
from tests.integration.test_apply_dag import NO_SWEEP, USERS, Run, wait_for

KEEP, APPROVE = "keep_offsets", "approve_keep"
VARIABLE = "/api/v2/variables/sexton_keep_approval"
HOSTILE = "{{ 7*7 }} <b>"
POLICY = """
version: 1
holds:
  - {name: kept, match: {prefix: kept-}, kind: legal, owner: o, reason: "HOSTILE", keep: true, restore: true}
""".replace("HOSTILE", HOSTILE)

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]


def test_from_a_hold_to_an_offset_that_is_kept(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], needs_airflow: None
) -> None:
    system = system_in(tmp_path, users=USERS)
    config, clients = system.config, client_config({}, bootstrap_servers=system.config.bootstrap_servers)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    applier = {"bootstrap.servers": config.bootstrap_servers, "client.id": "applier"}

    def commit() -> None:
        make_topics(clients, {"t": 1})
        with ClusterSession(clients) as session:
            assert set(commit_offsets(session, "kept-a", {("t", 0): (0, 0, "m")}).values()) == {None}

    try:
        system.start(
            broker_settings=NO_SWEEP,
            meanwhile=commit,
            SEXTON_SCHEDULE="",
            SEXTON_POLICY=str(policy),
            AIRFLOW_CONN_KAFKA_APPLIER=json.dumps({"conn_type": "kafka", "extra": applier}),
        )
        api = system.api()
        for dag_id in (KEEP, APPROVE):
            wait_for(lambda name=dag_id: api.has_dag(name), lambda: "no such DAG")
        assert api.call("GET", f"/api/v2/dags/{KEEP}")["is_paused"], "off until it is switched on"
        for dag_id in (KEEP, APPROVE):
            api.set_paused(dag_id, False)

        dry = Run(system, KEEP, {})
        assert dry.end() == "success", dry.log()
        assert "it would be: keep 1" in dry.log()
        assert list(Path(config.archive_uri).rglob("ledger")) == []

        approval = Run(system, APPROVE, {})
        question = approval.wait_until_it_asks()
        assert question["body"].startswith("Approving lets every run of `keep_offsets` carry out these holds")
        assert "‹U+007B›‹U+007B› 7*7" in question["body"]
        approval.answer("Approve", by="approver")
        assert approval.end() == "success", approval.log()
        approval_id = api.call("GET", VARIABLE)["value"]
        (file,) = Path(config.archive_uri).rglob(f"approvals/{approval_id}/approval.json")
        assert json.loads(file.read_bytes())["approved_by"] == "approver"

        kept = Run(system, KEEP, {})
        assert kept.end() == "success", kept.log()
        (folder,) = Path(config.archive_uri).glob("*/ledger/*")
        entries = Ledger(LOCAL, config.archive_uri, folder.parents[1].name, folder.name).entries()
        (intent,) = [entry.body for entry in entries if isinstance(entry.body, Intent)]
        assert (intent.action, intent.checks["approval_id"]) == ("keep", approval_id)
        assert entries[0].body.approved_by == "approver"

        end = Run(system, APPROVE, {"revoke": True})
        assert end.end() == "success", end.log()
        assert end.states() == {"propose": "success", "approve": "skipped", "record": "skipped"}
        with pytest.raises(NotFoundError):
            api.call("GET", VARIABLE)
        assert (file.parent / "revoked.json").is_file()
    finally:
        system.stop()
