"""The two principals on a broker with ACLs: what docs/security.md grants is enough, no more, and each part is missed.

The ACLs are read from the commands of that page.
"""

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.cli import main
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import BrokerError, UsageError
from sexton.execution.compare_and_set import PREFIX
from sexton.java import JavaHome
from sexton.kafka import offset_transactions
from sexton.kafka.admin import GroupError, commit_offsets, delete_group, delete_offsets, group_now
from sexton.kafka.append import append_tombstones
from sexton.kafka.broker_limits import controller_time_ms, max_message_bytes, retention_minutes
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.collect_metadata import collect_metadata
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.rights import hidden, sees_all_groups, sees_all_topics, topic_states
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.kafka.topics import describe_topic
from sexton.pipeline import archive_transactions
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.processes import SerialEngine
from sexton.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from sexton_dev.broker import run_tool
from sexton_dev.workload import wait
from tests import waiting
from tests.clients import admin_of, make_topics
from tests.integration.secure_broker import APPLIER, LOGINS, NOBODY, PASSWORDS, READER, SecureCluster, secure_cluster
from tests.integration.stages import snapshot
from tests.integration.test_admin import wait_for_coordinators
from tests.record_fields import encode_key
from tests.transactions_broker import RawProducer, make_topic

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
OWN, OTHER = "team-a-group", "team-b-group"
WRITER = f"{PREFIX}test"
OWN_TOPIC, OTHER_TOPIC = "team-a-orders", "team-b-orders"
PARTITIONS = 4
SETTLE_S = 30
TIMEOUT_S = 60
DENIED = "GROUP_AUTHORIZATION_FAILED"
TOPIC_DENIED = "TOPIC_AUTHORIZATION_FAILED"
UNAUTHORIZED_TOPIC = 29
UNSEEN = "test-unseen"
CLUSTER_NAME = "kafka-cluster"
HELD = "held-by-a-transaction"

T = TypeVar("T")


@dataclass(frozen=True)
class Granted:
    """One ACL of the page. `name` is None for the cluster."""

    principal: str
    operation: str
    resource: str
    name: str | None
    is_prefixed: bool
    command: str

    def __str__(self) -> str:
        return f"{self.principal.removeprefix('User:')}: {self.operation} {self.resource} {self.name or ''}".strip()

    def binding(self, kind: type[AclBinding] | type[AclBindingFilter] = AclBinding) -> AclBinding:
        pattern = ResourcePatternType.PREFIXED if self.is_prefixed else ResourcePatternType.LITERAL
        resource = {
            "topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER,
            "transactional-id": ResourceType.TRANSACTIONAL_ID,
        }  # fmt: skip
        operation = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.operation).upper()]
        name = self.name or CLUSTER_NAME
        allowed = AclPermissionType.ALLOW
        return kind(resource[self.resource], name, pattern, self.principal, "*", operation, allowed)


def granted(text: str) -> list[Granted]:
    """The ACLs of every kafka-acls.sh command in a text."""
    return [
        _granted(command) for command in re.findall(r"^ *(kafka-acls\.sh (?:[^\n]*\\\n)*[^\n]*)", text, re.MULTILINE)
    ]


def _granted(command: str) -> Granted:
    words = shlex.split(command.replace("\\\n", " "))
    told = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
    (resource,) = {"topic", "group", "cluster", "transactional-id"} & {word.removeprefix("--") for word in words}
    return Granted(
        principal=told["--allow-principal"],
        operation=told["--operation"],
        resource=resource,
        name=None if resource == "cluster" else told[f"--{resource}"],
        is_prefixed=told.get("--resource-pattern-type") == "prefixed",
        command=command,
    )


SHELL, INDENTED = (
    granted("".join(re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)))
    for pattern in (r"^```sh\n(.*?)^```", r"^    kafka-acls[^\n]*\n")
)
BY = {str(acl): acl for acl in SHELL}
WRITE_TO_THE_LOG = INDENTED[0]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    """Two teams with a topic and a group each; both principals have what the page grants them."""
    with secure_cluster(tmp_path_factory.mktemp("secure"), java=java, jars=kafka_jars) as cluster:
        admin = make_topics(cluster.all_powerful, {OWN_TOPIC: 1, OTHER_TOPIC: 1})
        wait(admin.create_acls([acl.binding() for acl in SHELL]))
        with ClusterSession(cluster.all_powerful) as session:
            wait_for_coordinators(session)
            until(lambda: set(commit_both(session, OWN).values()) == {None})
            until(lambda: set(commit_both(session, OTHER).values()) == {None})
        with ClusterSession(cluster.config(APPLIER)) as session:
            until(lambda: group_now(session, OWN).exists)
        yield cluster


def commit_both(session: ClusterSession, group_id: str) -> Mapping[tuple[str, int], str | None]:
    return commit_offsets(session, group_id, {(OWN_TOPIC, 0): (1, -1, ""), (OTHER_TOPIC, 0): (2, -1, "")})


until = partial(waiting.until, within_s=SETTLE_S, passing=(GroupError, NotAllowed))
"""ACLs take a moment: a refusal may come before what is waited for."""


def becomes(work: Callable[[], T], is_there: Callable[[T], bool]) -> T:
    """The result of `work` once it is as expected."""
    return until(lambda: [found] if is_there(found := work()) else [])[0]


def told_by(work: Callable[[], object]) -> str:
    """What the refusal of `work` says, once it is refused."""

    def refusal() -> str:
        try:
            return work() and ""
        except (GroupError, NotAllowed) as refused:
            return str(refused)

    return waiting.until(refusal, "nothing was refused", within_s=SETTLE_S)


@contextmanager
def without(cluster: SecureCluster, acl: str) -> Iterator[None]:
    """The cluster without one ACL of the page."""
    admin, missing = admin_of(cluster.all_powerful), BY[acl]
    (gone,) = wait(admin.delete_acls([missing.binding(AclBindingFilter)]))
    assert len(gone) == 1
    try:
        yield
    finally:
        wait(admin.create_acls([missing.binding()]))


@pytest.fixture(scope="module")
def reader(cluster: SecureCluster) -> Iterator[ClusterSession]:
    with ClusterSession(cluster.config(READER)) as session:
        until(lambda: not hidden(session))
        yield session


@pytest.fixture(scope="module")
def applier(cluster: SecureCluster) -> Iterator[ClusterSession]:
    with ClusterSession(cluster.config(APPLIER)) as session:
        yield session


def facts_of(session: ClusterSession, name: str = OFFSETS_TOPIC) -> tuple[bool | None, list[str]]:
    topic = describe_topic(session, name)
    facts, warnings = collect_metadata(session, offsets_topic=topic, taken_at_ms=1)
    return facts.sees_all_topics, warnings


def tail_of(session: ClusterSession, group_id: str = OWN) -> int:
    return len(TailReader(session, OFFSETS_TOPIC, partition_of(group_id, PARTITIONS), from_log_offset=0).records())


def tombstone(group_id: str) -> bytes:
    key = encode_key(1, {"group_id": group_id, "topic": "gone", "partition": 0})
    return encode_batches([(group_id, key)], base_offset=0, as_of_ms=1, profile=NEWEST)


def append(config: ClientConfig, group_id: str) -> int:
    return append_tombstones(config, partition_of(group_id, PARTITIONS), tombstone(group_id))


# --- who gets in ---


@pytest.mark.parametrize("login", LOGINS)
def test_both_clients_log_in(cluster: SecureCluster, login: str) -> None:
    with ClusterSession(cluster.config(READER, login)) as session:
        assert len(describe_topic(session, OFFSETS_TOPIC).leaders) == PARTITIONS
        assert max_message_bytes(session, OFFSETS_TOPIC) == 1_048_588
        assert sees_all_groups(session)


@pytest.mark.parametrize("login", [login for login in LOGINS if login != "SSL"])
def test_wrong_credentials(cluster: SecureCluster, login: str, caplog: pytest.LogCaptureFixture) -> None:
    properties = {
        name: value.replace(PASSWORDS[READER], "canary-3") for name, value in cluster.properties(READER, login).items()
    }
    said = r"refuses with 401 \(invalid_client\)" if login == "OAUTHBEARER" else "the cluster refuses these credentials"
    begun = time.monotonic()
    with pytest.raises(UsageError, match=said) as caught:
        ClusterSession(client_config(properties))
    assert time.monotonic() - begun < 5, "it is told at once"
    assert "canary" not in str(caught.value) + caplog.text


def test_a_token_that_the_broker_does_not_take(cluster: SecureCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.tokens, "lifetime_s", -60)
    with pytest.raises(UsageError, match="the cluster refuses these credentials"):
        ClusterSession(cluster.config(READER, "OAUTHBEARER"))


def test_who_may_do_nothing_is_told_what_to_allow(cluster: SecureCluster) -> None:
    with (
        ClusterSession(cluster.config(NOBODY, "PLAIN")) as session,
        pytest.raises(UsageError, match=r"allow User:nobody DESCRIBE on topic __consumer_offsets"),
    ):
        describe_topic(session, OFFSETS_TOPIC)


def test_another_protocol_on_the_port_is_suspected(cluster: SecureCluster) -> None:
    plain = client_config({}, bootstrap_servers=f"127.0.0.1:{cluster.sasl_port}")
    with pytest.raises(BrokerError, match=r"is security\.protocol PLAINTEXT right"):
        ClusterSession(plain, connect_timeout_ms=1500)


# --- the reader ---


def test_the_reader_takes_a_snapshot(cluster: SecureCluster, tmp_path: Path) -> None:
    taken = snapshot(cluster.config(READER), tmp_path, now_ms=lambda: 1_800_000_000_000)
    assert taken.warnings == []
    facts = newest_metadata(pafs.LocalFileSystem(), str(tmp_path))
    assert facts is not None
    assert facts.sees_all_topics is True
    assert facts.settings["offsets.retention.minutes"] == "10080"
    assert {row["topic"] for row in facts.topics} >= {OWN_TOPIC, OTHER_TOPIC, OFFSETS_TOPIC}


def test_the_reader_sees_everything_and_changes_nothing(cluster: SecureCluster, reader: ClusterSession) -> None:
    assert {group.group_id for group in list_groups(reader).groups} >= {OWN, OTHER}
    before = committed_offsets(reader, OWN)
    allow = "allow User:sexton-reader"
    with pytest.raises(GroupError, match=rf"group {OWN}: OffsetDelete .*{DENIED} \({allow} DELETE on group {OWN}\)"):
        delete_offsets(reader, OWN, {OWN_TOPIC: [0]})
    assert delete_group(reader, OWN) == DENIED
    assert reader.missing_acl(DENIED, "DeleteGroups", group_id=OWN) == f"{allow} DELETE on group {OWN}"
    assert set(commit_both(reader, OWN).values()) == {DENIED}
    with pytest.raises(NotAllowed, match=rf"Produce is not allowed: .*{allow} WRITE on topic {OFFSETS_TOPIC}"):
        append(reader.config, OWN)
    assert committed_offsets(reader, OWN) == before
    assert tail_of(reader) > 0


WHERE = f"topic {OFFSETS_TOPIC}"


@pytest.mark.parametrize(
    "acl, work",
    [
        ("sexton-reader: Read topic __consumer_offsets", tail_of),
        ("sexton-reader: Describe group *", lambda session: committed_offsets(session, OWN)),
    ],
)
def test_the_reader_is_refused_without(
    cluster: SecureCluster, reader: ClusterSession, acl: str, work: Callable[[ClusterSession], object]
) -> None:
    where = WHERE if BY[acl].resource == "topic" else f"group {OWN}"
    with without(cluster, acl):
        assert f"allow User:sexton-reader {BY[acl].operation.upper()} on {where}" in told_by(lambda: work(reader))
    until(lambda: work(reader) is not None)


def test_topics_that_are_hidden(cluster: SecureCluster, reader: ClusterSession) -> None:
    allow = "allow User:sexton-reader DESCRIBE on topic *"
    with without(cluster, "sexton-reader: Describe topic *"):
        until(lambda: not sees_all_topics(reader))
        sees_all, (warning,) = facts_of(reader)
        assert sees_all is False
        assert allow in warning
        assert [allow in line for line in hidden(reader)] == [True]
        assert topic_states(reader, [OWN_TOPIC, UNSEEN]) == {OWN_TOPIC: "hidden", UNSEEN: "hidden"}
        # All of a group's offsets are not all of them now; asked by name, the broker says so.
        assert committed_offsets(reader, OWN) == {}
        by_name = committed_offsets(reader, OWN, only=[(OWN_TOPIC, 0)])
        assert by_name[OWN_TOPIC, 0].error_code == UNAUTHORIZED_TOPIC
    until(lambda: sees_all_topics(reader))
    assert topic_states(reader, [OWN_TOPIC, UNSEEN]) == {OWN_TOPIC: "there", UNSEEN: "gone"}


def test_groups_that_are_hidden(cluster: SecureCluster, reader: ClusterSession) -> None:
    with without(cluster, "sexton-reader: Describe group *"):
        until(lambda: not sees_all_groups(reader))
        assert list_groups(reader).groups == []
        (line,) = hidden(reader)
        assert "not every group can be seen" in line
        assert "allow User:sexton-reader DESCRIBE on group *" in line
    until(lambda: sees_all_groups(reader))


@pytest.mark.parametrize(
    "acl, said",
    [
        ("sexton-reader: DescribeConfigs topic __consumer_offsets", f"DESCRIBE_CONFIGS on {WHERE}"),
        ("sexton-reader: DescribeConfigs cluster", "DESCRIBE_CONFIGS on the cluster"),
    ],
)
def test_settings_that_are_not_told(cluster: SecureCluster, reader: ClusterSession, acl: str, said: str) -> None:
    with without(cluster, acl):
        _, (warning,) = becomes(lambda: facts_of(reader), lambda facts: bool(facts[1]))
        assert f"allow User:sexton-reader {said}" in warning
    assert becomes(lambda: facts_of(reader), lambda facts: not facts[1]) == (True, [])


@pytest.fixture(scope="module")
def held(cluster: SecureCluster) -> RawProducer:
    """A transaction that holds offsets of the group HELD."""
    make_topic(cluster.all_powerful)
    with ClusterSession(cluster.all_powerful) as session:
        producer = RawProducer.begin(session, "payments", timeout_ms=600_000)
        producer.commit_offsets(HELD, {0: 7})
    return producer


@pytest.mark.usefixtures("held")
def test_settings_of_transactions_that_are_not_told(cluster: SecureCluster, reader: ClusterSession) -> None:
    with without(cluster, "sexton-reader: DescribeConfigs topic __transaction_state"):
        _, (warning,) = becomes(lambda: facts_of(reader, TRANSACTIONS_TOPIC), lambda facts: bool(facts[1]))
        assert f"allow User:sexton-reader DESCRIBE_CONFIGS on topic {TRANSACTIONS_TOPIC}" in warning
    assert becomes(lambda: facts_of(reader, TRANSACTIONS_TOPIC), lambda facts: not facts[1]) == (True, [])


def test_transactions_whose_states_may_not_be_read(
    cluster: SecureCluster, held: RawProducer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The missing right is named, and the offsets log still proves who holds what; nothing is silently empty."""
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties(READER).items()))
    archive = str(tmp_path / "archive")

    def ask(*options: str) -> tuple[int, str, str]:
        code = main(["transactions", "--client-config", str(config), *options])
        return code, *capsys.readouterr()

    def archived() -> object:
        at = {"now_ms": lambda: 1_800_000_000_000}
        taken = snapshot(cluster.config(READER), archive, **at)
        request = SnapshotRequest(config=cluster.config(READER), archive=archive)
        with SerialEngine(quiet=True) as engine:
            return archive_transactions.run(engine, request, cluster_id=taken.cluster_id, **at)

    def answer(told: tuple[int, str, str]) -> tuple[int, list[tuple[object, ...]], list[str]]:
        found = json.loads(told[1])
        names = "producer_id", "verdict", "reason", "transactional_id", "group_ids", "is_confirmed"
        return told[0], [tuple(row[name] for name in names) for row in found["transactions"]], found["notes"]

    allow = f"allow User:sexton-reader READ on topic {TRANSACTIONS_TOPIC}"
    running = held.producer_id, "running", "ongoing", "payments", [HELD], True
    unknown = held.producer_id, "unknown", "not_read", None, [HELD], True
    assert answer(becomes(lambda: ask("--json"), lambda told: told[0] == 0)) == (0, [running], [])
    with without(cluster, f"sexton-reader: Read topic {TRANSACTIONS_TOPIC}"):
        code, rows, notes = answer(becomes(lambda: ask("--json"), lambda told: told[0] == 2))
        assert (code, rows) == (2, [unknown])
        assert allow in notes[0]
        code, out, err = ask()
        assert (code, str(held.producer_id) in out, allow in err) == (2, True, True)
        assert allow in told_by(archived)
    until(lambda: archived() is not None)


# --- the applier ---


def test_the_applier_within_its_prefix(applier: ClusterSession) -> None:
    group_id = "team-a-passing"
    given = {(OWN_TOPIC, 0): (7, -1, "m")}
    assert commit_offsets(applier, group_id, given) == {(OWN_TOPIC, 0): None}
    assert group_now(applier, group_id).state == "Empty"
    assert delete_offsets(applier, group_id, {OWN_TOPIC: [0]}) == {(OWN_TOPIC, 0): None}
    commit_offsets(applier, group_id, given)
    assert delete_group(applier, group_id) is None
    assert tail_of(applier, group_id) > 0


def test_the_applier_beyond_its_prefix(cluster: SecureCluster, applier: ClusterSession, reader: ClusterSession) -> None:
    before = committed_offsets(reader, OTHER)
    allow = "allow User:sexton-applier"
    with pytest.raises(GroupError, match=rf"{DENIED} \({allow} DELETE on group {OTHER}\)"):
        delete_offsets(applier, OTHER, {OTHER_TOPIC: [0]})
    with pytest.raises(GroupError, match=rf"{DENIED} \({allow} DESCRIBE on group {OTHER}\)"):
        group_now(applier, OTHER)
    assert delete_group(applier, OTHER) == DENIED
    assert set(commit_both(applier, OTHER).values()) == {DENIED}
    for group_id in (OWN, OTHER):
        with pytest.raises(NotAllowed, match=rf"{allow} WRITE on {WHERE}"):
            append(applier.config, group_id)
    with without(cluster, "sexton-applier: Describe cluster"):
        until(lambda: {group.group_id for group in list_groups(applier).groups} == {OWN})
        assert len(hidden(applier)) == 2
    assert committed_offsets(reader, OTHER) == before
    assert committed_offsets(applier, OWN).keys() == {(OWN_TOPIC, 0)}, "of its own topics"


def test_the_applier_writes_in_a_transaction(applier: ClusterSession, reader: ClusterSession) -> None:
    producer = offset_transactions.begin(applier, WRITER)
    given = {(OWN_TOPIC, 0): (4, None, "m"), (OTHER_TOPIC, 0): (5, None, "")}
    pended = offset_transactions.pend(applier, producer, OWN, given)
    assert pended == {(OWN_TOPIC, 0): None, (OTHER_TOPIC, 0): TOPIC_DENIED}
    offset_transactions.end(applier, producer, committed=True)
    until(lambda: committed_offsets(reader, OWN)[OWN_TOPIC, 0].as_committed == (4, None, "m"))
    with pytest.raises(GroupError, match=rf"{DENIED} \(allow User:sexton-applier READ on group {OTHER}\)"):
        offset_transactions.pend(applier, producer, OTHER, given)
    offset_transactions.begin(applier, WRITER)


def test_another_teams_topic_in_an_own_group(applier: ClusterSession, reader: ClusterSession) -> None:
    assert delete_offsets(applier, OWN, {OTHER_TOPIC: [0]}) == {(OTHER_TOPIC, 0): TOPIC_DENIED}
    assert commit_both(applier, OWN) == {(OWN_TOPIC, 0): None, (OTHER_TOPIC, 0): TOPIC_DENIED}
    assert committed_offsets(reader, OWN).keys() == {(OWN_TOPIC, 0), (OTHER_TOPIC, 0)}


def outcome(session: ClusterSession, acl: str) -> str | None:
    """What is missing for the call that needs the ACL; None when it is answered."""
    if acl == "Delete group":
        try:
            delete_offsets(session, OWN, {OWN_TOPIC: [9]})
        except GroupError as refusal:
            return refusal.fix
        return session.missing_acl(delete_group(session, "team-a-absent") or "", "DeleteGroups", group_id=OWN)
    if acl == "Read group":
        (error,) = commit_offsets(session, OWN, {(OWN_TOPIC, 0): (1, -1, "")}).values()
        return session.missing_acl(error or "", "OffsetCommit", group_id=OWN, topic=OWN_TOPIC)
    if acl == "Read topic":
        (error,) = delete_offsets(session, OWN, {OWN_TOPIC: [9]}).values()
        return session.missing_acl(error or "", "OffsetDelete", topic=OWN_TOPIC)
    try:
        if acl == "Write transactional-id":
            offset_transactions.begin(session, WRITER)
        else:
            tail_of(session)
    except (GroupError, NotAllowed) as refusal:
        return refusal.fix
    return None


@pytest.mark.parametrize(
    "acl, needs, said",
    [
        ("Delete group team-a-", "Delete group", f"DELETE on group {OWN}"),
        ("Read group team-a-", "Read group", f"READ on group {OWN}"),
        ("Read topic team-a-", "Read topic", f"READ on topic {OWN_TOPIC}"),
        ("Read topic __consumer_offsets", "Read log", f"READ on {WHERE}"),
        ("Write transactional-id sexton-", "Write transactional-id", f"WRITE on transactional id {WRITER}"),
    ],
)
def test_the_applier_is_refused_without(
    cluster: SecureCluster, applier: ClusterSession, acl: str, needs: str, said: str
) -> None:
    with without(cluster, f"sexton-applier: {acl}"):
        found = becomes(lambda: outcome(applier, needs), lambda missing: missing is not None)
        assert found == f"allow User:sexton-applier {said}"
    until(lambda: outcome(applier, needs) is None)


@pytest.mark.parametrize(
    "acl, bound",
    [
        ("DescribeConfigs topic __consumer_offsets", lambda session: max_message_bytes(session, OFFSETS_TOPIC)),
        ("DescribeConfigs cluster", retention_minutes),
        ("Describe cluster", controller_time_ms),
    ],
)
def test_bounds_that_the_applier_is_not_told(
    cluster: SecureCluster, applier: ClusterSession, acl: str, bound: Callable[[ClusterSession], int | None]
) -> None:
    with without(cluster, f"sexton-applier: {acl}"):
        until(lambda: bound(applier) is None)
    until(lambda: (bound(applier) or 0) > 0)


def test_the_log_sink_needs_one_more(cluster: SecureCluster, applier: ClusterSession) -> None:
    admin = admin_of(cluster.all_powerful)
    wait(admin.create_acls([WRITE_TO_THE_LOG.binding()]))
    try:
        assert becomes(lambda: append(applier.config, OWN), lambda log_offset: log_offset > 0)
    finally:
        wait(admin.delete_acls([WRITE_TO_THE_LOG.binding(AclBindingFilter)]))


# --- the page itself ---


def test_every_acl_of_the_page_is_taken_away_here() -> None:
    """A new command on the page needs a test above."""
    assert set(BY) == {
        "sexton-reader: Read topic __consumer_offsets", "sexton-reader: Describe topic *",
        "sexton-reader: Describe group *", "sexton-reader: DescribeConfigs topic __consumer_offsets",
        "sexton-reader: DescribeConfigs cluster", "sexton-reader: Read topic __transaction_state",
        "sexton-reader: DescribeConfigs topic __transaction_state", "sexton-applier: Delete group team-a-",
        "sexton-applier: Read group team-a-", "sexton-applier: Read topic team-a-",
        "sexton-applier: Write transactional-id sexton-",
        "sexton-applier: Read topic __consumer_offsets", "sexton-applier: DescribeConfigs topic __consumer_offsets",
        "sexton-applier: DescribeConfigs cluster", "sexton-applier: Describe cluster",
    }  # fmt: skip
    assert str(WRITE_TO_THE_LOG) == "sexton-applier: Write topic __consumer_offsets"


@pytest.mark.parametrize("acl", ["sexton-reader: DescribeConfigs cluster", "sexton-applier: Delete group team-a-"])
def test_kafkas_own_tool_takes_the_commands(
    cluster: SecureCluster, java: JavaHome, kafka_jars: list[Path], acl: str
) -> None:
    words = shlex.split(BY[acl].command.replace("\\\n", " "))[1:]
    at = words.index("--command-config")
    words[at : at + 2] = []
    words[words.index("HOST:PORT")] = cluster.broker.bootstrap_servers
    with without(cluster, acl):
        run_tool(java, kafka_jars, "org.apache.kafka.tools.AclCommand", *words)
        admin = admin_of(cluster.all_powerful)
        found = admin.describe_acls(BY[acl].binding(AclBindingFilter)).result(TIMEOUT_S)
        assert len(found) == 1
