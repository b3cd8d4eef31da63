"""The numbers of a summary, counted against rows written by hand."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sexton.errors import UsageError
from sexton.report import write_report
from sexton.summary import arrow_counts
from sexton.summary import summarize as summarize_module
from sexton.summary.arrow_counts import TOP
from sexton.summary.summarize import MAX_BINS, MAX_SPAN_MS, bin_width_ms, summarize
from sexton.summary.summary import Summary, outcome
from tests.report.run_folder import (
    AS_OF_MS,
    DAY_MS,
    HOSTILE_NAMES,
    HOUR_MS,
    JUDGED,
    LAG,
    POLICY,
    REPLICAS,
    TRANSACTIONS,
    Row,
    due,
    group,
    kept,
    offsets_of,
    write_run_folder,
)

VERDICTS = [
    due("a", 0), due("a", 1), due("b", 0), kept("a", 2, "not_due", HOUR_MS), kept("a", 3, "not_due", HOUR_MS + 1),
    kept("b", 1, "not_due", DAY_MS), kept("b", 2, "not_due", 8 * DAY_MS), kept("c", 0, "not_due", 400 * DAY_MS),
    kept("c", 1, "subscribed"), kept("c", 2, "subscribed"), kept("c", 3, "pending_transaction"),
]  # fmt: skip


def test_every_live_offset_is_in_one_place(tmp_path: Path) -> None:
    found = summarize(
        write_run_folder(tmp_path, {"offset_verdicts": VERDICTS, "committed_offsets": offsets_of(VERDICTS)})
    )
    expiring = found.expiring
    assert {bucket.label: bucket.offsets for bucket in expiring.buckets} == {
        "now": 3, "within 1 hour": 1, "within 1 day": 2, "within 7 days": 0, "within 30 days": 1, "later": 1,
    }  # fmt: skip
    assert expiring.never == {"subscribed": 2, "pending_transaction": 1}
    assert expiring.due_by_reason == {"expired": 3}
    in_buckets = sum(bucket.offsets for bucket in expiring.buckets)
    assert in_buckets + sum(expiring.never.values()) == found.offsets.live == len(VERDICTS)
    line = expiring.timeline
    assert line.due + sum(line.offsets) + line.later == in_buckets
    assert found.due == 3


@pytest.mark.parametrize(
    "after_ms, bars, later",
    [
        ([1], 1, 0), ([HOUR_MS - 1] * 3, 60, 0), ([7 * DAY_MS] * 5, 57, 0), ([HOUR_MS] * 200 + [2**62], 31, 1),
        ([2**63 - 1 - AS_OF_MS], 0, 1),
    ],
    ids=["one", "an hour", "a week", "one far away", "the end of time"],
)  # fmt: skip
def test_timeline(tmp_path: Path, after_ms: list[int], bars: int, later: int) -> None:
    verdicts = [kept("g", number, "not_due", after) for number, after in enumerate(after_ms)]
    line = summarize(write_run_folder(tmp_path, {"offset_verdicts": verdicts})).expiring.timeline
    assert (len(line.offsets), line.later) == (bars, later)
    assert sum(line.offsets) == len(after_ms) - later
    number = min(after_ms) // line.bin_ms
    if number < len(line.offsets):
        assert line.offsets[number] > 0


@pytest.mark.parametrize("span_ms", [1, 60_000, HOUR_MS, DAY_MS, 7 * DAY_MS, MAX_SPAN_MS])
def test_bars_cover_any_span(span_ms: int) -> None:
    assert span_ms // bin_width_ms(span_ms) < MAX_BINS


def test_groups(tmp_path: Path) -> None:
    groups = [
        group("a", 4, pending_count=1), group("b", 3), group("c", 4, state="Stable", member_count=2),
        group("d", 0, group_type="Consumer", log_partition=1), group("e", 0, pending_count=7),
    ]  # fmt: skip
    found = summarize(write_run_folder(tmp_path, {"groups": groups, "offset_verdicts": VERDICTS}))
    assert found.group_count == 5
    counted = {(count.group_type, count.state): (count.groups, count.offsets) for count in found.groups}
    assert counted == {("Classic", "Empty"): (3, 7), ("Classic", "Stable"): (1, 4), ("Consumer", "Empty"): (1, 0)}
    assert [line.group_id for line in found.biggest_groups.rows] == ["a", "c", "b", "e"]
    assert found.biggest_groups.total == 4
    a, c = found.biggest_groups.rows[:2]
    assert (a.offsets, a.due, a.pending, a.next_expiry_ms) == (4, 2, 1, AS_OF_MS + HOUR_MS)
    assert (c.due, c.members, c.next_expiry_ms) == (0, 2, AS_OF_MS + 400 * DAY_MS)
    assert [(line.group_id, line.due) for line in found.losing_groups.rows] == [("a", 2), ("b", 1)]


def test_the_same_group_id_in_two_log_partitions(tmp_path: Path) -> None:
    groups = [group("a", 1), group("a", 5, log_partition=1)]
    found = summarize(write_run_folder(tmp_path, {"groups": groups, "offset_verdicts": [due("a", 0)]}))
    assert [(line.log_partition, line.due) for line in found.biggest_groups.rows] == [(1, 0), (0, 1)]
    assert [line.log_partition for line in found.losing_groups.rows] == [0]


def test_long_lists_say_what_they_leave_out(tmp_path: Path) -> None:
    groups = [group(f"g{number:03}", number) for number in range(1, 101)]
    found = summarize(write_run_folder(tmp_path, {"groups": groups})).biggest_groups
    assert (len(found.rows), found.total, found.hidden) == (TOP, 100, 100 - TOP)
    assert [line.offsets for line in found.rows] == list(range(100, 100 - TOP, -1))


def test_plan(tmp_path: Path) -> None:
    rows = [{"cause": "broker_retention", "record_type": 1}] * 3 + [{"cause": "group_empty", "record_type": 2}]
    found = summarize(write_run_folder(tmp_path, {"tombstones": rows}))
    assert found.tombstone_count == 4
    assert [(t.cause, t.record_type, t.tombstones) for t in found.tombstones] == [
        ("broker_retention", 1, 3),
        ("group_empty", 2, 1),
    ]
    assert found.tombstones[0].record_name == "OffsetCommit"


def test_open_transactions(tmp_path: Path) -> None:
    producer = {"log_partition": 0, "producer_epoch": 1, "first_log_offset": 5}
    rows = [
        {**producer, "producer_id": 7, "first_timestamp_ms": AS_OF_MS - 10, "group_ids": ["a", "b"]},
        {**producer, "producer_id": 8, "first_timestamp_ms": AS_OF_MS - DAY_MS, "group_ids": ["b"]},
        {**producer, "producer_id": 9, "first_timestamp_ms": -1, "group_ids": []},
    ]
    pending = [{"producer_id": 7, "log_partition": 0}] * 2 + [{"producer_id": 7, "log_partition": 1}]
    found = summarize(write_run_folder(tmp_path, {"open_transactions": rows, "pending_offsets": pending}))
    told = {item.producer_id: (item.age_ms, item.pending_offsets) for item in found.open_transactions.rows}
    assert told == {7: (10, 2), 8: (DAY_MS, 0), 9: (None, 0)}
    assert found.pinned_groups == 2
    assert found.offsets.pending == 3


def test_log_partitions(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"log_partition": 1, "records": 0, "live_records": 0},
        {"log_partition": 0, "garbage_share": 0.75, "load_would_fail": True, "load_failure": "why"},
    ]
    bad: list[Row] = [{"log_partition": 0, "reason": "bad_crc"}, {"log_partition": 0, "reason": "malformed_value"}] * 2
    folder = write_run_folder(tmp_path, {"load_profile": rows, "undecodable_records": bad}, blocked={0: "4 bad"})
    zero, one = summarize(folder).log_partitions
    assert (zero.garbage_share, zero.undecodable, zero.load_failure, zero.blocked) == (0.75, 4, "why", "4 bad")
    assert (one.garbage_share, one.undecodable, one.load_would_fail, one.blocked) == (None, 0, False, None)
    assert summarize(folder).undecodable_by_reason == {"bad_crc": 2, "malformed_value": 2}


def test_undecodable_records_without_a_row_are_counted(tmp_path: Path) -> None:
    rows: list[Row] = [{"log_partition": 0, "undecodable_records": 70_000}]
    bad: list[Row] = [{"log_partition": 0, "reason": "bad_crc"}] * 3
    found = summarize(write_run_folder(tmp_path, {"load_profile": rows, "undecodable_records": bad}))
    assert (found.undecodable.total, found.log_partitions[0].undecodable, found.exit_code) == (70_000, 70_000, 5)
    assert "70,000 undecodable records" in found.exit_reason


def test_fates(tmp_path: Path) -> None:
    rows = [{"log_partition": 0, "live": 3, "superseded": 9}, {"log_partition": 1, "live": 1, "pending": 2}]
    found = summarize(write_run_folder(tmp_path, {"load_profile": rows}))
    assert found.fates == {"live": 4, "superseded": 9, "pending": 2}


ORPHANS = [("gone", "topic_gone"), ("there", None), ("gone", "topic_gone"), ("there", "partition_gone")]


def test_orphans_need_recorded_topics(tmp_path: Path) -> None:
    verdicts = [
        {**kept("g", number, "not_due", 1, topic), "orphan": kind} for number, (topic, kind) in enumerate(ORPHANS)
    ]
    tables: dict[str, list[Row]] = {"offset_verdicts": verdicts}
    found = summarize(write_run_folder(tmp_path / "with", tables, has_topics=True, sees_all_topics=True))
    assert found.orphans is not None
    assert [(item.topic, item.kind, item.offsets) for item in found.orphans.rows] == [
        ("gone", "topic_gone", 2),
        ("there", "partition_gone", 1),
    ]
    assert (found.orphan_offsets, found.oddities.orphans_by_kind) == (3, {"topic_gone": 2, "partition_gone": 1})
    assert found.oddities.sees_all_topics
    without = summarize(write_run_folder(tmp_path / "without"))
    assert (without.orphans, without.orphan_offsets) == (None, 0)


def test_what_else_is_odd_about_offsets(tmp_path: Path) -> None:
    odd = [{"pinned_by_producer_id": 7}, {"left_topic": True}, {"behind_log_start": True}, {"behind_log_start": False}]
    verdicts = [
        kept("g", 9, "pending_transaction") | {"pinned_by_producer_id": 7},
        *(kept("g", number, "not_due", 1) | columns for number, columns in enumerate(odd)),
    ]
    found = summarize(write_run_folder(tmp_path, {"offset_verdicts": verdicts})).oddities
    assert (found.pinned, found.pinned_due, found.left_topic, found.behind_log_start) == (2, 1, 1, 1)


def test_what_a_policy_makes_of_it(tmp_path: Path) -> None:
    found = summarize(write_run_folder(tmp_path, {"offset_verdicts": JUDGED}, policy=POLICY.canonical)).policy
    assert found is not None
    assert (found.sha256, found.expire, found.hold, found.keep, found.unmatched) == (POLICY.sha256, 2, 1, 2, 1)
    assert [(row.name, row.is_hold, row.owner, row.ticket) for row in found.entries.rows] == [
        ("ci", False, "build", "OPS-1"),
        ("litigation", True, "legal", None),
    ]
    assert [(row.groups, row.expire, row.keep, row.hold) for row in found.entries.rows] == [(2, 2, 1, 0), (1, 0, 0, 1)]
    assert [(row.owner, row.expire, row.keep, row.hold) for row in found.owners.rows] == [
        ("build", 2, 1, 0),
        ("legal", 0, 0, 1),
    ]
    assert summarize(write_run_folder(tmp_path / "none", {"offset_verdicts": JUDGED})).policy is None


def test_failed_checks_come_first(tmp_path: Path) -> None:
    def check(expectation: str, severity: str, success: bool) -> dict[str, object]:
        return {"table": "groups", "expectation": expectation, "severity": severity, "success": success}

    rows = [check("a", "critical", True), check("b", "warning", False), check("c", "critical", False)]
    found = summarize(write_run_folder(tmp_path, {"dq_results": rows}))
    assert [result.expectation for result in found.checks] == ["c", "b", "a"]
    assert [result.expectation for result in found.failed_checks] == ["c", "b"]
    assert found.exit_code == 3


@pytest.mark.parametrize(
    "undecodable, checks, failed, code",
    [(0, 9, 0, 0), (0, 9, 1, 3), (1, 9, 0, 5), (1, 9, 1, 5), (0, 0, 0, 3)],
    ids=["fine", "data quality", "undecodable", "both", "nothing was checked"],
)
def test_outcome(undecodable: int, checks: int, failed: int, code: int) -> None:
    assert outcome(undecodable=undecodable, checks=checks, failed_critical=failed)[0] == code


def test_empty_tables(tmp_path: Path) -> None:
    found = summarize(write_run_folder(tmp_path))
    assert (found.exit_code, found.group_count, found.offsets.live, found.due) == (0, 0, 0, 0)
    assert found.expiring.timeline.offsets == []


@pytest.mark.parametrize("missing", ["groups", "offset_verdicts", "dq_results"])
def test_a_missing_table_is_named(tmp_path: Path, missing: str) -> None:
    write_run_folder(tmp_path)
    (tmp_path / missing / "0.parquet").unlink()
    with pytest.raises(UsageError, match=f"no {missing} table"):
        summarize(tmp_path)


def test_no_run_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run here"):
        summarize(tmp_path)


def test_the_newest_audits_are_named(tmp_path: Path) -> None:
    without = summarize(write_run_folder(tmp_path / "without"))
    assert (without.replicas, without.transactions, without.lag) == (None, None, None)
    audits = {"replicas": REPLICAS, "transactions": TRANSACTIONS, "lag": LAG}
    written = write_report(write_run_folder(tmp_path / "with", **audits))
    assert (written.replicas, written.transactions, written.lag) == (REPLICAS, TRANSACTIONS, LAG)
    assert Summary.model_validate_json((tmp_path / "with" / "summary.json").read_bytes()) == written


def test_written_and_read_again(tmp_path: Path) -> None:
    groups = [group(name, 1) for name in HOSTILE_NAMES]
    written = write_report(write_run_folder(tmp_path, {"groups": groups}))
    text = (tmp_path / "summary.json").read_bytes()
    assert text.isascii()
    assert Summary.model_validate_json(text) == written
    told = {row["group_id"] for row in json.loads(text)["biggest_groups"]["rows"]}
    assert told <= set(HOSTILE_NAMES)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    groups = [group(f"g{number % 50}", 7, log_partition=number % 3) for number in range(150)]
    verdicts = [due(f"g{number % 50}", number) for number in range(300)]
    for folder in ("one", "two"):
        write_report(write_run_folder(tmp_path / folder, {"groups": groups, "offset_verdicts": verdicts}))
        groups, verdicts = groups[::-1], verdicts[::-1]
    for name in ("summary.json", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_many_offsets_stay_in_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, only the few rows of a list ever become Python objects."""
    verdicts = [due(f"g{number % 50}", number) for number in range(3_000)]
    groups = [group(f"g{number}", 60) for number in range(50)]
    write_run_folder(tmp_path, {"groups": groups, "offset_verdicts": verdicts})
    sizes: list[int] = []
    as_python = arrow_counts.rows_of

    def counted(table: pa.Table) -> list[dict[str, Any]]:
        sizes.append(table.num_rows)
        return as_python(table)

    for module in (arrow_counts, summarize_module):
        monkeypatch.setattr(module, "rows_of", counted)
    found = summarize_module.summarize(tmp_path)
    assert (found.expiring.buckets[0].offsets, found.losing_groups.rows[0].due) == (3_000, 60)
    assert 0 < max(sizes) <= 100
