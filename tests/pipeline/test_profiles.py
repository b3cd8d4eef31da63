"""Whose rules a run follows, and what becomes of groups that lie where they do not hash to."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sexton.coordinator import profiles
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from sexton.job_params import ReplayRequest
from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from sexton.pipeline import replay_groups
from sexton.pipeline.standalone import run_audit
from sexton.runs.choose_profile import AMBIGUOUS, AUTO, ProfileEvidence, choose, of_evidence, of_version
from sexton.runs.engine import Engine
from sexton.runs.fold_log import fold_log
from sexton.runs.folder import RunRecord
from sexton.runs.release_bounds import UNBOUNDED, ReleaseBounds
from sexton.runs.source import open_segments
from sexton.views.log_parts import LogParts
from sexton.views.log_profile import choice_of
from tests.archived import Archive
from tests.kernels.compare import fold_bytes
from tests.log_builder import (
    BASE_MS,
    classic_fields,
    commit,
    group_entry,
    offset_key,
    offset_value,
    subscription,
    tombstone,
)
from tests.record_fields import encode_key, encode_value
from tests.views.worlds import write_log

GOLDEN = Path(__file__).parents[1] / "golden"
V0 = offset_value(1, version=0)


def evidence(*chunks: bytes) -> ProfileEvidence:
    return ProfileEvidence.of(fold_bytes(b"".join(chunks)))


def batch(*entries: tuple[bytes, bytes | None], at: int = 0) -> bytes:
    return encode_batch(entries, base_offset=at, timestamp_ms=BASE_MS)


def messages(*entries: tuple[bytes, bytes | None], magic: int, at: int = 0) -> bytes:
    return encode_message_set(entries, base_offset=at, magic=magic, timestamp_ms=-1 if magic == 0 else BASE_MS)


NEW_TYPE = (b"\0\3\0\1g", None)
UNKNOWN_NEW_TYPE = (b"\0\x18\0\1g", None)
LEGACY = (offset_key("g", record_type=0), V0)


@pytest.mark.parametrize(
    "log, profile, expected",
    [
        pytest.param(batch(commit("g"), NEW_TYPE), "group_coordinator:4.3.1", "proof", id="a type of KIP-848"),
        pytest.param(batch(UNKNOWN_NEW_TYPE), "group_coordinator:4.3.1", "proof", id="a type of tomorrow"),
        pytest.param(batch(commit("g", version=4)), "group_coordinator:4.3.1", "proof", id="a value of version 4"),
        pytest.param(batch(commit("g")), "group_coordinator:4.3.1", AMBIGUOUS, id="2.1 to 4.0 look alike"),
        pytest.param(b"", "group_coordinator:4.3.1", AMBIGUOUS, id="nothing"),
        pytest.param(messages(commit("g", version=1), magic=1), "group_metadata_manager:3.9", "proof", id="format 1"),
        pytest.param(messages(commit("g", version=1), magic=0), "offset_manager:0.9", "proof", id="format 0"),
        pytest.param(messages(LEGACY, magic=0), "offset_manager:0.8.2", "proof", id="type 0 alone"),
        pytest.param(
            messages(LEGACY, magic=0) + batch(commit("g"), at=1), "group_coordinator:4.3.1", AMBIGUOUS,
            id="an old log after an upgrade",
        ),
        pytest.param(
            messages(commit("g", version=1), magic=0) + batch(NEW_TYPE, at=1), "group_coordinator:4.3.1", "proof",
            id="an old log after an upgrade to 4.x",
        ),
    ],
)  # fmt: skip
def test_auto_decides_on_proof_only(log: bytes, profile: str, expected: str) -> None:
    choice = of_evidence([evidence(), evidence(log)])
    assert choice.profile.name == profile.partition(":")[0]
    assert choice.profile.release[:2] == profile_of(profile).release[:2]
    assert choice.source.startswith(expected)
    is_open = expected == AMBIGUOUS or profile == "group_metadata_manager:3.9"
    is_open = is_open or NEW_TYPE[0] in log  # the preview of 3.9 writes it, too
    assert bool(choice.warnings) == (is_open or not choice.profile.is_proven)


def at(day: str, *entries: tuple[bytes, bytes | None]) -> ProfileEvidence:
    """A log that was written at noon of a day."""
    stamp_ms = int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp() * 1000)
    return evidence(encode_batch(entries, base_offset=0, timestamp_ms=stamp_ms))


def group_value(version: int) -> tuple[bytes, bytes]:
    """The value of a group without members."""
    return encode_key(2, {"group_id": "g"}), encode_value(2, version, classic_fields())


FROM_4 = UNBOUNDED.and_from((4, 0), "metadata.version 22")
UP_TO_3_9 = UNBOUNDED.and_to((3, 9), "ZooKeeper")


@pytest.mark.parametrize(
    ("log", "disk", "profile", "source", "point"),
    [
        (at("2019-05-25", commit("g")), UNBOUNDED, "group_metadata_manager:2.2", "newest record is of 2019-05-25",
         "(up to 2.2)"),
        (at("2022-05-08", commit("g")), UNBOUNDED, "group_metadata_manager:3.1", "is of 2022-05-08", "(up to 3.1)"),
        (at("2022-05-09", commit("g")), UNBOUNDED, "group_metadata_manager:3.2", "is of 2022-05-09", "(up to 3.2)"),
        (at("2025-03-17", commit("g")), UNBOUNDED, "group_metadata_manager:3.9", "proof", "(up to 3.9)"),
        (at("2025-03-18", commit("g")), UNBOUNDED, "group_coordinator:4.0", AMBIGUOUS, "2025-03-18"),
        (at("2026-05-22", commit("g")), UNBOUNDED, "group_coordinator:4.3.1", AMBIGUOUS, "taken for the newest"),
        (at("2016-01-01", commit("g")), UNBOUNDED, "group_coordinator:4.3.1", AMBIGUOUS, "taken for the newest"),
        (at("2026-09-01", group_value(2)), UNBOUNDED, "group_metadata_manager:2.2", "of 2.1 and 2.2", "(up to 2.2)"),
        (at("2026-09-01", group_value(1)), UNBOUNDED, "group_metadata_manager:2.0", "before 2.1", "(up to 2.0)"),
        (at("2026-09-01", group_value(3)), UNBOUNDED, "group_coordinator:4.3.1", AMBIGUOUS, "taken for the newest"),
        (at("2026-09-01", group_value(2), group_value(3)), UNBOUNDED, "group_coordinator:4.3.1", AMBIGUOUS, "newest"),
        (at("2026-09-01", commit("g")), UP_TO_3_9, "group_metadata_manager:3.9", "proof: ZooKeeper", "(up to 3.9)"),
        (at("2026-09-01", commit("g")), FROM_4, "group_coordinator:4.3.1", "metadata.version 22", "(from 4.0)"),
        (at("2025-09-03", commit("g")), FROM_4, "group_coordinator:4.1", "metadata.version 22", "(from 4.0 up to 4.1)"),
        (at("2025-04-01", commit("g")), FROM_4, "group_coordinator:4.0", "newest record is of 2025-04-01", None),
        (at("2024-01-01", commit("g")), FROM_4, "group_coordinator:4.3.1", "metadata.version 22", "(from 4.0)"),
        (at("2025-04-01", NEW_TYPE, group_value(2)), UNBOUNDED, "group_coordinator:4.0", "types from 3", "2025-04-01"),
        (at("2024-12-01", NEW_TYPE), UNBOUNDED, "group_coordinator:3.9", "types from 3", "2024-12-01"),
        (at("2026-09-01", NEW_TYPE), UNBOUNDED, "group_coordinator:4.3.1", "types from 3", "group_coordinator:3.9"),
        (at("2026-09-01", NEW_TYPE), UP_TO_3_9, "group_coordinator:3.9", "types from 3", "ZooKeeper"),
        (at("2026-09-01", NEW_TYPE), FROM_4, "group_coordinator:4.3.1", "types from 3", None),
        (at("2026-09-01", NEW_TYPE, commit("g", version=4)), UNBOUNDED, "group_coordinator:4.3.1", "types from", None),
        (at("2026-09-01", NEW_TYPE), UNBOUNDED.and_from((4, 4), "level 31"), "group_coordinator:4.4", "types", "31"),
    ],
)  # fmt: skip
def test_what_else_bounds_the_release(
    log: ProfileEvidence, disk: ReleaseBounds, profile: str, source: str, point: str | None
) -> None:
    choice = of_evidence([evidence(), log], disk)
    assert choice.profile == profile_of(profile)
    assert source in choice.source
    assert [str(point) in text for text in choice.open_points] == [True] * (point is not None)


@pytest.mark.parametrize("day", ["2019-05-25", "2026-09-01"])
def test_questions_take_the_newest_record_of_the_whole_log(day: str, tmp_path: Path) -> None:
    """It may lie behind the heads that are read first."""
    old, new = (int(datetime.fromisoformat(f"{one}T12:00+00:00").timestamp() * 1000) for one in ("2018-05-25", day))
    filler = [encode_batch([commit(f"g{n}")] * 200, base_offset=200 * n, timestamp_ms=old) for n in range(20)]
    log = b"".join([*filler, encode_batch([commit("g")], base_offset=4_000, timestamp_ms=new)])
    source = open_segments(str(write_log(tmp_path, {0: log})), topics_file=None)
    parts = LogParts(source, profile=profiles.NEWEST, as_of_ms=None, taken_at_ms=BASE_MS)
    assert choice_of(source, None, parts) == of_evidence([ProfileEvidence.of(fold_bytes(log))])


@pytest.mark.parametrize(
    "version, name",
    [("4.0.0", "group_coordinator"), ("3.7.1", "group_metadata_manager"), ("0.10.0.1", "offset_manager")],
)
def test_a_recorded_broker_s_version_decides(version: str, name: str) -> None:
    choice = of_version(version)
    assert choice.profile.text == f"{name}:{version}"
    assert version in choice.source


def test_a_broker_that_shows_its_minor_release_alone_has_the_default_of_that_line() -> None:
    assert of_version("4.3").profile == profile_of("group_coordinator")
    assert of_version("3.9").profile == profile_of("group_metadata_manager")
    assert of_version("4.1").profile == profile_of("group_coordinator:4.1")


def test_a_broker_of_3_9_may_have_had_either_coordinator() -> None:
    classic, new = evidence(batch(commit("g"))), evidence(batch(NEW_TYPE))
    assert of_version("3.9.1", lambda: [classic]).profile == profile_of("group_metadata_manager:3.9.1")
    choice = of_version("3.9.1", lambda: [classic, new])
    assert choice.profile == profile_of("group_coordinator:3.9.1")
    assert "--profile group_metadata_manager:3.9.1" in choice.open_points[0]
    assert choice.held_against([classic, new], "3.9.1").doubts == []
    assert choice.held_against([classic, new], "3.8.0").doubts != []
    assert of_version("3.7", lambda: [new]).profile == profile_of("group_metadata_manager:3.7")


CONTRADICTIONS = [
    pytest.param("offset_manager", batch(commit("g", version=1)), "record format 2", id="a format that came later"),
    pytest.param("offset_manager:0.8.2", messages(commit("g", version=1), magic=1), "record format 1", id="format 1"),
    pytest.param("group_metadata_manager", batch(NEW_TYPE), "type 3", id="a type of KIP-848"),
    pytest.param("group_metadata_manager:3.9", batch(NEW_TYPE), "the new one of that release", id="by 3.9"),
    pytest.param("group_coordinator:3.9", batch(NEW_TYPE), None, id="what the preview of 3.9 writes"),
    pytest.param("group_coordinator:3.9", batch(UNKNOWN_NEW_TYPE), "does not write", id="what it does not write"),
    pytest.param("group_metadata_manager:2.8", batch(NEW_TYPE), "type 3", id="a type that ends the load"),
    pytest.param("group_metadata_manager", batch(commit("g", version=4)), "from 4.1 on", id="a value of version 4"),
    pytest.param("group_coordinator:4.0", batch(commit("g", version=4)), "from 4.1 on", id="of 4.1 in 4.0"),
    pytest.param("group_coordinator", messages(commit("g", version=1), magic=1), "shows group_metadata", id="1 in 4.x"),
    pytest.param("group_coordinator", messages(LEGACY, magic=0), "shows offset_manager", id="a log of 0.8.2 in 4.x"),
    pytest.param("group_metadata_manager", batch(commit("g", version=3)), None, id="what 3.9 writes"),
    pytest.param("group_coordinator", batch(commit("g", version=3)), None, id="what 4.0 writes"),
    pytest.param("offset_manager:0.10.0", messages(commit("g", version=1), magic=1), None, id="what 0.10.0 writes"),
    pytest.param("offset_manager", messages(LEGACY, magic=0), None, id="what 0.8.2 left to 0.9"),
    pytest.param("offset_manager", b"", None, id="nothing"),
]


@pytest.mark.parametrize("profile, log, doubt", CONTRADICTIONS)
def test_a_log_contradicts_the_profile_that_was_asked_for(profile: str, log: bytes, doubt: str | None) -> None:
    fold = fold_bytes(log, profile=profile_of(profile))
    choice = choose(profile).held_against([ProfileEvidence.of(fold)])
    assert choice.profile == profile_of(profile)
    assert len(choice.doubts) == (doubt is not None)
    assert all(str(doubt) in text and "contradicts" in text and text in choice.warnings for text in choice.doubts)


@pytest.mark.parametrize("profile, log, doubt", CONTRADICTIONS)
def test_the_heads_of_a_log_show_the_same(profile: str, log: bytes, doubt: str | None, tmp_path: Path) -> None:
    """Questions read the head of each log partition where an audit has folded all."""
    source = open_segments(str(write_log(tmp_path, {0: log})), topics_file=None)
    parts = LogParts(source, profile=profiles.NEWEST, as_of_ms=None, taken_at_ms=BASE_MS)
    choice = choice_of(source, profile, parts)
    assert [str(doubt) in text for text in choice.doubts] == [True] * (doubt is not None)
    whole = of_evidence([ProfileEvidence.of(fold_bytes(log))])
    assert choice_of(source, None, parts).profile == whole.profile


def test_a_recorded_broker_contradicts_a_profile_of_other_rules() -> None:
    asked = choose("group_metadata_manager:2.8")
    assert asked.held_against([], "2.8.2").doubts == []
    assert "Kafka 4.3 follows group_coordinator:4.3.1" in asked.held_against([], "4.3").doubts[0]


def test_the_default_retention_follows_the_release(small: Engine, tmp_path: Path) -> None:
    """KIP-186: 24 hours before 2.0. A log of 0.8.2 that spans 27.8 hours has lost all that was committed first."""
    old_ms = BASE_MS - 27 * 3_600_000 - 48 * 60_000
    entries = [(offset_key("g", partition=n, record_type=0), offset_value(n, version=0, commit_timestamp_ms=old_ms))
               for n in range(61)]  # fmt: skip
    newest = (offset_key("h", record_type=0), offset_value(1, version=0, commit_timestamp_ms=BASE_MS))
    log = write_log(tmp_path / "log", {0: messages(*entries, newest, magic=0)})

    record = audit(small, tmp_path / "auto", log, AUTO)
    assert (record.profile, record.retention_ms) == ("offset_manager:0.8.2", 86_400_000)
    assert (record.retention_source, record.profile_doubts) == ("Kafka's default in 0.8.2", [])
    assert len(rows(tmp_path / "auto", "tombstones")) == 61
    asked = audit(small, tmp_path / "asked", log, AUTO, retention_minutes=10_080)
    assert (asked.retention_ms, asked.counts["tombstones"]) == (604_800_000, 0)
    newer = audit(small, tmp_path / "newer", log, "group_coordinator")
    assert (newer.retention_ms, newer.counts["tombstones"]) == (604_800_000, 0)
    assert ["contradicts" in text for text in newer.profile_doubts] == [True]


def test_an_unproven_release_is_told() -> None:
    assert choose("group_metadata_manager:2.8").warnings == []
    assert "unproven" in choose("group_metadata_manager:1.0").warnings[0]
    assert choose(AUTO).source == AMBIGUOUS


def audit(engine: Engine, out: Path, segments: Path, profile: str, **options: object) -> RunRecord:
    replay = ReplayRequest(run_id="test", segments=str(segments), taken_at_ms=BASE_MS * 2, profile=profile, **options)
    return run_audit(engine, replay, out)


OF_1_1_MS, OF_3_6_MS, LATER_MS = (
    int(datetime.fromisoformat(f"{day}T12:00+00:00").timestamp() * 1000)
    for day in ("2018-05-25", "2023-12-14", "2026-09-01")
)


def stamped(at: int, at_ms: int, *entries: tuple[bytes, bytes | None]) -> bytes:
    return encode_batch(entries, base_offset=at, timestamp_ms=at_ms)


@pytest.mark.parametrize(
    "head, folds",
    [
        pytest.param(stamped(0, OF_1_1_MS, commit("g", version=1)), 1, id="as its end"),
        pytest.param(stamped(0, OF_1_1_MS, commit("g", version=4)), 3, id="what the release of its end cannot read"),
        pytest.param(stamped(0, OF_3_6_MS, NEW_TYPE), 3, id="a type that it does not know"),
        pytest.param(stamped(0, LATER_MS, commit("g", version=1)), 2, id="newer than its end"),
    ],
)
def test_the_end_of_a_log_shows_by_which_rules_to_fold_it_and_all_of_it_decides(
    small: Engine, head: bytes, folds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = [stamped(1 + 200 * n, OF_1_1_MS, *[commit(f"g{n}", version=1)] * 200) for n in range(20)]
    log, read = b"".join([head, *rest]), list[str]()
    whole = of_evidence([evidence(log)])

    def counted(*args: Any, **options: Any) -> Any:
        read.append(args[3].text)
        return fold_log(*args, **options)

    monkeypatch.setattr(replay_groups, "fold_log", counted)
    record = audit(small, tmp_path / "out", write_log(tmp_path / "log", {0: log}), AUTO)
    assert (record.profile, record.profile_source) == (whole.profile.text, whole.source)
    assert len(read) == folds
    assert record.counts["undecodable_records"] == 0


def test_a_log_of_0_9_is_read_by_its_own_rules(small: Engine, tmp_path: Path) -> None:
    record = audit(small, tmp_path, GOLDEN / "kafka-0.9.0.1" / "before", AUTO)
    assert (record.profile, record.profile_source) == ("offset_manager:0.9", "proof: record format 0 alone")
    assert record.counts["committed_offsets"] == 281


def test_misplaced_groups_of_an_old_coordinator(small: Engine, tmp_path: Path) -> None:
    """One cache serves a misplaced copy, and its tombstone goes to the group's own log partition; a copy there wins."""
    there, both = misplaced(1, 2)[:2]
    homely = misplaced(0, 2)[0]
    logs = {
        0: batch(commit(there, 7), commit(both, 8), commit(homely, 9)),
        1: batch(commit(both, 80), tombstone("nobody")),
    }
    write_log(tmp_path / "log", logs)
    topics = tmp_path / "topics.jsonl"
    topics.write_text('{"topic": "__consumer_offsets", "id": null, "partitions": [[0, 3], [0, 2]]}\n')
    options = {"as_of_ms": BASE_MS + 120_000, "retention_minutes": 1, "topics_file": str(topics)}

    old = audit(small, tmp_path / "old", tmp_path / "log", "group_metadata_manager:2.8", **options)
    served = {(row["group_id"], row["committed_offset"]) for row in rows(tmp_path / "old", "committed_offsets")}
    assert served == {(there, 7), (both, 80), (homely, 9)}
    assert [row["group_id"] for row in rows(tmp_path / "old", "unreachable_offsets")] == [both]
    planned = [(row["log_partition"], row["group_id"]) for row in rows(tmp_path / "old", "tombstones")]
    assert sorted(planned) == sorted([(1, there), (1, both), (0, homely)])
    undone = pq.read_table(tmp_path / "old" / "plan" / "undo" / "1.parquet").to_pylist()
    assert {(row["group_id"], row["log_partition"], row["committed_offset"]) for row in undone} == {
        (there, 0, 7),
        (both, 1, 80),
    }
    assert old.misplaced_sources == {1: [0]}

    new = audit(small, tmp_path / "new", tmp_path / "log", "group_coordinator", **options)
    assert new.misplaced_sources == {}
    served = {(row["group_id"], row["committed_offset"]) for row in rows(tmp_path / "new", "committed_offsets")}
    assert served == {(both, 80), (homely, 9)}
    planned = {(row["log_partition"], row["group_id"]) for row in rows(tmp_path / "new", "tombstones")}
    assert planned == {(0, there), (0, both), (0, homely), (1, both)}


def misplaced(log_partition: int, partition_count: int) -> list[str]:
    """Groups that hash to a log partition."""
    names = (f"g{number}" for number in range(200))
    return [name for name in names if partition_of(name, partition_count) == log_partition]


def emptied(group_id: str) -> tuple[bytes, bytes | None]:
    """The record of a group that has lost its last member, and had no offset."""
    return group_entry(2, group_id, classic_fields(generation=3))


def test_the_tombstone_of_a_misplaced_group_without_offsets_goes_to_its_own_log_partition(small, tmp_path):
    """Also where nothing else lies there; and of a group that lies in both, the cache has the copy at home."""
    alone, both = misplaced(1, 3)[:2]
    (elsewhere,) = misplaced(2, 3)[:1]
    logs = {0: batch(emptied(alone), emptied(both), emptied(elsewhere)), 1: batch(emptied(both))}
    write_log(tmp_path / "log", logs)
    topics = tmp_path / "topics.jsonl"
    topics.write_text('{"topic": "__consumer_offsets", "id": null, "partitions": [[0, 3], [0, 1], [0, 0]]}\n')
    record = audit(small, tmp_path / "out", tmp_path / "log", "group_metadata_manager:3.9", topics_file=str(topics))
    planned = [(row["log_partition"], row["group_id"]) for row in rows(tmp_path / "out", "tombstones")]
    assert sorted(planned) == sorted([(1, alone), (1, both)])
    assert any("hash to log partition 2, which is not here" in text for text in record.warnings)


def test_an_archive_plans_tombstones_for_a_log_partition_that_was_empty(small: Engine, tmp_path: Path) -> None:
    """Where no snapshot found anything: a broker leads it all the same."""
    (lost,) = misplaced(1, 2)[:1]
    archive = Archive(tmp_path / "archive", partitions=2)
    archive.snapshot(BASE_MS, {0: batch(commit("x"))})
    archive.snapshot(BASE_MS + 500_000, {0: batch(emptied(lost), at=1)})
    replay = ReplayRequest(
        run_id="test", archive=archive.root, as_of_ms=BASE_MS + 400_000, since_ms=BASE_MS - 60_000,
        taken_at_ms=BASE_MS * 2, profile="group_metadata_manager:3.9",
    )  # fmt: skip
    record = run_audit(small, replay, tmp_path / "out")
    assert (record.log_partitions, record.cuts) == ([0, 1], {0: 2, 1: 0})
    planned = [(row["log_partition"], row["group_id"]) for row in rows(tmp_path / "out", "tombstones")]
    assert planned == [(1, lost)]


def test_a_run_warns_of_a_group_that_no_coordinator_can_describe(small: Engine, tmp_path: Path) -> None:
    stable = group_entry(2, "g", classic_fields(("m", subscription("t")), protocol=None))
    record = audit(small, tmp_path / "out", write_log(tmp_path / "log", {0: batch(stable)}), "group_coordinator")
    assert any("describes group g," in text for text in record.warnings)


def rows(out: Path, table: str) -> list[dict[str, object]]:
    return [row for file in sorted((out / table).glob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()]
