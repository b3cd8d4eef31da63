"""`sexton fetch` and `sexton groups`: what is printed, for people and for machines, and with which exit code."""

import json
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from sexton.archive.cluster_metadata import LogPartitionMetadata
from sexton.archive.manifest import Lineage
from sexton.coordinator.partitioner import partition_of
from sexton.log.batch import read_batches
from sexton.log.message_set import encode_message_set
from sexton.records import decode_subscription, kafka_uuid
from tests.coordinator.golden import GOLDEN, lines
from tests.kafka.fake_cluster import FakeCluster
from tests.log_builder import (
    BASE_MS,
    TOPIC_IDS,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    offset_key,
    offset_value,
    subscription,
)
from tests.record_fields import decode_value
from tests.views.worlds import log_of, logs_of, write_archive, write_log, write_run

RECORDING = GOLDEN / "kafka-4.3.1-plain"
SEGMENTS = ("--segments", RECORDING / "before")
TOPICS = ("--topics", RECORDING / "topics.jsonl")
PENDING = BatchSpec(entries=(commit("g", 9),), producer_id=1, transactional=True)


@pytest.fixture
def held(tmp_path):
    """A group whose offset an open transaction is about to replace."""
    return "--segments", write_log(tmp_path, {0: encode_log([BatchSpec(entries=(commit("g", 5),)), PENDING])})


def table(out):
    """The cells of a printed table, by line."""
    return [re.split(r" {2,}", line.strip()) for line in out.splitlines()]


def test_fetch_prints_a_table(printed):
    assert table(printed("fetch", "classic-1", *SEGMENTS)) == [
        ["TOPIC", "PARTITION", "COMMITTED-OFFSET", "LEADER-EPOCH", "METADATA", "ERROR"],
        ["t1", "0", "0", "-", "-", "NONE"],
        ["t1", "1", "200", "0", "-", "NONE"],
        ["t1", "2", "0", "-", "-", "NONE"],
        ["t1", "3", "0", "-", "-", "NONE"],
    ]


def test_fetch_for_machines(asked):
    told = asked("fetch", "classic-1", "--topic", "t1:1", *SEGMENTS)
    (offset,) = told.pop("offsets")
    assert told == {
        "operation": "OffsetFetch", "profile": "group_coordinator:4.3.1", "is_proven": True, "as_of_ms": None,
        "group_id": "classic-1", "log_partition": 2, "error": "NONE", "error_code": 0, "waits": False, "warnings": [],
    }  # fmt: skip
    assert offset == {
        "topic": "t1", "partition": 1, "committed_offset": 200, "leader_epoch": 0, "metadata": "", "error": "NONE",
        "error_code": 0,
    }  # fmt: skip


def test_a_group_that_is_not_there_is_an_answer(run, asked):
    assert run("fetch", "nobody", *SEGMENTS) == (0, "nobody (log partition 1): no offsets\n", "")
    (row,) = asked("fetch", "nobody", "--topic", "t1:7", *SEGMENTS)["offsets"]
    assert (row["committed_offset"], row["error"]) == (-1, "NONE")


def test_a_stable_fetch(asked, held):
    for options, offset, error in [((), 5, "NONE"), (("--require-stable",), -1, "UNSTABLE_OFFSET_COMMIT")]:
        (row,) = asked("fetch", "g", *options, *held)["offsets"]
        assert (row["committed_offset"], row["error"]) == (offset, error)


def test_a_topic_without_partitions_is_all_of_them(asked):
    for options, partitions in [((), [0, 1, 2, 3]), (TOPICS, [0, 1, 2, 3])]:
        told = asked("fetch", "classic-1", "--topic", "t1", *SEGMENTS, *options)
        assert [row["partition"] for row in told["offsets"]] == partitions
    told = asked("fetch", "classic-1", "--topic", "t0", "--topic", "t1:2", "--topic", "t1:2", *SEGMENTS)
    assert [(row["topic"], row["partition"]) for row in told["offsets"]] == [("t0", 0), ("t1", 2)]


def test_fetch_by_topic_id(asked, tmp_path):
    """A topic was deleted and made anew: what was committed before does not count by its new id."""
    old, new = (kafka_uuid(topic_id) for topic_id in TOPIC_IDS[1:])
    log = write_log(tmp_path / "log", {0: log_of(commit("g", 5, version=4, topic_id=TOPIC_IDS[1]))})
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "t", "id": new, "partitions": [[0, 9], [0, 9]]}) + "\n")

    def offsets(*options):
        rows = asked("fetch", "g", *options, "--segments", log, "--topics", topics)["offsets"]
        return [(row["topic"], row["partition"], row["committed_offset"], row["error"]) for row in rows]

    assert offsets() == [("t", 0, 5, "NONE")]
    assert offsets("--topic-id", new) == [("t", 0, -1, "NONE"), ("t", 1, -1, "NONE")]
    assert offsets("--topic", "t:0", "--topic-id", old) == [("t", 0, 5, "NONE")]
    assert offsets("--topic", "t:0", "--topic-id", new) == [("t", 0, -1, "NONE")]
    assert offsets("--topic-id", old) == [("", 0, -1, "UNKNOWN_TOPIC_ID")]


def test_undecodable_input_is_exit_code_5_and_still_answered(run, tmp_path):
    log = write_log(tmp_path, {0: log_of(commit("g", 5), (offset_key("g"), b"\x00\x63"))})
    code, out, err = run("fetch", "g", "--segments", log, "--partition-count", "1")
    assert (code, out) == (5, "g (log partition 0): NOT_COORDINATOR (16)\n")
    assert "! log partition 0: a coordinator's load would fail: log_offset 1: unknown_value_version" in err
    rules = "--profile", "group_metadata_manager:2.8", "--partition-count", "1"
    code, out, err = run("fetch", "g", "--segments", log, *rules, "--json")
    told = json.loads(out)
    assert (code, err, told["error"], told["offsets"]) == (5, "", "NONE", [])
    assert told["warnings"][0].startswith("log partition 0: a coordinator's load would fail")


@pytest.mark.parametrize("plain_bytes", [1 << 20, 0], ids=["plain", "compiled"])
def test_batches_out_of_order_are_answered_as_the_broker_replays_them(run, tmp_path, monkeypatch, plain_bytes):
    monkeypatch.setattr("sexton.views.log_parts.PLAIN_BYTES", plain_bytes)
    log = log_of(commit("g", 5), commit("h", 1)) + log_of(commit("g", 33))
    root = write_log(tmp_path, {0: log + encode_log([BatchSpec(entries=(commit("h", 2),))], base_offset=2)})
    code, out, err = run("fetch", "g", "--segments", root, "--partition-count", "1")
    assert (code, table(out)[1][2]) == (5, "33")
    assert "log partition 0: 1 batch out of order: a broker replays them where they lie" in err


def test_a_log_partition_that_is_not_here_is_exit_code_4(run, tmp_path):
    logs = logs_of([f"group-{number}" for number in range(300)], 3)
    del logs[1]
    root = write_log(tmp_path, logs)
    codes = {run("fetch", f"group-{number}", "--segments", root)[0] for number in range(6)}
    assert codes == {0, 4}
    assert run("groups", "describe", *(f"group-{number}" for number in range(6)), "--segments", root)[0] == 4


@pytest.mark.parametrize("command", [("fetch", "g"), ("groups", "list"), ("groups", "describe", "--all-groups")])
def test_an_instant_before_the_log_is_exit_code_4(refused, tmp_path, command):
    root = write_log(tmp_path, {0: log_of(commit("g"))})
    err = refused(4, *command, "--segments", root, "--as-of", "1970-01-02")
    assert "no record of log partition 0 was written before 86400000 ms" in err


@pytest.mark.parametrize(
    "argv, said",
    [
        (["fetch"], "Missing argument 'GROUP'"),
        (["fetch", "g"], "give one of --segments DIR, --archive URI and --run DIR"),
        (["fetch", "g", "--segments", "a", "--run", "b"], "give one of"),
        (["fetch", "g", "--segments", "absent"], "no such folder"),
        (["fetch", "g", *SEGMENTS, "--topic", "t:x"], "--topic: not TOPIC or TOPIC:PARTITION: 't:x'"),
        (["fetch", "g", *SEGMENTS, "--topic", ":1"], "--topic: not TOPIC"),
        (["fetch", "g", *SEGMENTS, "--topic", "a", "--topic", "b", "--topic-id", "x"], "an id belongs to one topic"),
        (["fetch", "g", *SEGMENTS, "--profile", "nobody"], "--profile: unknown profile"),
        (["fetch", "g", *SEGMENTS, "--as-of", "soon"], "--as-of: not an instant"),
        (["fetch", "g", *SEGMENTS, "--topics", "absent"], "absent: no such file"),
        (["groups", "describe", *SEGMENTS], "give the groups, or --all-groups"),
        (["groups", "describe", "g", "--all-groups", *SEGMENTS], "give the groups, or --all-groups"),
        (["groups", "describe", "g", "--members", "--state", *SEGMENTS], "one of --offsets, --members and --state"),
        (["groups", "unload", "9", *SEGMENTS], "log partition 9 is not here"),
        (["groups", "check-commit", "g", "t", *SEGMENTS], "not TOPIC:PARTITION: 't'"),
        (["groups", "check-commit", "g", "t:0", "--codec", "brotli", *SEGMENTS], "--codec: unknown codec 'brotli'"),
        (["groups", "metadata-record", "consumer-1", *SEGMENTS], "is Consumer"),
    ],
    ids=lambda value: " ".join(map(str, value[:3])) if isinstance(value, list) else "",
)
def test_usage(misused, argv, said):
    assert said in misused(*argv)


def test_groups_are_listed_as_the_broker_listed_them(printed, asked):
    header, *rows = table(printed("groups", "list", *SEGMENTS))
    assert header == ["GROUP", "TYPE", "STATE", "PROTOCOL", "LOG-PARTITION"]
    answers = {a["group"]: (a["type"], a["state"], a["protocol"] or "-") for a in lines(RECORDING / "loaded.jsonl")}
    assert len(rows) == len(answers)
    assert {name: tuple(cells) for name, *cells, _ in rows if name in answers}.items() <= answers.items()
    told = asked("groups", "list", *SEGMENTS)
    assert {group["group_id"]: group["state"] for group in told["groups"]} == {n: a[1] for n, a in answers.items()}
    only = asked("groups", "list", "--state", "stable", "--type", "consumer", *SEGMENTS)["groups"]
    assert {group["group_id"] for group in only} == {n for n, a in answers.items() if a[:2] == ("Consumer", "Stable")}
    assert only


@pytest.mark.parametrize(
    ("rules", "marks"),
    [(("--partition-count", 2), {0: "0 (misplaced)", 1: "1"}), ((), {0: "0", 1: "1"}),
     (("--partition-count", 2, "--profile", "group_metadata_manager:2.8"), {1: "1"})],
    ids=["count known", "not known", "one cache serves it"],
)  # fmt: skip
def test_misplaced_copies_are_marked(out_of, tmp_path, rules, marks):
    (home,) = (number for number in (0, 1) if partition_of("g", 2) == number)
    assert home == 1
    root = write_log(tmp_path, {number: log_of(commit("g", number)) for number in (0, 1)})
    command = "groups", "list", "--segments", root, *rules
    assert [row[-1] for row in table(out_of(*command))[1:]] == list(marks.values())
    told = json.loads(out_of(*command, "--json"))["groups"]
    assert {row["log_partition"]: row["is_misplaced"] for row in told} == {
        number: "misplaced" in mark for number, mark in marks.items()
    }


def test_describe_has_kafka_s_columns(printed):
    header, *rows = table(printed("groups", "describe", "classic-1", *SEGMENTS, *TOPICS))
    assert header == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    ]
    member = rows[0][6]
    assert rows == [
        ["classic-1", "t1", str(number), offset, offset, "0", member, "/127.0.0.1", "classic-client-1"]
        for number, offset in enumerate(["0", "200", "0", "0"])
    ]
    assert member.startswith("inst-1-")


def test_describe_without_topics_knows_no_lag(run):
    _, out, _ = run("groups", "describe", "classic-1", *SEGMENTS)
    assert {tuple(row[4:6]) for row in table(out)[1:]} == {("-", "-")}


def test_lag_and_the_order_of_rows(asked, tmp_path):
    """The member with most partitions first; then what was committed and nobody has."""

    def assignment(topic, *partitions):
        numbers = len(partitions).to_bytes(4) + b"".join(number.to_bytes(4) for number in partitions)
        return bytes(2) + (1).to_bytes(4) + len(topic).to_bytes(2) + topic.encode() + numbers + b"\xff" * 4

    fields = classic_fields(("few", subscription("t")), ("many", subscription("t")))
    fields["members"][0]["assignment"] = assignment("t", 5)
    fields["members"][1]["assignment"] = assignment("t", 1, 0)
    entries = [commit("g", 40, partition=0), commit("g", 7, topic="u"), group_entry(2, "g", fields)]
    log = write_log(tmp_path / "log", {0: log_of(*entries)})
    topics = tmp_path / "topics.jsonl"
    topics.write_text(json.dumps({"topic": "t", "id": None, "partitions": [[0, 100], [0, 9]]}) + "\n")
    (group,) = asked("groups", "describe", "g", "--segments", log, "--topics", topics)["groups"]
    assert [
        (row["topic"], row["partition"], row["current_offset"], row["log_end_offset"], row["lag"], row["consumer_id"])
        for row in group["offsets"]
    ] == [
        ("t", 0, 40, 100, 60, "many"),
        ("t", 1, None, 9, None, "many"),
        ("t", 5, None, None, None, "few"),
        ("u", 0, 7, None, None, None),
    ]


def test_describe_members_and_states(run):
    _, out, _ = run("groups", "describe", "classic-1", "consumer-1", "--members", *SEGMENTS)
    assert table(out)[0] == ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert [(row[0], row[2], row[4], row[5]) for row in table(out)[1:]] == [
        ("classic-1", "inst-1", "classic-client-1", "4"),
        ("consumer-1", "inst-1", "consumer-client-1", "4"),
    ]
    _, out, _ = run("groups", "describe", "classic-1", "consumer-0", "--state", *SEGMENTS)
    assert table(out) == [
        ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LOG-PARTITION"],
        ["classic-1", "-", "range", "Stable", "1", "2"],
        ["consumer-0", "-", "-", "Empty", "0", table(out)[2][5]],
    ]


def test_describe_says_what_kafka_s_tool_says_of_states(run):
    code, out, err = run("groups", "describe", "nobody", "classic-0", *SEGMENTS)
    assert code == 0
    assert err == ("Consumer group 'nobody' does not exist.\nConsumer group 'classic-0' has no active members.\n")
    assert {row[0] for row in table(out)[1:]} == {"classic-0"}
    assert run("groups", "describe", "nobody", *SEGMENTS)[:2] == (0, "")


def test_describe_every_group(printed, asked):
    assert len(table(printed("groups", "describe", "--all-groups", "--state", *SEGMENTS))) == 1 + len(
        lines(RECORDING / "loaded.jsonl")
    )
    told = asked("groups", "describe", "--all-groups", *SEGMENTS)["groups"]
    assert {group["error"] for group in told} == {"NONE"}


def test_coordinator(run, asked, tmp_path):
    _, out, _ = run("groups", "coordinator", "my-group", "classic-1", *SEGMENTS)
    assert table(out)[0] == ["GROUP", "LOG-PARTITION", "COORDINATOR (ID)", "ERROR"]
    assert [row[:2] for row in table(out)[1:]] == [["my-group", "2"], ["classic-1", "2"]]
    assert asked("groups", "coordinator", "my-group", *SEGMENTS)["partition_count"] == 4
    misplaced = write_log(tmp_path, {0: log_of(commit("d")), 1: log_of(commit("d"))})
    code, out, _ = run("groups", "coordinator", "d", "x", "--segments", misplaced)
    assert (code, [row[:2] for row in table(out)[1:]]) == (0, [["d", "0"], ["x", "-"]])


def test_unload(run, asked, held):
    code, out, _ = run("groups", "unload", "0", *held)
    assert (code, out.splitlines()[0]) == (0, "1 cached offsets and 1 cached groups go with log partition 0")
    assert asked("groups", "unload", "0", *held)["groups"] == ["g"]


def test_check_commit(run, asked):
    _, out, _ = run("groups", "check-commit", "classic-1", "t1:0", "gone:0", *SEGMENTS, *TOPICS)
    assert table(out) == [
        ["TOPIC", "PARTITION", "ERROR"],
        ["t1", "0", "UNKNOWN_MEMBER_ID"],
        ["gone", "0", "UNKNOWN_TOPIC_OR_PARTITION"],
        ["nothing would be appended"],
    ]
    long = ("--metadata-length", "5000")
    longer = (*long, "--max-metadata-length", "5000")
    for options, error in [((), "NONE"), (long, "OFFSET_METADATA_TOO_LARGE"), (longer, "NONE")]:
        (told,) = asked("groups", "check-commit", "new", "t1:0", *options, *SEGMENTS)["partitions"]
        assert told["error"] == error
    told = asked("groups", "check-commit", "classic-1", "t1:0", "--transactional", *SEGMENTS)
    assert (told["operation"], told["partitions"][0]["error"]) == ("TxnOffsetCommit", "NONE")


def test_the_timestamp_of_version_1(asked, tmp_path):
    old = ("--segments", write_log(tmp_path, {0: log_of(commit("g"))}), "--profile", "group_metadata_manager:2.8")
    told = asked("groups", "check-commit", "g", "t:0", "--api-version", "1", "--timestamp-ms", "1234", *old)
    assert decode_value(1, bytes.fromhex(told["records"][0]["value"]))[1]["commit_timestamp_ms"] == 1234


def test_the_acks_of_an_append(run, asked, tmp_path):
    log = ("--segments", write_log(tmp_path, {0: log_of(commit("g"))}))
    old = (*log, "--profile", "group_metadata_manager:2.8")
    for question in (("check-commit", "g", "t:0"), ("metadata-record", "g")):
        assert "REQUEST_TIMED_OUT" in asked("groups", *question, *old)["after_failed_append"]
        told = asked("groups", *question, "--required-acks", "1", *old)
        assert (told["required_acks"], "REQUEST_TIMED_OUT" in told["after_failed_append"]) == (1, False)
        assert "answered at once" in run("groups", *question, "--required-acks", "1", *old)[1]
        assert "answered once all in-sync replicas have it, or after 5000 ms" in run("groups", *question, *old)[1]
        assert run("groups", *question, "--required-acks", "1", *log)[0] == 2


def test_the_batch_of_a_commit(run, asked, tmp_path):
    options = ("check-commit", "classic-1", "t1:0", "--transactional", "--producer-id", "77", *SEGMENTS)
    answer = asked("groups", *options, "--out", tmp_path / "out")
    (written,) = (tmp_path / "out").iterdir()
    assert written.name == f"{answer['base_offset']:020d}.log"
    (batch,) = read_batches(written.read_bytes())
    assert (batch.base_offset, batch.producer_id, batch.is_transactional) == (answer["base_offset"], 77, True)
    assert written.read_bytes().hex() == answer["batch"]
    assert answer["after_failed_append"]["NETWORK_EXCEPTION"][0]["error"] == "COORDINATOR_LOAD_IN_PROGRESS"
    _, out, _ = run("groups", *options)
    assert f"would be appended at log_offset {answer['base_offset']}: 1 records" in out
    assert ["NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"] in table(out)


def test_a_transaction_on_an_old_format(asked, tmp_path):
    log = ("--segments", write_log(tmp_path, {0: log_of(commit("g"))}), "--profile", "group_metadata_manager:2.8")
    answer = asked("groups", "check-commit", "g", "t:0", "--transactional", "--message-format", "1", *log)
    assert answer["partitions"][0]["error"] == "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    assert (answer["batch"], answer["records"]) == (None, [])


def test_a_codec_that_the_release_does_not_write_is_refused(refused, asked, tmp_path):
    log = ("--segments", write_log(tmp_path / "disk", {0: log_of(commit("g", version=1))}), "--partition-count", 1)
    questions = ["groups", "check-commit", "g", "t:0"], ["groups", "metadata-record", "g"]
    wrong = (
        ("--profile", "group_metadata_manager:1.1.1", "--codec", "zstd"),
        ("--profile", "group_metadata_manager:2.8.2", "--codec", "zstd", "--message-format", 1),
        ("--profile", "offset_manager:0.9.0.1", "--message-format", 2),
    )
    for question in questions:
        for options in wrong:
            assert "does not write" in refused(2, *question, *options, *log)
        assert asked(*question, "--profile", "group_metadata_manager:2.8.2", "--codec", "zstd", *log)["batch"]
        small = asked(*question, *wrong[1][:2], "--max-message-bytes", 9, *log)
        assert small["batch"] is None
    assert small["error"] == "UNKNOWN_SERVER_ERROR"
    audit = ("audit", *log, *wrong[0], "--out", tmp_path / "out")
    assert "does not write zstd" in refused(2, *audit)


OLD_COMMIT = (offset_key("g"), offset_value(7, version=1, commit_timestamp_ms=BASE_MS + 10))
FORMAT_0 = encode_message_set([OLD_COMMIT], base_offset=0, magic=0)


@pytest.mark.parametrize(
    "question",
    [("fetch", "g"), ("groups", "list"), ("groups", "describe", "g"), ("explain", "g"), ("audit",), ("diff",)],
)
def test_record_format_0_does_not_say_what_was_there(run, refused, tmp_path, question):
    """Another log partition with timestamps does not date the records of this one."""
    folder = write_log(tmp_path / "disk", {1: FORMAT_0, 0: log_of(commit("h", version=1))})
    log = ("--segments", folder, "--partition-count", 2, "--profile", "group_metadata_manager:0.11")
    out = ("--out", tmp_path / "out") if question == ("audit",) else ()
    at = (lambda ms: (ms, ms)) if question == ("diff",) else (lambda ms: ("--as-of", ms))
    assert "bear no timestamp" in refused(4, *question, *at(str(BASE_MS + 10)), *log, *out)
    assert run(*question, *at(str(BASE_MS + 11)), *log, *out)[0] == 0


def test_explain_has_no_instant_of_record_format_0(asked, tmp_path):
    log = ("--segments", write_log(tmp_path / "disk", {0: FORMAT_0}), "--profile", "offset_manager:0.9.0.1")
    told = asked("explain", "g", "--partition-count", 1, "--from", "2020-01-01", *log)
    assert {event["timestamp_ms"] for event in told["events"]} == {None}
    assert [one["reason"] for one in told["next"]] == ["not_due"]


@pytest.fixture
def recorded(tmp_path):
    """An archive of two log partitions of which broker 7 led the first, and broker 8 the other."""
    leaders = {
        part: LogPartitionMetadata(
            lineage=Lineage(ordinal=0, start_log_offset=0).name, log_start_offset=0, high_watermark=1_000,
            last_stable_offset=1_000, leader=7 + part, leader_epoch=5,
        )
        for part in range(2)
    }  # fmt: skip
    home = partition_of("g", 2)
    told = {"offset.metadata.max.bytes": "3", "offsets.topic.compression.codec": "1", "offsets.retention.minutes": "5"}
    return "--archive", write_archive(
        tmp_path / "archive",
        {home: encode_log([BatchSpec(entries=(commit("g", 5), group_entry(2, "g", classic_fields())))]), 1 - home: b""},
        partition_count=2,
        settings=told,
        topic_settings={"compression.type": "zstd"},
        log_partitions=leaders,
        brokers_differ={"offsets.load.buffer.size": {"7": "1", "8": "2"}},
    )


def test_what_the_snapshot_recorded_is_the_default_of_the_write_path(run, recorded):
    def told(*words):
        code, out, _ = run("groups", *words, *recorded, "--json")
        assert code == 0
        return json.loads(out)

    commits = ("check-commit", "g", "t:0")
    assert told(*commits, "--metadata-length", 3)["partitions"][0]["error"] == "NONE"
    assert told(*commits, "--metadata-length", 4)["partitions"][0]["error"] == "OFFSET_METADATA_TOO_LARGE"
    wider = told(*commits, "--metadata-length", 4, "--max-metadata-length", 4)
    assert wider["partitions"][0]["error"] == "NONE"
    for words in (commits, ("metadata-record", "g")):
        for options, codec in (((), 4), (("--codec", "none"), 0), (("--codec", "lz4"), 3)):
            (batch,) = read_batches(bytes.fromhex(told(*words, *options)["batch"]))
            assert batch.codec == codec
    _, out, err = run("groups", *commits, *recorded)
    assert "codec zstd" in out
    assert "! brokers differ in offsets.load.buffer.size: 1 on broker 7, 2 on broker 8" in err


def test_the_retention_of_the_record_is_the_brokers(run, recorded):
    """Up to 2.0 it is part of every record."""
    _, out, _ = run(
        "groups", "check-commit", "g", "t:0", *recorded, "--profile", "group_metadata_manager:2.0", "--codec", "none",
        "--json",
    )  # fmt: skip
    ((_, value),) = (row.values() for row in json.loads(out)["records"])
    _, told = decode_value(1, bytes.fromhex(value))
    assert told["expire_timestamp_ms"] - told["commit_timestamp_ms"] == 5 * 60_000


def test_who_coordinates(run, asked, recorded):
    home = partition_of("g", 2)
    broker = 7 + home
    _, out, _ = run("groups", "coordinator", "g", *recorded)
    assert table(out)[1] == ["g", str(home), str(broker), "NONE"]
    _, out, _ = run("groups", "describe", "g", "--state", *recorded)
    assert table(out)[1][:2] == ["g", str(broker)]
    assert json.loads(run("groups", "describe", "g", *recorded, "--json")[1])["groups"][0]["coordinator"] == broker
    _, out, _ = run("groups", "unload", home, *recorded)
    assert f"go with log partition {home}, which broker {broker} led when the snapshot was taken" in out
    assert json.loads(run("groups", "unload", home, *recorded, "--json")[1])["leader"] == broker
    assert asked("groups", "coordinator", "my-group", *SEGMENTS)["groups"][0]["leader"] is None


def test_a_run_keeps_what_the_snapshot_recorded(run, recorded, tmp_path):
    write_run(tmp_path / "run", archive=recorded[1])
    _, out, _ = run("groups", "coordinator", "g", "--run", tmp_path / "run")
    assert table(out)[1][2] == str(7 + partition_of("g", 2))
    _, out, _ = run("groups", "metadata-record", "g", "--run", tmp_path / "run", "--json")
    (batch,) = read_batches(bytes.fromhex(json.loads(out)["batch"]))
    assert batch.codec == 4
    rows = [
        row
        for file in (tmp_path / "run" / "load_profile").glob("*.parquet")
        for row in pq.read_table(file, partitioning=None).to_pylist()
    ]
    assert {row["log_partition"]: row["coordinator"] for row in rows} == {0: 7, 1: 8}


def test_metadata_record(run, asked):
    told = asked("groups", "metadata-record", "classic-2", *SEGMENTS)
    assert told["key"] == "00020009" + b"classic-2".hex()
    assert (told["version"], told["value"][:4]) == (3, "0003")
    _, out, _ = run("groups", "metadata-record", "classic-2", *SEGMENTS)
    assert f"value  {told['value']}\n" in out


def test_metadata_record_of_a_group_with_members(asked):
    answer = asked("groups", "metadata-record", "classic-1", *SEGMENTS)
    _, fields = decode_value(2, bytes.fromhex(answer["value"]))
    (member,) = fields["members"]
    assert decode_subscription(member["subscription"]) == ["t1"]
    (batch,) = read_batches(bytes.fromhex(answer["batch"]))
    assert batch.base_offset == answer["base_offset"]


def test_the_record_of_a_group_that_is_not_there_is_that_of_a_new_one(run, asked, refused, tmp_path):
    answer = asked("groups", "metadata-record", "nobody", *SEGMENTS)
    assert (answer["error"], answer["is_new"], bool(answer["batch"])) == ("NONE", True, True)
    _, value = decode_value(2, bytes.fromhex(answer["value"]))
    assert (value["generation"], value["protocol_type"], value["members"]) == (0, "", [])
    assert "nobody: not there yet; the first JoinGroup writes it\n" in run(
        "groups", "metadata-record", "nobody", *SEGMENTS
    )[1]  # fmt: skip
    assert not asked("groups", "metadata-record", "classic-2", *SEGMENTS)["is_new"]
    old = ("--segments", write_log(tmp_path, {0: log_of(commit("g", version=1))}), "--partition-count", 1, "--profile")
    _, out, _ = run("groups", "metadata-record", "nobody", *old, "group_metadata_manager:2.8")
    assert "nobody: not there yet; in memory until its first generation\n" in out
    first = "stores a group with its first generation, not before"
    assert first in refused(2, "groups", "metadata-record", "nobody", *old, "offset_manager:0.10.0")


def test_check_join(run, asked):
    _, out, _ = run("groups", "check-join", "nobody", *SEGMENTS)
    header, row, note = out.splitlines()
    assert row.split() == ["nobody", "MEMBER_ID_REQUIRED", "Empty", "0", "yes"]
    assert header.split() == ["GROUP", "ERROR", "STATE", "GENERATION", "NEW-GROUP"]
    assert "the record of the new group is appended" in note
    known = asked("groups", "check-join", "nobody", "--member-id", "m", *SEGMENTS)
    assert (known["error"], known["state"], known["makes_group"]) == ("UNKNOWN_MEMBER_ID", None, False)
    for options, error in (
        (("--protocol", "x"), "INCONSISTENT_GROUP_PROTOCOL"),
        (("--protocol", "x", "--protocol", "range", "--api-version", 3), "NONE"),
        (("--protocol-type", "connect"), "INCONSISTENT_GROUP_PROTOCOL"),
        (("--group-instance-id", "i"), "NONE"),
    ):
        assert asked("groups", "check-join", "classic-1", *options, *SEGMENTS)["error"] == error


def test_check_join_while_a_member_waits_in_syncgroup(run, asked, refused):
    (member,) = asked("groups", "describe", "classic-1", *SEGMENTS)["groups"][0]["members"]
    waits = ("groups", "check-join", "classic-1", "--syncing", member["consumer_id"], "--api-version", 3)
    assert table(run(*waits, *SEGMENTS)[1])[1:-1] == [
        ["classic-1", "NONE", "PreparingRebalance", "2", "no"], [""], ["MEMBER", "SYNCGROUP", "SESSION-ENDS"],
    ]  # fmt: skip
    assert table(run(*waits, *SEGMENTS)[1])[-1][1] == "REBALANCE_IN_PROGRESS"
    again = asked(*waits, "--member-id", member["consumer_id"], *SEGMENTS)
    kept = {"awaits_sync": True, "sync_error": None, "session_ends_at_ms": None}
    assert again["members"] == [{"member_id": member["consumer_id"], **kept}]
    assert table(run(*waits, "--member-id", member["consumer_id"], *SEGMENTS)[1])[-1][1:] == ["waits", "-"]
    assert "not members of a classic group: x" in refused(2, *waits[:3], "--syncing", "x", *SEGMENTS)


def test_a_commit_says_that_it_makes_the_group(run, asked):
    counts = ("groups", "check-commit", "nobody", "t1:0")
    assert asked(*counts, *SEGMENTS)["makes_group"]
    assert "makes the group nobody: Empty, generation 0, without a record\n" in run(*counts, *SEGMENTS)[1]
    assert not asked(*counts, "--generation", 3, *SEGMENTS)["makes_group"]
    assert not asked("groups", "check-commit", "classic-2", "t1:0", *SEGMENTS)["makes_group"]


def test_no_line_is_wrapped_in_a_pipe(run, tmp_path):
    name = "g" * 300
    log = write_log(tmp_path, {0: log_of(commit(name, metadata="m" * 400))})
    assert len(run("groups", "describe", name, "--segments", log)[1].splitlines()) == 2
    assert len(run("fetch", name, "--segments", log)[1].splitlines()) == 2


def loaded(heavy, *argv):
    """How a command ends in a process of its own, which fails if one of these modules is imported then."""
    program = (
        "import sys\nfrom sexton.__main__ import start\n"
        f"sys.argv = {['sexton', *map(str, argv)]!r}\n"
        "code = start()\n"
        f"found = set({heavy!r}.split()) & set(sys.modules)\n"
        "import pyspark, pandas\n"  # which are here all the same
        "sys.exit(f'imported {found}' if found else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_question_to_a_run_needs_no_compiler(tmp_path):
    """What takes longest to load reads logs; a question to a run, and to help, must not wait for it."""
    run = write_run(tmp_path, segments=str(RECORDING / "before"))
    code, out, err = loaded("numba pyspark airflow great_expectations kafka", "fetch", "classic-1", "--run", run)
    assert (code, err) == (0, "")
    assert "COMMITTED-OFFSET" in out


def test_a_question_to_a_log_needs_no_spark_and_no_pandas():
    """Nor SciPy and cffi: pyarrow and numba would import them, and they are installed here."""
    heavy = "pyspark airflow great_expectations kafka pandas scipy cffi"
    code, _, err = loaded(heavy, "fetch", "classic-1", *SEGMENTS)
    assert (code, err) == (0, "")


def test_a_policy_is_checked_without_any_of_them():
    heavy = "numba pyspark pyarrow airflow great_expectations kafka"
    code, _, err = loaded(heavy, "policy", "check", "absent.yaml")
    assert (code, "absent.yaml: No such file" in err) == (2, True)


def test_a_long_name_does_not_widen_every_line(run, tmp_path):
    """Whoever may name a group could else make each line of everybody's pipe as long as the longest name."""
    names = ["n" * 32_767, *(f"g{number}" for number in range(50))]
    segments = "--segments", write_log(tmp_path, logs_of(names, 1))
    code, out, _ = run("groups", "list", *segments)
    assert code == 0
    lines = out.splitlines()
    assert sorted(line.split()[0] for line in lines[1:]) == sorted(names)
    assert sorted(map(len, lines))[-2] < 120


def test_long_text_on_a_terminal_is_shortened_with_its_length(run, tmp_path, monkeypatch):
    segments = "--segments", write_log(tmp_path, logs_of(["n" * 32_767], 1))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    _, out, _ = run("groups", "list", *segments)
    assert "…(32,767)…" in re.sub(r"\s", "", out)
    assert len(out) < 4_000


@pytest.fixture
def brokers(monkeypatch):
    """A cluster of two brokers, each with a group."""
    cluster = FakeCluster(1)
    cluster.brokers, cluster.groups = {1: {}, 2: {}}, {1: ["b"], 2: ["a"]}
    monkeypatch.setattr("sexton.kafka.session.ClusterSession", lambda config: cluster.connect(config))
    monkeypatch.setattr("sexton.kafka.rights.sees_all_groups", lambda session: True)
    return cluster


LIVE = ("groups", "list", "--bootstrap-servers", "fake:9092")


def test_the_groups_of_a_cluster(run, printed, brokers):
    assert table(printed(*LIVE)) == [
        ["GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR (ID)"],
        ["a", "classic", "Empty", "-", "2"],
        ["b", "classic", "Empty", "-", "1"],
    ]
    assert table(run(*LIVE, "--state", "stable")[1])[1:] == []


def test_a_broker_that_fails_does_not_end_the_listing_of_a_cluster(run, brokers):
    brokers.dead = {2}
    code, out, err = run(*LIVE)
    assert code == 1
    assert [row[0] for row in table(out)] == ["GROUP", "b"]
    assert err == "! broker 2 failed, and its groups are missing: broker 2 gives no answer\n"
    code, out, _ = run(*LIVE, "--json")
    told = json.loads(out)
    assert (code, [group["group_id"] for group in told["groups"]]) == (1, ["b"])
    assert told["failed_brokers"] == [{"broker": 2, "error": "broker 2 gives no answer"}]


def test_a_listing_is_of_a_cluster_or_of_a_log(refused, brokers):
    assert "give a cluster or a log, not both" in refused(2, *LIVE, *SEGMENTS)


def test_what_is_answered_over_commits_in_flight(run, asked, held):
    told = asked("fetch", "g", "--require-stable", "--in-flight", "u:1=42", "--in-flight", "t:0=7", *held)
    assert told["waits"] is True
    assert told["in_flight"] == [
        {"topic": "u", "partition": 1, "if_appended": 42, "if_failed": -1},
        {"topic": "t", "partition": 0, "if_appended": "UNSTABLE_OFFSET_COMMIT", "if_failed": "UNSTABLE_OFFSET_COMMIT"},
    ]
    _, out, _ = run("fetch", "g", "--in-flight", "t:0=7", "--in-flight", "u:1", *held)
    assert table(out)[-3:] == [
        ["TOPIC", "PARTITION", "ONCE APPENDED", "IF THE APPEND FAILS"],
        ["t", "0", "7", "5"],
        ["u", "1", "-", "-1"],
    ]
    assert run("fetch", "g", "--in-flight", "t:0=x", *held)[0] == 2
    one = ("--topic", "u:1", "--in-flight", "u:1=42", "--producer-id", 99)
    told = asked("fetch", "g", "--require-stable", *one, *held)
    assert told["in_flight"] == [
        {"topic": "u", "partition": 1, "if_appended": "UNSTABLE_OFFSET_COMMIT", "if_failed": -1}
        | {"if_committed": 42, "if_aborted": -1}
    ]


def test_a_group_that_is_dead_when_the_log_answers(asked, refused, tmp_path):
    disk = ("--segments", write_log(tmp_path, {0: log_of(commit("g", 5, version=1))}), "--partition-count", 1)
    flies = ("fetch", "g", "--topic", "t:0", "--in-flight", "t:0=7", *disk)
    old = ("--profile", "group_metadata_manager:3.9")
    (row,) = asked(*flies, "--dead", *old)["in_flight"]
    assert row == {"topic": "t", "partition": 0, "if_appended": -1, "if_failed": -1}
    (row,) = asked(*flies, *old)["in_flight"]
    assert (row["if_appended"], row["if_failed"]) == (7, 5)
    for words in ((*flies, "--profile", "group_coordinator"), ("fetch", "g", *disk, *old)):
        assert "a group is Dead while its commits are in flight" in refused(2, *words, "--dead")


def test_a_plan_of_a_disk_in_the_codec_of_its_broker(run, tmp_path):
    """Nothing recorded it: it is none unless an option names it."""
    for options, codec in (((), 0), (("--codec", "lz4"), 3)):
        out = tmp_path / str(codec)
        code, _, _ = run("audit", *SEGMENTS, "--retention-minutes", 1, *options, "--out", out)
        assert code == 0
        files = list((out / "batches").glob("*.log"))
        assert {batch.codec for file in files for batch in read_batches(file.read_bytes())} == {codec}
    assert run("audit", *SEGMENTS, "--codec", "brotli", "--out", tmp_path / "x")[0] == 2
