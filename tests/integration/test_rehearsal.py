"""Rehearsals against brokers: the log of one release under a broker of another, and what its own cleaner leaves.

Each broker gets the very bytes of a recording, with an index and after a clean shutdown, loads them and is asked about
every group, as in tests.campaign.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sexton.coordinator.cleaning import read_cleanable
from sexton.coordinator.profile import Profile
from sexton.errors import BrokerError
from sexton.java import find_java
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.log.batch import encode_batch
from sexton.rehearsal.faults import AFTER_CLEANING, NOW, faults_of
from sexton.rehearsal.features import metadata_of, refused_levels
from sexton.rehearsal.logs import LogOf, coordinator_of, read_logs
from sexton.rehearsal.rehearse import profile_named
from sexton.runs.source import open_segments
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.campaign.broker.answers import Inquiry, told_by_sexton
from tests.campaign.broker.cleaner import CLEAN, wait_until_quiet
from tests.campaign.broker.judge import Judge, Loads, now_ms, until
from tests.coordinator.golden import GOLDEN
from tests.log_builder import offset_key, offset_value
from tests.release_jars import jars_of
from tests.views.worlds import write_log

PARTITIONS = 4
PREVIEW = {"group.coordinator.new.enable": "true", "group.coordinator.rebalance.protocols": "classic,consumer"}
CAP_BYTES = 1 << 26
PASSES = 3
_ENDS = re.compile(rb"Finished loading |Failed to load metadata from |Error loading offsets from ")


def judge_of(folder: Path, profile: Profile) -> Judge:
    """A broker of a release with its topics made, stopped."""
    release = ".".join(map(str, profile.release))
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    judge = Judge(folder, release=release, java=java, jars=jars_of(release), partition_count=PARTITIONS)
    judge.prepare()
    return judge


def settings_of(profile: Profile) -> dict[str, str]:
    return {"offsets.retention.check.interval.ms": "86400000", **(PREVIEW if profile.early_consumer_groups else {})}


def logs_in(root: Path) -> list[LogOf]:
    source = open_segments(str(root), topics_file=None, partition_count=PARTITIONS)
    return read_logs(source, as_of_ms=None, taken_at_ms=now_ms())


def segments_in(root: Path) -> dict[int, dict[int, bytes]]:
    """The segments of a log directory by log partition and base offset."""
    return {
        number: {
            int(path.stem): path.read_bytes()
            for path in sorted((root / f"__consumer_offsets-{number}").glob("*.log"))
        }
        for number in range(PARTITIONS)
        if (root / f"__consumer_offsets-{number}").is_dir()
    }  # fmt: skip


def observed(
    judge: Judge, profile: Profile, segments: Mapping[int, Mapping[int, bytes]], root: Path
) -> tuple[set[int], dict[Any, tuple[Any, Any]]]:
    """The log partitions whose load failed, and what the broker says otherwise than the rehearsal: nothing."""
    judge.write(segments)
    for number, of_partition in segments.items():
        for base_offset in of_partition:
            (judge.log_folder(number) / f"{base_offset:020d}.index").touch()
    logs = logs_in(root)
    broker_of = coordinator_of(logs, profile, here=frozenset(range(PARTITIONS)), count=PARTITIONS)
    homes = {group_id: broker_of.log_partition_of(group_id) or 0 for log in logs for group_id in _groups(log, profile)}
    told, asking = told_by_sexton(broker_of, homes)
    failing = {name for name in homes if told[name, "described"] == -1}
    with judge.running(settings_of(profile)) as broker:
        until(lambda: len(_ENDS.findall(broker.log_file.read_bytes())) >= PARTITIONS)
        loads = Loads()
        until(lambda: loads.read(broker.log_file.read_text("utf-8", "replace")) >= PARTITIONS)
        with ClusterSession(client_config({}, bootstrap_servers=broker.bootstrap_servers)) as session:
            answers = Inquiry(session, jars_of(".".join(map(str, profile.release)))).ask(homes, asking, failing)
    expected = {fault.log_partition for log in logs for fault in faults_of(log, profile) if fault.when == NOW}
    pairs = {question: (_comparable(answer), _comparable(told[question])) for question, answer in answers.items()}
    unlike = {question: pair for question, pair in pairs.items() if pair[0] != pair[1]}
    return set(loads.failed), unlike if expected == set(loads.failed) else {**unlike, "failing": expected}


def _comparable(answer: Any) -> Any:
    """An answer without what its members are assigned by topic id: the topics of the recording are not here."""
    match answer:
        case (state, (int() as generation, dict() as members)):
            return state, (generation, {name: (*one[:3], one[3][0]) for name, one in members.items()})
    return answer


def _groups(log: LogOf, profile: Profile) -> set[str]:
    loaded = log.load(profile)
    return {*loaded.groups.by_id, *(group_id for group_id, _, _ in loaded.offsets)}


@pytest.mark.full
@pytest.mark.parametrize(
    "log, to",
    [
        *(("upgrades/3.9.1", release) for release in ("4.0.0", "4.2.1", "4.3.1")),
        *(("upgrades/4.2.0-cleaned", release) for release in ("4.2.0", "4.2.1", "4.0.0", "3.9.1")),
        ("upgrades/4.2.0-cleaned", "group_coordinator:3.9.1"),
        *(("upgrades/4.3.1", release) for release in ("4.0.0", "3.9.1", "3.4.0")),
        *(("kafka-2.8.2-plain/before", release) for release in ("3.9.1", "4.3.1")),
        ("kafka-4.0.0/before", "4.3.1"),
    ],
)
def test_the_log_of_one_release_under_a_broker_of_another(log: str, to: str, needs_broker, tmp_path: Path) -> None:
    profile = profile_named(to, "--to")
    judge = judge_of(tmp_path / "broker", profile)
    _, unlike = observed(judge, profile, segments_in(GOLDEN / log), GOLDEN / log)
    assert unlike == {}


@pytest.mark.full
@pytest.mark.parametrize("to", ["4.2.0", "4.2.1", "group_coordinator:3.9.1"])
def test_before_and_after_a_real_cleaning(to: str, needs_broker, tmp_path: Path) -> None:
    """KAFKA-20254 and KAFKA-17306: the log loads, the broker's own cleaner runs, and then it fails as was said."""
    profile = profile_named(to, "--to")
    log = segments_in(GOLDEN / "upgrades/4.2.0-before-cleaning")
    (data,) = log[1].values()
    end = max(one.log_offset for one in read_cleanable([data], cap_bytes=CAP_BYTES, end=1 << 40).records) + 1
    rolled = encode_batch(
        [(offset_key("plain1"), offset_value(1, commit_timestamp_ms=now_ms()))], base_offset=end, timestamp_ms=now_ms()
    )
    segments = {1: {0: data, end: rolled}}
    root = tmp_path / "before"
    write_log(root, {1: data})
    (root / "__consumer_offsets-1" / f"{end:020d}.log").write_bytes(rolled)
    judge = judge_of(tmp_path / "broker", profile)
    failed, unlike = observed(judge, profile, segments, root)
    assert (failed, unlike) == (set(), {})
    (before,) = logs_in(root)
    before.load(profile)
    said = [fault for fault in faults_of(before, profile) if fault.when == AFTER_CLEANING]

    judge.write(segments)
    (judge.folder / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for _ in range(PASSES):
        (judge.folder / "data" / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        with judge.running({**settings_of(profile), **CLEAN}):
            wait_until_quiet(judge)
    left = read_cleanable([judge.log_of(1)], cap_bytes=CAP_BYTES, end=1 << 40)
    assert {one.log_offset for one in left.records} == before.records.keys() - before.gone(before.stages[1])
    cleaned = tmp_path / "cleaned"
    write_log(cleaned, {1: b""})
    for path in judge.log_folder(1).glob("*.log"):
        (cleaned / "__consumer_offsets-1" / path.name).write_bytes(path.read_bytes())
    failed, unlike = observed(judge, profile, segments_in(cleaned), cleaned)
    assert unlike == {}
    assert (1 in failed) == bool(said) == (to != "4.2.1")


@pytest.mark.full
@pytest.mark.parametrize("release, starts", [("3.9.1", False), ("4.0.0", False), ("4.2.1", True)])
def test_a_broker_does_not_start_over_levels_that_it_does_not_know(
    release: str, starts: bool, needs_broker, tmp_path: Path
) -> None:
    """The metadata log of a broker of 4.2.0: of what is refused a broker names the first that it meets."""
    recorded = GOLDEN / "cluster-metadata/4.2.0"
    log = metadata_of([str(recorded)], None)
    assert log is not None
    refused = {one.name: one.level for one in refused_levels(log, profile_named(release, "--to"))}
    shutil.copytree(recorded, tmp_path / "data")
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    broker = EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=jars_of(release))
    if starts:
        assert refused == {}
        with broker:
            return
    with pytest.raises(BrokerError), broker:
        pass
    said = broker.log_file.read_text("utf-8", "replace")
    assert f"No MetadataVersion with feature level {refused['metadata.version']}" in said
