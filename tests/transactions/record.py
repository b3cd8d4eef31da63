"""Records what brokers of a release write about transactions, and what a coordinator answers about it.

    python -m tests.transactions.record RELEASE JARS OUT

JARS is a folder with the jars of Kafka's server of that release and of slf4j-simple, OUT the folder of all recordings.
What it writes there is told in tests/golden/README.md. A broker before 3.0 has no ListTransactions: one of the pinned
release loads the same bytes and is asked.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from kafka.protocol.admin import DescribeTransactionsRequest

from sexton.java import find_java
from sexton.kafka import jars as pinned
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.failures import TransientError, error_name
from sexton.kafka.session import ClusterSession
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.integration.sweep_instants import pack
from tests.transactions_broker import UNVERIFIED, Described, Planted, RawProducer, described, make_topic, plant
from tests.transactions_campaign import Campaign
from tests.zookeeper_broker import broker_class

FIRST_TO_ASK = (3, 0)
"""KIP-664."""
STATES, OFFSETS = "__transaction_state", "__consumer_offsets"
EXPIRED = ("expired-0", "expired-1", "expired-2")
UNKNOWN_ID = "TRANSACTIONAL_ID_NOT_FOUND"
LOG_PARTITIONS = 2
TRANSACTIONS = 40
EXPIRATION_S = 15
SETTLE_S = 3
"""So long until the markers of the last transactions are written."""
SETTINGS = {
    **UNVERIFIED,
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "transaction.state.log.num.partitions": str(LOG_PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
EXPIRING = {
    "transactional.id.expiration.ms": str(EXPIRATION_S * 1_000),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}


def record(release: str, jars: Sequence[Path], out: Path) -> None:
    """Write the recording of a release below `out`, which must not have one."""
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    number, folder = tuple(map(int, release.split("."))), out / release
    with tempfile.TemporaryDirectory(prefix="sexton-record-") as work:

        def broker(name: str, kind: type[EmbeddedBroker], its: Sequence[Path], **more: str) -> EmbeddedBroker:
            return kind(Path(work, name), port=free_port(), java=java, jars=its, settings={**SETTINGS, **more})

        with broker("own", broker_class(release), jars, **EXPIRING) as writer:
            planted = drive(_config(writer), writer.data, number)
        keep(writer.data, folder)
        own = broker("own", broker_class(release), jars)
        asked = own
        if number < FIRST_TO_ASK:
            asked = broker("asked", EmbeddedBroker, pinned.ensure(settings().cache, "kafka"))
            load(asked, folder)
        with asked:
            answers = ask(asked)
        with own:
            begun = begin(own, [*answers, *EXPIRED])
    _write(folder / "described.jsonl", [_row(name, answer) for name, answer in sorted(answers.items())])
    _write(folder / "begun.jsonl", begun)
    _write(
        folder / "planted.jsonl",
        [
            {"producer_id": producer_id, "verdict": verdict, "group_ids": sorted(planted.groups[producer_id])}
            for producer_id, verdict in planted.verdicts.items()
        ],
    )
    print(f"Kafka {release}: {len(answers)} ids, {len(planted.verdicts)} open transactions")


def drive(config: ClientConfig, data: Path, release: tuple[int, ...]) -> Planted:
    """Ids that expire, transactions at random, and one of each kind that is planted."""
    make_topic(config)
    planted = Planted()
    with ClusterSession(config) as session:
        for number, name in enumerate(EXPIRED):
            gone = RawProducer.begin(session, name)
            if number:
                gone.commit_offsets("free", {0: number})
                gone.end(committed=number == 1)
        time.sleep(EXPIRATION_S + SETTLE_S)
        for version in (1, 2) if release >= (4, 0) else (1,):
            plant(session, planted, name=f"ключ {version} 🔑 ", version=version)
    Campaign(config, data, release, seed=1).work("random", TRANSACTIONS)
    time.sleep(SETTLE_S)
    return planted


def keep(data: Path, folder: Path) -> None:
    """Copy both topics of a broker that is stopped."""
    for topic in (STATES, OFFSETS):
        for partition in range(LOG_PARTITIONS):
            kept = folder / f"{topic}-{partition}"
            kept.mkdir(parents=True)
            for path in (data / kept.name).glob("*.log"):
                shutil.copy(path, kept)


def load(broker: EmbeddedBroker, folder: Path) -> None:
    """Give a new broker, which is stopped afterwards, the states that were kept in `folder`."""
    with broker:
        make_topic(_config(broker))
    for kept in folder.glob(f"{STATES}-*"):
        pack(broker.data / kept.name, b"".join(path.read_bytes() for path in sorted(kept.iterdir())))
    for checkpoint in broker.data.glob("*-checkpoint"):
        checkpoint.unlink()


def ask(broker: EmbeddedBroker) -> Mapping[str, Described]:
    """What a broker describes once it has loaded all partitions: then it knows that it does not know an id."""
    with ClusterSession(_config(broker)) as session:
        request = DescribeTransactionsRequest(transactional_ids=[f"nobody's-{number}" for number in range(32)])

        def is_loaded() -> None:
            answer = session.call(request, node_id=session.broker_ids[0])
            if names := {error_name(one.error_code) for one in answer.transaction_states} - {UNKNOWN_ID}:
                raise TransientError(f"{names}")

        session.retrying(is_loaded)
        return described(session)


def begin(broker: EmbeddedBroker, names: Sequence[str]) -> list[dict[str, object]]:
    """Whom the release's own coordinator takes each id for: producer id and epoch that InitProducerId answers."""
    with ClusterSession(_config(broker)) as session:
        begun = [RawProducer.begin(session, name) for name in names]
    return [
        {"transactional_id": one.transactional_id, "producer_id": one.producer_id, "producer_epoch": one.epoch}
        for one in begun
    ]


def _config(broker: EmbeddedBroker) -> ClientConfig:
    return client_config({}, bootstrap_servers=broker.bootstrap_servers)


def _row(name: str, answer: Described) -> dict[str, object]:
    return {"transactional_id": name, **asdict(answer), "partitions": sorted(answer.partitions)}


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    release_, jars_, out_ = sys.argv[1:]
    record(release_, sorted(Path(jars_).glob("*.jar")), Path(out_))
