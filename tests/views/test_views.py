"""Where questions may be asked: segments, archive and run give one answer, and read no more than it takes."""

import json
import shutil

import pytest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import describe_group, list_groups
from sexton.errors import NoCoverage, UsageError
from sexton.log.message_set import encode_message_set
from sexton.views import log_parts
from tests.coordinator.api.broker import rows
from tests.coordinator.golden import GOLDEN
from tests.log_builder import BASE_MS, BatchSpec, commit, encode_log, offset_key, offset_value
from tests.record_fields import encode_key, encode_value
from tests.views.worlds import log_of, logs_of, view, write_archive, write_log, write_run

GROUPS = [f"group-{number}" for number in range(400)]
FEW = ["my-group", "console-consumer-1234", "connect-cluster"]
BEFORE = str(GOLDEN / "kafka-4.3.1-plain" / "before")
UNREADABLE = (offset_key("bad"), b"\x00\x63")


@pytest.fixture(params=["plain", "compiled"])
def way(request, monkeypatch):
    """Small log partitions are replayed plainly, large ones by the kernels: here either."""
    monkeypatch.setattr(log_parts, "PLAIN_BYTES", log_parts.PLAIN_BYTES if request.param == "plain" else -1)
    return request.param


def told(opened):
    """Every answer about every group that is listed."""
    listed = list_groups(opened.coordinator)
    names = [item.group.group_id for item in listed.groups]
    return listed, [(describe_group(opened.coordinator, name), fetch(opened.coordinator, name)) for name in names]


@pytest.mark.parametrize("recording", ["kafka-4.3.1-plain", "kafka-4.3.1-partial"])
def test_a_run_answers_as_its_segments_do(tmp_path, recording):
    before, topics = GOLDEN / recording / "before", GOLDEN / recording / "topics.jsonl"
    run = write_run(tmp_path / "run", segments=str(before), topics_file=str(topics))
    from_run, from_log = view(run=str(run)), view(segments=str(before), topics_file=str(topics))
    assert told(from_run) == told(from_log)
    assert from_run.topics == from_log.topics
    assert from_run.coordinator.partition_count == from_log.coordinator.partition_count == 4
    assert from_run.as_of_ms is not None


def test_the_archive_answers_as_its_segments_do(tmp_path):
    logs = logs_of(GROUPS, 3)
    archive = write_archive(tmp_path / "archive", logs, partition_count=3)
    segments = write_log(tmp_path / "log", logs)
    from_archive, from_log = view(archive=archive), view(segments=str(segments))
    assert told(from_archive) == told(from_log)
    assert from_archive.topics.log_end_offset("t", 1) == 50
    assert not from_log.topics.is_known


def test_one_group_takes_one_log_partition(tmp_path, way):
    segments = write_log(tmp_path, logs_of(GROUPS, 10))
    opened = view(segments=str(segments))
    assert opened.coordinator.partition_count == 10
    assert dict(opened.read) == {}, "the heads of the log partitions tell how many there are"
    assert rows(fetch(opened.coordinator, "group-7")) == {"t-0": [7]}
    assert list(opened.read) == [opened.coordinator.log_partition_of("group-7")]


def test_few_groups_are_all_asked_how_many_log_partitions_there_are(tmp_path):
    logs = {number: data for number, data in logs_of(GROUPS[:45], 50).items() if data}
    opened = view(segments=str(write_log(tmp_path, logs)), profile="group_coordinator")
    assert sorted(opened.read) == sorted(logs)
    assert opened.coordinator.partition_count == 50
    missing = ", ".join(str(number) for number in range(50) if number not in logs)
    assert opened.warnings == [f"log partitions not here: {missing}"]


def test_a_log_partition_that_is_not_here_is_no_empty_answer(tmp_path):
    logs = logs_of(GROUPS, 4)
    del logs[2]
    opened = view(segments=str(write_log(tmp_path, logs)))
    away = next(name for name in GROUPS if opened.coordinator.log_partition_of(name) == 2)
    here = next(name for name in GROUPS if opened.coordinator.log_partition_of(name) == 3)
    with pytest.raises(NoCoverage, match=f"log partition 2, where group '{away}' belongs, is not here"):
        opened.check_coverage([away])
    opened.check_coverage([here])
    assert fetch(opened.coordinator, away).error is Error.NOT_COORDINATOR


def test_a_log_partition_without_a_segment_in_the_archive_is_empty(tmp_path):
    logs = logs_of(GROUPS, 4)
    del logs[2]
    archive = write_archive(tmp_path / "archive", logs, partition_count=4)
    of_archive = view(archive=archive, profile="group_coordinator")
    of_run = view(run=str(write_run(tmp_path / "run", archive=archive)))
    away = next(name for name in GROUPS if of_archive.coordinator.log_partition_of(name) == 2)
    for opened in (of_archive, of_run):
        opened.check_coverage([away])
        assert fetch(opened.coordinator, away).error is Error.NONE
    assert of_archive.warnings == []
    assert of_run.topics.log_end_offset("t", 0) == 100


def test_as_of(tmp_path, way):
    later = BatchSpec(entries=(commit("g", 2),), timestamp_ms=BASE_MS + 10)
    data = encode_log([BatchSpec(entries=(commit("g", 1),)), later])
    segments = str(write_log(tmp_path, {0: data}))
    assert rows(fetch(view(segments=segments).coordinator, "g")) == {"t-0": [2]}
    assert rows(fetch(view(segments=segments, as_of_ms=BASE_MS + 10).coordinator, "g")) == {"t-0": [1]}
    early = view(segments=segments, as_of_ms=BASE_MS)
    with pytest.raises(NoCoverage, match="no record of log partition 0 was written before"):
        early.check_coverage(["g"])


def test_an_empty_log_partition_covers_every_instant(tmp_path, way):
    opened = view(segments=str(write_log(tmp_path, {0: b""})), as_of_ms=BASE_MS)
    opened.check_read()
    assert opened.coordinator.partition_count is None
    assert opened.warnings[0].startswith("1 folder of an unknown number of log partitions")


@pytest.mark.parametrize("profile, error", [("group_coordinator", 16), ("group_metadata_manager:2.8", 0)])
def test_a_load_that_fails(tmp_path, way, profile, error):
    segments = str(write_log(tmp_path, {0: log_of(commit("g", 1), UNREADABLE)}))
    opened = view(segments=segments, profile=profile)
    answer = fetch(opened.coordinator, "g")
    assert (answer.error, answer.offsets) == (error, ())
    assert opened.has_undecodable
    assert any("a coordinator's load would fail: log_offset 1: " in note for note in opened.notes())


def old_log(*entries):
    return b"".join(encode_message_set([entry], base_offset=n, magic=0) for n, entry in enumerate(entries))


def old_value(group_id, committed_offset):
    return offset_key(group_id), offset_value(committed_offset, version=1, expire_timestamp_ms=-1)


def test_a_load_that_leaves_what_came_before(tmp_path, way):
    """offset_manager: the prefix is served, and a group of its own is not installed; a run does not keep that."""
    fields = {"protocol_type": "consumer", "generation": 1, "protocol": "p", "leader": "m", "members": []}
    own = encode_key(2, {"group_id": "own"}), encode_value(2, 0, fields)
    entries = [old_value("g", 1), own, UNREADABLE, old_value("later", 2)]
    segments = str(write_log(tmp_path / "log", {0: old_log(*entries)}))
    opened = view(segments=segments, profile="offset_manager:0.9.0.1")
    assert rows(fetch(opened.coordinator, "g")) == {"t-0": [1]}
    assert rows(fetch(opened.coordinator, "later")) == {}
    assert list_groups(opened.coordinator).groups == ()
    run = write_run(tmp_path / "run", segments=segments, profile="offset_manager:0.9.0.1")
    with pytest.raises(UsageError, match="serves what it had read before its load failed"):
        fetch(view(run=str(run)).coordinator, "g")


def test_auto_takes_what_the_log_proves(tmp_path):
    segments = str(write_log(tmp_path, {0: old_log(old_value("g", 1))}))
    for asked in ({}, {"profile": "auto"}):
        proven = view(segments=segments, **asked)
        assert proven.coordinator.profile.name == "offset_manager"
        assert rows(fetch(proven.coordinator, "g")) == {"t-0": [1]}
        assert proven.doubts == []
    asked = view(segments=segments, profile="group_coordinator")
    assert (asked.coordinator.profile.name, len(asked.doubts)) == ("group_coordinator", 1)


def test_where_nothing_is_proven_the_newest_rules_are_taken_and_told(tmp_path):
    opened = view(segments=str(write_log(tmp_path, {0: log_of(commit("g", 1))})))
    assert opened.coordinator.profile.name == "group_coordinator"
    assert ["nothing in the log proves" in text for text in opened.warnings].count(True) == 1


def test_auto_takes_the_recorded_broker(tmp_path):
    archive = write_archive(tmp_path, logs_of(FEW, 2), partition_count=2, version="2.8.2")
    assert view(archive=archive, profile="auto").coordinator.profile.text == "group_metadata_manager:2.8.2"
    unproven = view(archive=archive, profile="group_metadata_manager:2.5")
    doubt, note, *_ = unproven.notes()
    assert doubt.startswith("the profile group_metadata_manager:2.5 is not that of the recorded broker: Kafka 2.8.2")
    assert note.startswith("group_metadata_manager:2.5 is unproven")


def test_a_misplaced_group_is_looked_for_in_all_log_partitions_where_one_cache_serves_it(tmp_path, way):
    logs = {**logs_of(GROUPS, 2), 0: log_of(commit("stray-1", 5))}
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "__consumer_offsets", "id": "x", "partitions": [[0, 1], [0, 1]]}) + "\n")
    segments = str(write_log(tmp_path / "log", logs))

    def asked(profile):
        opened = view(segments=segments, topics_file=str(topics), profile=profile)
        assert opened.coordinator.log_partition_of("stray-1") == 1
        return rows(fetch(opened.coordinator, "stray-1"))

    assert asked("group_metadata_manager:2.8") == {"t-0": [5]}
    assert asked("group_coordinator") == {}


@pytest.mark.parametrize(
    "request_fields, said",
    [
        ({}, "give one of --segments DIR, --archive URI and --run DIR"),
        ({"segments": "a", "run": "b"}, "give one of"),
        ({"segments": "absent"}, "no such folder"),
        ({"run": "absent"}, "no run here"),
        ({"archive": "absent"}, "the archive holds no segment"),
        ({"segments": BEFORE, "profile": "nonsense"}, "unknown profile"),
    ],
)
def test_requests_that_do_not_fit(request_fields, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, NoCoverage), match=said):
        view(**request_fields)


def test_a_run_is_of_its_instant_and_rules(tmp_path):
    run = write_run(tmp_path / "run", segments=str(write_log(tmp_path / "log", logs_of(FEW, 2))))
    as_of_ms = view(run=str(run)).as_of_ms
    assert view(run=str(run), as_of_ms=as_of_ms, profile="auto").as_of_ms == as_of_ms
    with pytest.raises(UsageError, match="the run is as of"):
        view(run=str(run), as_of_ms=1)
    with pytest.raises(UsageError, match="the run followed group_coordinator"):
        view(run=str(run), profile="group_metadata_manager")
    shutil.rmtree(run / "members")
    with pytest.raises(UsageError, match="members"):
        list_groups(view(run=str(run)).coordinator)


def test_a_topics_file_of_another_cluster(tmp_path):
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "__consumer_offsets", "id": None, "partitions": [[0, 1]]}) + "\n")
    segments = write_log(tmp_path / "log", logs_of(FEW, 2))
    with pytest.raises(UsageError, match="1 log partitions by the topics file, but there is a folder for 1"):
        view(segments=str(segments), topics_file=str(topics))
