"""`sexton transactions` on a real broker: every id as its coordinator describes it, every planted transaction with its
verdict, live, from the disk and from the archive; and the printed commands, run."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import main
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.transactions.reading import on_disk
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.transactions_broker import UNVERIFIED, Planted, described, make_topic, plant, replayed, run_printed


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    """One that does not verify partitions, as none did before 3.6."""
    folder = tmp_path_factory.mktemp("unverified")
    with EmbeddedBroker(folder, port=free_port(), java=java, jars=kafka_jars, settings=UNVERIFIED) as broker:
        make_topic(client_config({}, bootstrap_servers=broker.bootstrap_servers))
        yield broker


@pytest.fixture(scope="module")
def session(broker: EmbeddedBroker) -> Iterator[ClusterSession]:
    with ClusterSession(client_config({}, bootstrap_servers=broker.bootstrap_servers)) as session:
        yield session


@pytest.fixture(scope="module")
def planted(session: ClusterSession) -> Planted:
    """By clients of both protocols."""
    planted = Planted()
    for version in (1, 2):
        plant(session, planted, name=f"v{version}-", version=version)
    return planted


def ask(capsys: pytest.CaptureFixture[str], *options: object) -> tuple[int, dict[str, Any]]:
    code = main(["transactions", *map(str, options), "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, answer


def verdicts(answer: dict[str, Any]) -> dict[int, str]:
    return {row["producer_id"]: row["verdict"] for row in answer["transactions"]}


def test_every_id_is_as_its_coordinator_describes_it(
    broker: EmbeddedBroker, session: ClusterSession, planted: Planted
) -> None:
    assert planted.producers
    log = on_disk([str(broker.data)], taken_at_ms=0, as_of_ms=None, release=(4, 3, 1))
    assert log is not None
    states = log.load(lambda work, items: map(work, items))
    assert replayed(states.ids) == described(session)
    assert len(list(states.ids)) == 12
    assert states.is_whole


def test_every_transaction_has_its_verdict_live_and_the_printed_commands_end_what_hangs(
    broker: EmbeddedBroker,
    planted: Planted,
    java: JavaHome,
    kafka_jars: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = tmp_path / "archive"
    live = "--bootstrap-servers", broker.bootstrap_servers
    assert main(["snapshot", "--transactions", *live, "--archive", str(archive)]) == 0
    capsys.readouterr()
    code, now = ask(capsys, *live)
    assert (code, verdicts(now)) == (3, planted.verdicts)
    assert {row["producer_id"]: set(row["group_ids"]) for row in now["transactions"]} == planted.groups
    assert all(row["is_confirmed"] and row["held_bytes"] > 0 for row in now["transactions"])
    assert now["forecasts"][0]["expiration_ms"] == 3_600_000  # the broker's own

    # Without asking the brokers what is young may only seem to hang; once a minute has passed, it hangs.
    code, young = ask(capsys, "--archive", archive)
    assert set(verdicts(young).values()) == {"running", "unknown"}
    assert (code, {row["reason"] for row in young["transactions"]}) == (0, {"ongoing", "recent"})
    _, confirmed = ask(capsys, "--archive", archive, *live)
    assert verdicts(confirmed) == planted.verdicts
    later = int(time.time() * 1000) + 120_000
    code, old = ask(capsys, "--segments", broker.data, "--taken-at", later)
    assert (code, verdicts(old)) == (3, planted.verdicts)

    # A group's own story names them, too, with what it needs no broker for.
    assert main(["explain", "v1-held-by-running", "--segments", str(broker.data), "--json"]) == 0
    (holder,) = json.loads(capsys.readouterr().out)["transactions"]
    assert (holder["verdict"], holder["transactional_id"]) == ("running", "v1-running")
    assert [(one["partition"], one["committed_offset"]) for one in holder["offsets"]] == [(0, 1), (1, 2)]

    commands = [row["abort_command"] for row in now["transactions"] if row["abort_command"]]
    assert len(commands) == sum(verdict == "hanging" for verdict in planted.verdicts.values()) == 6
    run_printed(commands[0], java=java, jars=kafka_jars)
    ended = next(row["producer_id"] for row in now["transactions"] if row["abort_command"] == commands[0])
    code, after = ask(capsys, *live)
    assert (code, verdicts(after)) == (3, {key: one for key, one in planted.verdicts.items() if key != ended})
