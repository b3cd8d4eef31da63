"""`sexton explain` and `sexton diff`: the story of a group, the difference of two instants, as text and as JSON."""

import json
from pathlib import Path

import pytest

from sexton.lake import catalog as lake_catalog
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from tests.coordinator.golden import GOLDEN
from tests.log_builder import (
    BASE_MS,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    subscription,
    tombstone,
)
from tests.ui.lakes import as_table, lake_at
from tests.views.worlds import write_log, write_run

MINUTE_MS = 60_000


def at(minutes: int, *entries, **options) -> BatchSpec:
    return BatchSpec(entries=entries, timestamp_ms=BASE_MS + minutes * MINUTE_MS, **options)


def value(group_id: str, *members, since: int) -> tuple[bytes, bytes]:
    """A classic group, and since when it is what it is."""
    fields = classic_fields(*members, state_timestamp_ms=BASE_MS + since * MINUTE_MS)
    return group_entry(2, group_id, fields)


def committed(group_id: str, offset: int, minutes: int, topic: str = "t", partition: int = 0):
    return commit(group_id, offset, topic, partition, commit_timestamp_ms=BASE_MS + minutes * MINUTE_MS)


STORY = [
    at(0, value("g", ("m1", subscription("t")), since=0)),
    at(1, committed("g", 5, 1), committed("other", 1, 1)),
    at(2, committed("g", 6, 2), committed("g", 1, 2, "u")),
    at(3, value("g", since=3)),
    at(15, tombstone("g", "t"), tombstone("g", "u"), group_entry(2, "g", None), tombstone("other")),
    at(16, committed("g", 9, 16)),
]


@pytest.fixture
def story(tmp_path):
    return "--segments", write_log(tmp_path, {0: encode_log(STORY)}), "--partition-count", 1


def test_the_story_of_a_group(asked, story):
    told = asked("explain", "g", "--retention-minutes", 10, *story)
    assert (told["operation"], told["group_id"], told["log_partition"]) == ("explain", "g", 0)
    assert told["state"] == "simple group, Empty"
    events = [(event["what"], event["log_offset"], event["timestamp_ms"] - BASE_MS) for event in told["events"]]
    assert events == [
        ("appeared", 0, 0), ("became", 0, 0), ("committed", 1, MINUTE_MS), ("became", 5, 3 * MINUTE_MS),
        ("expired or group_deleted", 6, 15 * MINUTE_MS), ("removed", 8, 15 * MINUTE_MS), ("became", 10, 16 * MINUTE_MS),
        ("committed", 10, 16 * MINUTE_MS),
    ]  # fmt: skip
    details = [event["detail"] for event in told["events"]]
    assert details[1:4] == [
        "Classic group (consumer), Stable, 1 member",
        "3 commits of 2 partitions of t, u",
        "Classic group (consumer), Empty",
    ]
    assert details[4] == "all 2 offsets of the group and the group itself; in one write with 1 other group; due"
    assert details[7] == "1 commit of 1 partition of t"
    assert details[5] == "the group is deleted; with its offsets: expired or group_deleted"
    assert told["events"][5]["causes"] == ["expired", "group_deleted"]
    assert [offset["candidates"] for offset in told["events"][4]["offsets"]] == [["expired", "group_deleted"]] * 2
    left = {"topic": "t", "partition": 0, "committed_offset": 9, "reason": "not_due", "due_after_ms": None}
    assert told["next"] == [{**left, "expires_at_ms": BASE_MS + 26 * MINUTE_MS}]


def test_one_partition_and_some_hours(asked, story):
    told = asked("explain", "g", "u:0", *story)
    assert [event["what"] for event in told["events"]].count("committed") == 1
    assert [offset["topic"] for event in told["events"] for offset in event["offsets"]] == ["u"]
    assert told["next"] == []
    span = ("--from", BASE_MS + 2 * MINUTE_MS, "--to", BASE_MS + 15 * MINUTE_MS)
    assert [event["what"] for event in asked("explain", "g", *span, *story)["events"]] == ["became"]


def test_as_of(asked, story):
    told = asked("explain", "g", "--as-of", BASE_MS + 15 * MINUTE_MS, *story)
    assert [event["what"] for event in told["events"]] == ["appeared", "became", "committed", "became"]
    assert told["state"] == "Classic group (consumer), Empty"
    assert {one["expires_at_ms"] for one in told["next"]} == {BASE_MS + 3 * MINUTE_MS + 10_080 * MINUTE_MS}


def test_a_large_log_tells_the_same(asked, story, monkeypatch):
    some = [("explain", "g"), ("explain", "g", "t"), ("explain", "g", "--as-of", BASE_MS + 15 * MINUTE_MS)]
    small = [asked(*words, *story) for words in some]
    monkeypatch.setattr("sexton.history.log_story.PLAIN_BYTES", 0)
    assert [asked(*words, *story) for words in some] == small


@pytest.mark.parametrize("codec", range(5))
def test_compressed_logs(asked, tmp_path, codec, story):
    packed = "--segments", write_log(tmp_path / "packed", {0: encode_log(STORY, codec=codec)}), "--partition-count", 1
    assert asked("explain", "g", *packed) == asked("explain", "g", *story)


def test_the_story_is_printed(printed, story):
    told = printed("explain", "g", "--retention-minutes", 10, *story, "--profile", "group_coordinator")
    lines = told.splitlines()
    assert lines[0] == "g (log partition 0): simple group, Empty"
    assert lines[2].split() == ["WHEN", "LOG-OFFSET", "WHAT", "DETAIL"]
    assert "expired or group_deleted" in told
    assert lines[-1].split()[:3] == ["t", "0", "9"]


def test_a_group_that_was_never_there(run, story):
    code, out, _ = run("explain", "nobody", *story)
    assert (code, out) == (0, "nobody (log partition 0): no trace of it\n")


@pytest.mark.parametrize(
    "argv, code",
    [
        (("explain", "g", ":1"), 2), (("explain", "g", "t:x"), 2), (("explain", "g", "--as-of", "1"), 4),
        (("diff", "1", "2"), 4), (("diff", "yesterday", "2"), 2),
    ],
)  # fmt: skip
def test_exit_codes(run, story, argv, code):
    assert run(*argv, *story)[0] == code


def test_recordings_of_a_broker(asked):
    told = asked("explain", "simple-27", "--segments", GOLDEN / "kafka-4.3.1-plain" / "swept", "--retention-minutes", 1)
    assert [event["what"] for event in told["events"]][-2:] == ["expired or group_deleted", "removed"]
    assert told["state"] is None


def test_the_difference_of_two_instants(asked, story):
    told = asked("diff", BASE_MS + 2 * MINUTE_MS, BASE_MS + 20 * MINUTE_MS, *story)
    assert told["counts"] == {
        "groups": {"appeared": 0, "changed": 1, "disappeared": 0},
        "offsets": {"appeared": 0, "changed": 1, "disappeared": 1},
    }
    assert told["groups"] == [
        {"group_id": "g", "before": "Classic Stable 1", "after": "Classic Empty 0", "change": "changed", "cause": None}
    ]
    rows = [(row["group_id"], row["topic"], row["change"], row["before"], row["after"]) for row in told["offsets"]]
    assert rows == [("g", "t", "changed", 5, 9), ("other", "t", "disappeared", 1, None)]
    back = asked("diff", BASE_MS + 20 * MINUTE_MS, BASE_MS + 2 * MINUTE_MS, *story)
    assert back["counts"]["offsets"] == {"appeared": 1, "changed": 1, "disappeared": 0}
    same = asked("diff", BASE_MS + 20 * MINUTE_MS, BASE_MS + 20 * MINUTE_MS, *story)
    assert (same["groups"], same["offsets"]) == ([], [])


REMOVALS = [
    at(0, value("bare", since=0), value("busy", ("m1", subscription("t")), since=0), value("kept", since=0)),
    at(0, committed("kept", 1, 0), committed("deleted", 1, 0), committed("swept", 1, 0), committed("stays", 1, 0)),
    at(2, group_entry(2, "bare", None)),
    at(3, group_entry(2, "busy", None), group_entry(2, "kept", None)),
    at(4, tombstone("deleted", "t")),
    at(5, group_entry(2, "deleted", None)),
    at(6, tombstone("swept", "t"), group_entry(2, "swept", None)),
]
"""Groups that go in each way that a log can show; busy has a member, and kept an offset, so that no coordinator did."""


def test_every_removal_of_a_group_has_its_cause(asked, run, tmp_path):
    log = "--segments", write_log(tmp_path, {0: encode_log(REMOVALS)})
    removed = {
        name: [event["causes"] for event in asked("explain", name, *log)["events"] if event["what"] == "removed"]
        for name in ("bare", "busy", "kept", "deleted", "swept")
    }
    both = ["expired", "group_deleted"]
    assert removed == {"bare": [both], "busy": [[]], "kept": [[]], "deleted": [both], "swept": [both]}
    assert "no coordinator writes such a tombstone" in run("explain", "busy", *log)[1]
    told = asked("explain", "swept", "other-topic", *log)["events"]
    assert [event["detail"] for event in told if event["what"] == "removed"] == [
        "the group is deleted; with its offsets: expired or group_deleted"
    ]


def test_the_difference_has_the_cause_of_each_removal(asked, run, tmp_path):
    log = "--segments", write_log(tmp_path, {0: encode_log(REMOVALS)})
    told = asked("diff", BASE_MS + MINUTE_MS, BASE_MS + 20 * MINUTE_MS, *log)
    causes = {row["group_id"]: row["cause"] for row in told["groups"]}
    assert set(causes) == {"bare", "busy", "kept", "deleted", "swept"}
    assert causes["swept"] == causes["deleted"] == causes["bare"] == "expired or group_deleted"
    assert run("diff", BASE_MS + MINUTE_MS, BASE_MS + 20 * MINUTE_MS, *log)[1].count("expired or group_deleted") >= 3


def test_the_difference_is_printed(run, story):
    code, out, err = run("diff", BASE_MS + 2 * MINUTE_MS, BASE_MS + 20 * MINUTE_MS, "--limit", 1, *story)
    assert (code, err) == (0, "1 more (--limit 0 shows all)\n")
    assert out.splitlines()[:2] == [
        "groups: 0 appeared, 1 changed, 0 disappeared",
        "offsets: 0 appeared, 1 changed, 1 disappeared",
    ]


def test_the_difference_of_two_runs(asked, tmp_path):
    before, after = (
        write_run(tmp_path / f"run-{name}", segments=str(write_log(tmp_path / name, {0: encode_log(log)})))
        for name, log in (("a", STORY[:3]), ("b", STORY))
    )
    told = asked("diff", before, after)
    assert told["counts"]["offsets"] == {"appeared": 0, "changed": 1, "disappeared": 2}


def test_undecodable_records_are_told(run, tmp_path):
    log = [at(0, committed("g", 1, 0)), at(1, (b"\0\1", b"no value"))]
    segments = write_log(tmp_path, {0: encode_log(log)})
    code, _, err = run("diff", BASE_MS + 1, BASE_MS + 30 * MINUTE_MS, "--segments", segments)
    failed = (
        f"! log partition 0 at {BASE_MS + 30 * MINUTE_MS}: no coordinator can load it, so nothing in it is compared\n"
    )
    assert (code, err) == (5, f"{failed}! 1 undecodable records\n")


def test_the_only_record_of_a_group_is_shown_though_it_cannot_be_decoded(run, tmp_path):
    value = commit("g", 5)[1][:10]
    segments = write_log(tmp_path, {0: encode_log([at(0, committed("other", 1, 0), (commit("g")[0], value))])})
    code, out, _ = run("explain", "g", "--segments", segments, "--partition-count", 1)
    assert code == 5
    assert "undecodable  malformed_value: " in out
    assert f"value {value.hex()} (10 bytes)" in out


def test_what_is_not_due_of_a_topic_that_is_gone(asked, tmp_path):
    """Nobody can use it until then, and that is said instead."""
    topics = tmp_path / "topics.jsonl"
    topics.write_text('{"topic":"t","id":null,"partitions":[[0,9]]}\n', encoding="utf-8")
    log = encode_log([at(0, committed("g", 5, 0), committed("g", 5, 0, "gone"), committed("g", 5, 0, partition=1))])
    segments = "--segments", write_log(tmp_path / "log", {0: log}), "--partition-count", 1
    told = asked("explain", "g", *segments, "--topics", topics)["next"]
    assert {(row["topic"], row["partition"]): row["reason"] for row in told} == {
        ("gone", 0): "topic_gone", ("t", 0): "not_due", ("t", 1): "partition_gone",
    }  # fmt: skip
    assert {row["reason"] for row in asked("explain", "g", *segments)["next"]} == {"not_due"}


# --- published tables


@pytest.fixture
def lake(tmp_path, monkeypatch):
    made = lake_at(tmp_path)
    append(made, _published())
    monkeypatch.setattr(lake_catalog, "open_lake", lambda: made.lake)
    return made


def append(lake, tables):
    """Rows by table; each says of which run it is."""
    for name, rows in tables.items():
        lake.append(name, as_table(name, rows, RunKey(cluster_id="c", as_of_ms=BASE_MS, run_id="r")))


def _published():
    runs = [{"cluster_id": "c", "as_of_ms": BASE_MS + n * MINUTE_MS, "run_id": f"r{n}"} for n in (10, 20, 30)]
    key = {"group_id": "g", "topic": "t", "partition": 0, "log_partition": 0}
    group = {"group_id": "g", "group_type": "Classic", "protocol_type": "consumer", "log_partition": 0}
    empty = {name: [] for name in ("snapshots", "missing_log_partitions", "counts", "warnings")}
    lost = {"kind": "ambiguous", "candidates": ["expired", "deleted"], "old_committed_offset": 5, "log_offset": 7}
    return {
        "offset_changes": [
            {**runs[0], **key, "kind": "set", "new_committed_offset": 5, "log_offset": 1, "timestamp_ms": BASE_MS},
            {**runs[1], **key, **lost, "timestamp_ms": BASE_MS + 15 * MINUTE_MS, "evidence": "all 1 offsets"},
            {**runs[1], "run_id": "unpublished", **key, **lost, "timestamp_ms": 1, "evidence": "never"},
        ],
        "groups": [
            {**runs[0], **group, "state": "Stable", "member_count": 2},
            {**runs[1], **group, "state": "Empty", "member_count": 0},
            {**runs[2], **group, "state": "Empty", "member_count": 0},
        ],
        "offset_verdicts": [{**runs[2], **key, "broker_reason": "not_due", "broker_expires_at_ms": BASE_MS}],
        "committed_offsets": [{**runs[0], **key, "committed_offset": 5}, {**runs[2], **key, "committed_offset": 8}],
        "runs": [{**run, **empty, "cuts": [{"log_partition": 0, "cut": 9}]} for run in runs],
    }


def test_the_story_by_published_tables(asked, lake):
    told = asked("explain", "g")
    assert (told["cluster_id"], told["as_of_ms"]) == ("c", BASE_MS + 30 * MINUTE_MS)
    events = [(event["what"], event["timestamp_ms"] - BASE_MS, event["detail"]) for event in told["events"]]
    assert events == [
        ("became", 10 * MINUTE_MS, "Classic group (consumer), Stable, 2 members"),
        ("set", 10 * MINUTE_MS, "1 offset set to another value than when the interval began"),
        ("expired or deleted", 15 * MINUTE_MS, "all 1 offsets"),
        ("became", 20 * MINUTE_MS, "Classic group (consumer), Empty"),
    ]
    assert [(one["committed_offset"], one["reason"]) for one in told["next"]] == [(8, "not_due")]
    assert asked("explain", "g", "u")["next"] == []
    assert asked("explain", "nobody")["events"] == []


def test_the_story_by_published_tables_up_to_an_instant(asked, run, lake):
    told = asked("explain", "g", "--as-of", BASE_MS + 12 * MINUTE_MS)
    assert [event["what"] for event in told["events"]] == ["became", "set"]
    assert run("explain", "g", "--as-of", "1")[0] == 4
    assert "published tables" in run("explain", "g")[1]


def test_published_runs_name_the_group_that_blocks_the_sweep(asked, run, lake):
    assert (asked("explain", "g")["sweep_blocked"], asked("explain", "g")["log_partition"]) == (None, 0)
    newest = {"cluster_id": "c", "as_of_ms": BASE_MS + 30 * MINUTE_MS, "run_id": "r30"}
    rows = [
        {**newest, "log_partition": 0, "sweep_blocked_by": "stuck", "sweep_blocked_from_ms": BASE_MS},
        {**newest, "log_partition": 1, "sweep_blocked_by": "elsewhere"},
        {**newest, "run_id": "unpublished", "log_partition": 0, "sweep_blocked_by": "never"},
    ]
    append(lake, {"load_profile": rows})
    assert asked("explain", "g")["sweep_blocked"] == {"group_id": "stuck", "from_ms": BASE_MS}
    out = run("explain", "g")[1]
    assert "The cause is group stuck; what to do: docs/operations.md" in out
    assert asked("explain", "g", "--as-of", BASE_MS + 12 * MINUTE_MS)["sweep_blocked"] is None


def test_published_runs_say_that_no_coordinator_has_the_group(asked, run, lake):
    newest = {"cluster_id": "c", "as_of_ms": BASE_MS + 30 * MINUTE_MS, "run_id": "r30", "log_partition": 0}
    assert asked("explain", "g")["is_held"]
    append(lake, {"load_profile": [{**newest, "load_outcome": "empty_cache"}]})
    told = asked("explain", "g")
    assert (told["is_held"], told["state"]) == (False, "Classic group (consumer), Empty")
    assert run("explain", "g")[1].startswith("g (published tables): no coordinator has it\n")


def test_the_difference_of_published_runs(asked, run, lake):
    told = asked("diff", BASE_MS + 10 * MINUTE_MS, BASE_MS + 35 * MINUTE_MS)
    assert told["counts"]["offsets"] == {"appeared": 0, "changed": 1, "disappeared": 0}
    assert told["groups"][0]["before"] == "Classic Stable 2"
    assert run("diff", "1", "2")[0] == 4


def test_a_published_run_has_nothing_of_a_failed_load(asked, run, lake):
    failed = {"cluster_id": "c", "as_of_ms": BASE_MS + 30 * MINUTE_MS, "run_id": "r30", "log_partition": 0}
    append(lake, {"load_profile": [{**failed, "load_would_fail": True, "load_outcome": "empty_cache"}]})
    code, told, _ = run("diff", BASE_MS + 10 * MINUTE_MS, BASE_MS + 35 * MINUTE_MS, "--json")
    found = json.loads(told)
    groups = [(row["change"], row["cause"]) for row in found["groups"]]
    assert (code, groups) == (5, [("disappeared", "load_would_fail")])
    assert (found["failed_loads"]["after"], found["counts"]["offsets"]["disappeared"]) == ([0], 1)


def test_published_runs_have_the_cause_of_a_removal(asked, lake):
    later = {"cluster_id": "c", "as_of_ms": BASE_MS + 40 * MINUTE_MS, "run_id": "r40"}
    empty = {"snapshots": [], "cuts": [{"log_partition": 0, "cut": 12}], "missing_log_partitions": [], "counts": []}
    lost = {"kind": "group_deleted", "old_committed_offset": 8, "log_offset": 11, "timestamp_ms": later["as_of_ms"] - 1}
    key = {"group_id": "g", "topic": "t", "partition": 0, "log_partition": 0}
    rows = {
        "offset_changes": [{**later, **key, **lost, "evidence": "the only offset of the group"}],
        "runs": [{**later, **empty, "warnings": [], "profile": "group_coordinator:4.3.1"}],
    }
    append(lake, rows)
    (removed,) = [event for event in asked("explain", "g")["events"] if event["what"] == "removed"]
    assert removed["causes"] == ["group_deleted"]
    told = asked("diff", BASE_MS + 30 * MINUTE_MS, BASE_MS + 40 * MINUTE_MS)
    assert [(row["change"], row["cause"]) for row in told["groups"]] == [("disappeared", "group_deleted")]


@pytest.fixture
def second_cluster(lake):
    """Puts runs of another cluster into the lake, each newer than one of the first, with other offsets."""

    def publish():
        for name, rows in _published().items():
            moved = [{**row, "cluster_id": "d", "as_of_ms": row["as_of_ms"] + 1} for row in rows]
            for row in moved if name == "committed_offsets" else ():
                row["committed_offset"] += 100
            append(lake, {name: moved})

    return publish


@pytest.mark.parametrize(
    "words", [("explain", "g"), ("diff", BASE_MS + 11 * MINUTE_MS, BASE_MS + 35 * MINUTE_MS)], ids=["explain", "diff"]
)
def test_published_tables_of_several_clusters(run, refused, second_cluster, words):
    """One has to be named: the newest run may be of another cluster than the one that is meant."""
    alone = run(*words, "--json")
    second_cluster()
    err = refused(2, *words, "--json")
    assert "the published tables hold several clusters: c, d" in err
    assert "name one with --cluster-id" in err
    assert run(*words, "--cluster-id", "c", "--json") == alone
    other = run(*words, "--cluster-id", "d", "--json")
    assert (alone[0], other[0]) == (0, 0)
    assert "108" in other[1]
    assert "108" not in alone[1]
    assert run(*words, "--cluster-id", "nobody")[0] == 4


@pytest.mark.parametrize("words", [("forecast",), ("what-if", "--retention-minutes", "1")], ids=["forecast", "what-if"])
def test_a_forecast_is_of_one_published_cluster(run, refused, second_cluster, words):
    second_cluster()
    assert "the published tables hold several clusters: c, d" in refused(2, *words)
    assert "several clusters" not in run(*words, "--cluster-id", "c")[2]


def test_runs_are_of_one_cluster(refused, story, tmp_path):
    assert "a run belongs to one cluster" in refused(2, "diff", tmp_path, tmp_path, "--cluster-id", "c")


def test_without_a_lake_there_is_no_coverage(run, tmp_path, monkeypatch):
    nowhere = Lake(properties={"type": "jdbc", "uri": f"jdbc:sqlite:{Path(tmp_path) / 'none.db'}"})
    monkeypatch.setattr(lake_catalog, "open_lake", lambda: nowhere)
    assert run("explain", "g")[0] == 4
